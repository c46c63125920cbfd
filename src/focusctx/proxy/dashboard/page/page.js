// The page: follows the news, and shows what the address asks for: #/, #/sessions/ID or #/sessions/ID/events/N.

import { el, say, tell } from "./dom.js";
import { eventView } from "./event.js";
import { listView } from "./list.js";
import { follow, send } from "./server.js";
import { sessionView } from "./session.js";
import { count, many } from "./words.js";

const place = (id) => document.getElementById(id);
const state = { about: null, callers: [], sessions: new Map() };
let view = null;

function onConnection(kind) {
  place("connection").dataset.kind = kind;
  say(place("connection"), kind === "live" ? "live" : "not connected: trying again …");
}

function onNews(news) {
  const first = state.about === null;
  const before = state.sessions;
  const changed = new Set(news.gone);
  state.callers = news.callers;
  if (news.about) {
    // A new connection, perhaps to a proxy that was started again: what it does not name is gone.
    for (const id of before.keys()) changed.add(id);
    state.sessions = new Map();
    state.about = news.about;
    introduce(news.about);
  }
  for (const id of news.gone) state.sessions.delete(id);
  for (const session of news.sessions) {
    changed.add(session.id);
    if (!first) announce(before.get(session.id), session);
    state.sessions.set(session.id, session);
  }
  if (first) show();
  else view.update(changed);
}

function introduce(about) {
  place("logout").hidden = !about.login;
  const target = about.target === null ? "" : `, target after an event ${count(about.target)}`;
  const sizes = `budget ${count(about.budget)} tokens${target}`;
  say(place("about"), `focusctx ${about.version}, draft ${about.draft}, ${sizes}; ${about.rule}.`);
  document.querySelector(".dry-run")?.remove();
  if (about.dry_run) {
    const words = "Requests are forwarded unchanged. This page shows what would have been left out, and saved.";
    place("main").prepend(el("p", { class: "notice dry-run" }, el("strong", {}, "Dry run. "), words));
  }
}

function announce(before, now) {
  const fresh = now.events - (before?.events ?? 0);
  if (!before) tell(`New session: ${now.model}`);
  else if (fresh > 0) tell(`${many(fresh, "new event")} in session ${now.model}`);
}

function show(moved) {
  const [, id, number] = /^#\/sessions\/([0-9a-f]+)(?:\/events\/(\d+))?$/.exec(location.hash) ?? [];
  const shown = place("view");
  view?.leave?.();
  shown.replaceChildren();
  const make = number ? eventView : id ? sessionView : listView;
  view = make(shown, { state, id, number: Number(number), title });
  if (moved) {
    scrollTo({ top: 0, behavior: "instant" });
    shown.querySelector("h1")?.focus();
  }
}

// The heading, the window's name and the way back, all at once.
function title(text, ...trail) {
  document.title = `${text} · focusctx`;
  const links = trail.map(([name, href]) => el("li", {}, el("a", { href }, el("bdi", {}, name))));
  place("trail").replaceChildren(el("li", {}, "focusctx"), ...links);
  return el("h1", { tabindex: "-1" }, text);
}

addEventListener("hashchange", () => state.about && show(true));
place("logout").addEventListener("click", async () => {
  await send("logout");
  location.reload();
});
follow(onNews, onConnection);
