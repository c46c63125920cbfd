// One event: the numbers, the history as a bar, every span with the evidence for its fate, the sketches, the bound.

import { el, figures } from "./dom.js";
import { evidence } from "./evidence.js";
import { picture } from "./picture.js";
import { ask } from "./server.js";
import { spanList } from "./spans.js";
import { count, many, moment, money, name, percent, saved } from "./words.js";

export function eventView(main, { state, id, number, title }) {
  const trail = (model) => [
    ["sessions", "#/"],
    [model || "session", `#/sessions/${id}`],
  ];
  let spans = null;
  let here = true;
  const current = () => state.sessions.get(id);

  async function load() {
    try {
      const event = await ask(`sessions/${id}/events/${number}`);
      if (!here) return;
      const focused = document.activeElement === main.querySelector("h1");
      main.replaceChildren(title(name(event, state.about.dry_run), ...trail(event.model)));
      spans = build(main, event, id, state.about);
      spans?.update(event.restored, current()?.active ?? 0);
      if (focused) main.querySelector("h1").focus();
    } catch (error) {
      if (here)
        main.replaceChildren(title("Event", ...trail()), el("p", { class: "notice" }, `${error.message}.`));
    }
  }

  main.append(title("Event", ...trail()));
  load();
  return {
    // An event is history: only who asked for a span since can be news.
    update: (changed) =>
      changed.has(id) && current() && spans?.update(current().restored, current().active),
    leave: () => (here = false),
  };
}

function build(main, event, id, about) {
  const result = event.result;
  // What the sketches say was not done in a dry run, nor where the event came to nothing or another decision held.
  const unreal = about.dry_run || event.cause !== "compressed";
  main.append(summary(event, about), neighbours(event, id, about));
  if (!result) return null;
  main.append(...notices(result), tiles(event, unreal), facts(event));
  const spans = spanList({ event, id, unreal, about });
  const drawn = picture(event, unreal, spans.goTo);
  if (drawn) main.append(drawn);
  main.append(spans.node, ...evidence(result));
  return spans;
}

function summary(event, about) {
  const sentences = [`${event.why[0]?.toUpperCase() ?? ""}${event.why.slice(1)}.`];
  if (event.repeated > 1) sentences.push(`So it was for ${event.repeated} requests in a row.`);
  if (event.money && event.happened)
    sentences.push(
      `Expected to gain ${count(event.money.gain)} and to cost ${count(event.money.cost)} input tokens' worth.`,
    );
  if (event.cause === "followed" && event.result)
    sentences.push("What another session had decided before holds; below is what the sketches here said.");
  if (!event.happened && event.result) sentences.push("Nothing was left out; below is what the sketches said.");
  if (event.cause === "restored")
    sentences.push(
      `What ${about.dry_run ? "would be" : "is"} sent grew from ${count(event.before)} to ${count(event.after)} tokens.`,
    );
  const when = event.request ? [` At request ${count(event.request)}, `, moment(event.time), "."] : [];
  return el("p", { class: "verdict" }, sentences.join(" "), ...when);
}

function neighbours({ earlier, later }, id, about) {
  const link = (entry, words) => el("a", { href: `#/sessions/${id}/events/${entry.number}` }, words);
  return el(
    "nav",
    { "aria-label": "Before and after", class: "neighbours", hidden: !earlier && !later },
    earlier && link(earlier, `← ${name(earlier, about.dry_run)}`),
    later && link(later, `${name(later, about.dry_run)} →`),
  );
}

function notices(result) {
  const warnings = result.warnings.map((warning) =>
    el("p", { class: "notice" }, el("strong", {}, "Warning: "), warning),
  );
  const failure =
    result.failure &&
    el(
      "p",
      { class: "notice failure" },
      el("strong", {}, "Not compressed: "),
      `${result.failure}. The messages went up as they came.`,
    );
  return failure ? [failure, ...warnings] : warnings;
}

function tiles(event, unreal) {
  const { spans, target } = event.result;
  const fates = Object.groupBy(spans, (span) => span.fate);
  const number = (fate) => fates[fate]?.length ?? 0;
  const would = unreal ? "that would be " : "";
  const shorter = [
    ["excerpt", `steps ${would}shown in part`],
    ["record", `steps ${would}left as a record`],
    ["dropped", `steps ${would}dropped`],
  ].filter(([fate], place, all) => number(fate) || (place === 2 && all.every(([other]) => !number(other))));
  const whole = number("kept") + number("rescued") + number("pinned");
  const drawn = figures("tiles", ["tokens before", "tokens after", "saved", "steps kept whole", ...shorter.map(([, name]) => name)]);
  drawn.set([
    [count(event.before), "of history"],
    [count(event.after), target === null ? "of history" : `target ${count(target)}`],
    [percent(saved(event.before, event.after)), "of the tokens"],
    [count(whole), `${number("rescued")} rescued, ${number("pinned")} pinned`],
    ...shorter.map(([fate]) => [count(number(fate)), `of ${count(spans.length)}`]),
  ]);
  return drawn.node;
}

function facts(event) {
  const { sketches, latency, usage, regrets } = event.result;
  const usable = sketches.filter((sketch) => sketch.problem === null).length;
  const cost = usage.cost === null ? "price not known" : money(usage.cost);
  const tokens = usage.input || usage.output ? `, ${count(usage.input)} tokens in, ${count(usage.output)} out` : "";
  const counted = tokens || usage.cost === null ? `${tokens}, ${cost}` : "";
  const drawn = figures("facts", ["newest step", "usable sketches", "took", "draft's use", "looked up again"]);
  drawn.set([
    [`s_${event.span}`],
    [sketches.length ? `${usable} of ${sketches.length}` : "none asked for"],
    [`${latency.toFixed(2)} s`],
    [usage.requests ? many(usage.requests, "request") + counted : null],
    [regrets.length ? regrets.map((span) => `s_${span}`).join(", ") : null],
  ]);
  return drawn.node;
}
