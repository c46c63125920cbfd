// All sessions, the one that was active last on top.

import { el, figures, Keyed, say } from "./dom.js";
import { count, headline, many, money, percent, saved, since } from "./words.js";

const columns = (would) => ["session", "tokens now", `${would}saved`, `net ${would}saved`, "events", "last activity"];

export function listView(main, { state, title }) {
  const would = state.about.dry_run ? "would be " : "";
  const names = columns(would);
  const tiles = figures("tiles", ["sessions", `input tokens that ${would || "were "}saved`, `net ${would}saved`]);
  const body = el("tbody", { role: "rowgroup" });
  const rows = new Keyed(body, (session) => row(session, names));
  let order = new Map();
  // The roles are written out because narrow windows show rows as cards, and a browser then forgets the table.
  const table = el(
    "table",
    { role: "table", "aria-label": "Sessions, the last active first", class: "sessions" },
    el(
      "thead",
      { role: "rowgroup" },
      el(
        "tr",
        { role: "row" },
        names.map((name) => el("th", { role: "columnheader", scope: "col" }, name)),
      ),
    ),
    body,
  );
  const callers = callersTable(would);
  const full = el("div", {}, tiles.node, table, callers.node);
  const empty = welcome(state.about);
  main.append(title("Sessions"), full, empty);

  function update() {
    const sessions = [...state.sessions.values()].sort((one, other) => other.active - one.active);
    const sum = (name) => sessions.reduce((total, session) => total + (session[name] ?? 0), 0);
    const priced = sessions.some((session) => session.net !== null);
    const unpriced = sessions.some((session) => session.unpriced);
    full.hidden = !sessions.length;
    empty.hidden = Boolean(sessions.length);
    tiles.set([
      [count(sessions.length), "in memory"],
      [count(sum("tokens_saved")), "since the start, over all calls"],
      unpriced
        ? ["unknown", "the draft's price is not known"]
        : [priced ? money(sum("net")) : "unknown", priced ? "drafts and re-reads paid" : "no model with a known price"],
    ]);
    // Rows do not move while the pointer is on one.
    if (table.matches(":hover, :focus-within")) {
      const rank = (session) => order.get(session.id) ?? -1;
      sessions.sort((one, other) => rank(one) - rank(other));
    }
    order = new Map(sessions.map((session, place) => [session.id, place]));
    rows.show(sessions.map((session) => [session.id, session]));
    callers.update(state.callers);
  }

  update();
  return { update };
}

function row(session, names) {
  const link = el("a", { href: `#/sessions/${session.id}` }, el("bdi", {}, session.model || "(no model named)"));
  const about = el("small", {}, [session.caller, session.upstream, session.id].filter(Boolean).join(" · "));
  const cell = (place, ...children) => el("td", { role: "cell", "data-label": names[place] }, ...children);
  const tokens = el("span");
  const share = el("span");
  const level = el("span");
  const net = el("span");
  const events = el("span");
  const requests = el("small");
  const waits = el("small", { class: "waits" });
  const active = el("time");
  const node = el(
    "tr",
    { role: "row" },
    el("th", { role: "rowheader", scope: "row" }, link, about),
    cell(1, tokens),
    cell(2, el("span", { class: "meter kept", "aria-hidden": "true" }, level), " ", share),
    cell(3, net),
    cell(4, events, requests, waits),
    cell(5, active),
  );
  const update = (now) => {
    const part = saved(now.full, now.sent);
    say(tokens, `${now.exact ? "" : "about "}${count(now.full)} → ${count(now.sent)}`);
    say(share, percent(part));
    level.style.width = percent(Math.max(part, 0));
    say(net, now.net === null ? "unknown" : money(now.net));
    say(events, count(now.events));
    say(requests, ` in ${many(now.requests, "request")}`);
    say(waits, now.waits ? waiting(now.waits) : "");
    since(active, now.active);
  };
  return { node, update };
}

// Totals of the callers that have a token of their own.
function callersTable(would) {
  const names = ["caller", "budget", "requests", "events", `tokens ${would}saved`, `net ${would}saved`];
  const head = names.map((name) => el("th", { role: "columnheader", scope: "col" }, name));
  const body = el("tbody", { role: "rowgroup" });
  const table = el(
    "table",
    { role: "table", "aria-labelledby": "callers", class: "sessions" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)),
    body,
  );
  const node = el("section", {}, el("h2", { id: "callers" }, "Callers"), table);
  const update = (callers) => {
    node.hidden = !callers.length;
    body.replaceChildren(
      ...callers.map((caller) => {
        const cells = [
          caller.budget === null ? "as usual" : count(caller.budget),
          count(caller.requests),
          count(caller.events),
          count(caller.tokens_saved),
          caller.net === null ? "unknown" : money(caller.net),
        ];
        return el(
          "tr",
          { role: "row" },
          el("th", { role: "rowheader", scope: "row" }, el("bdi", {}, caller.name)),
          cells.map((cell, place) => el("td", { role: "cell", "data-label": names[place + 1] }, cell)),
        );
      }),
    );
  };
  return { node, update };
}

// Why a session over budget has no event yet.
const waiting = (cause) => (cause === "money" ? "waits: does not pay yet" : headline(cause).toLowerCase());

// What to do when nothing has come yet.
function welcome(about) {
  const lines = Object.entries(about.base_urls).map(([name, path]) => `export ${name}=${location.origin}${path}`);
  return el(
    "section",
    { class: "welcome" },
    el("p", {}, `No agent has called yet. Start yours with ${lines.length > 1 ? "one of these" : "this"}, and it appears here:`),
    el("pre", { tabindex: "0", role: "group", "aria-label": "What to set" }, lines.join("\n")),
    about.token &&
      el("p", {}, "The proxy has an access token: the agent sends it in the header ", el("code", {}, about.token), "."),
  );
}
