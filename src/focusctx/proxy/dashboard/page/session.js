// One session: what it saves now, how that came about, every event, and every look that led to none, with its reason.

import { el, figures, Keyed, say } from "./dom.js";
import { figure } from "./figure.js";
import { leftOutNow } from "./leftout.js";
import { ask, atMostEvery } from "./server.js";
import { count, many, moment, money, name, percent, saved, shortened, since, size } from "./words.js";

export function sessionView(main, { state, id, title }) {
  let built = null;
  let here = true;

  const refresh = atMostEvery(1000, async () => {
    try {
      const session = await ask(`sessions/${id}`);
      if (!here) return;
      main.querySelector(".problem")?.remove();
      if (!built) {
        const focused = main.contains(document.activeElement);
        main.replaceChildren();
        built = build(main, session, state.about, title);
        if (focused) main.querySelector("h1").focus();
      }
      built.update(session);
    } catch (error) {
      if (here) main.querySelector("h1").after(problem(main, error));
    }
  });

  main.append(title("Session", ["sessions", "#/"]));
  refresh();
  return {
    update: (changed) => changed.has(id) && refresh(),
    leave: () => {
      here = false;
      built?.leave();
    },
  };
}

// What went wrong, once: what was shown before stays.
function problem(main, error) {
  main.querySelector(".problem")?.remove();
  return el("p", { class: "notice problem" }, `${error.message}.`);
}

function build(main, session, about, title) {
  const would = about.dry_run ? "would be " : "";
  const href = (number) => `#/sessions/${session.id}/events/${number}`;
  const tiles = figures("tiles", ["whole history", `${would}sent`, `${would}saved`, `net ${would}saved`, "events", "regrets"]);
  const facts = figures("facts", [
    "upstream",
    "format",
    "caller",
    "started",
    "saved by sending less",
    "paid for sketches",
    "for re-reads",
    "for recalls",
    "added per request",
  ]);
  const active = el("time");
  const picture = figure(session, about, href);
  const events = el("ol", { class: "events", reversed: true });
  const log = new Keyed(events, (event) => entry(event, about, href));
  const summary = el("p");
  const before = el("p", {}, "What was left out was decided before the proxy was started, or by another one.");
  const over = el("p", { class: "notice" });
  const leftOut = leftOutNow(session.id, about);

  main.append(
    title(session.model || "(no model named)", ["sessions", "#/"]),
    el("p", { class: "brand under" }, `session ${session.id}, last active `, active),
    over,
    tiles.node,
    facts.node,
    picture.node,
    leftOut.node,
    el("section", {}, el("h2", {}, "Events"), summary, before, events),
  );

  function update(now) {
    const left = now.log.reduce((sum, event) => sum + (event.happened ? 0 : event.repeated), 0);
    const known = now.net !== null;
    const lacks = now.unpriced ? "the draft's price is not known" : "the model's price is not known";
    const priced = known || now.unpriced;
    const dollars = (name) => [priced ? (now.money[name] === null ? "unknown" : money(now.money[name])) : null];
    tiles.set([
      [count(now.full), now.exact ? "tokens now" : "tokens now, about"],
      [count(now.sent), now.exact ? "tokens now" : "tokens now, about"],
      [percent(saved(now.full, now.sent)), "of the tokens"],
      [known ? money(now.net) : "unknown", known ? "drafts and re-reads paid" : lacks],
      [count(now.events), `in ${many(now.requests, "request")}`],
      [count(now.regrets), "look-ups made again after their result was cut"],
    ]);
    const words = aboveTarget(now.log);
    over.hidden = !words;
    say(over, words);
    leftOut.update(now);
    facts.set([
      [now.upstream],
      [now.format],
      [now.caller],
      [new Date(1000 * now.started).toLocaleString()],
      dollars("saved"),
      dollars("drafts"),
      dollars("rereads"),
      dollars("recalls"),
      [added(now.steps)],
    ]);
    since(active, now.active);
    picture.update(now);
    say(
      summary,
      now.log.length
        ? `${now.events ? many(now.events, "event") : "No event yet"}${left ? `; looked at and left alone ${many(left, "time")}` : ""}.`
        : `None so far: ${count(now.sent)} tokens are within the budget of ${count(now.budget)}.`,
    );
    before.hidden = !(now.sent < now.full && !now.events);
    log.show(now.log.map((event) => [event.number, event]).reverse());
  }

  return { update, leave: picture.leave };
}

// Why the last event could not come back to the target; "" if it did.
function aboveTarget(log) {
  const last = log.filter((event) => event.cause === "compressed").at(-1);
  if (!last || last.target === null || last.after <= last.target) return "";
  const sizes = `${count(last.after)} tokens, above the target of ${count(last.target)}`;
  return `The last event left ${sizes}: what remained may not be left out.`;
}

function added(steps) {
  const times = steps.map((step) => step[3]).sort((one, other) => one - other);
  return times.length ? `${(1000 * times[times.length >> 1]).toFixed(1)} ms (median)` : null;
}

// One line of the log: what happened or did not, and why.
function entry(event, about, href) {
  const would = about.dry_run ? "would be " : "";
  const link = el("a", { href: href(event.number) });
  const words = el("span", { class: "words" });
  const why = el("span", { class: "reason" });
  const when = el("span", { class: "when" });
  const node = el("li", {}, el("div", { class: "head" }, link, words, when), why);
  const update = (now) => {
    node.className = now.happened ? "happened" : "left";
    say(link, name(now, about.dry_run));
    const shorter = shortened(now.fates, would);
    const levels = shorter ? `; of ${many(now.spans, "step")} ${shorter}` : "";
    say(words, now.happened ? size(now.before, now.after) + levels : `${count(now.after)} tokens`);
    say(why, `${now.why}${now.repeated > 1 ? `, for ${now.repeated} requests in a row` : ""}`);
    if (now.request && when.dataset.request !== String(now.request)) {
      when.dataset.request = now.request;
      when.replaceChildren(`request ${count(now.request)}, `, moment(now.time));
    }
  };
  return { node, update };
}
