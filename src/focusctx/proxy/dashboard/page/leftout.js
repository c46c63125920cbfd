// What is left out of a session now: every step that is gone or shortened, a search in their originals, and the way back.

import { el, Keyed, say } from "./dom.js";
import { ask, atMostEvery, send } from "./server.js";
import { restoring } from "./span.js";
import { texts } from "./text.js";
import { count, extent, many, shortened, WOULD } from "./words.js";

const UNASKED = "no sketch needs it";

export function leftOutNow(id, about) {
  const path = `sessions/${id}/left-out`;
  const would = about.dry_run ? "would be " : "";
  const summary = el("p");
  const field = el("input", { type: "search", id: "left-out-query", autocomplete: "off", spellcheck: "false" });
  const found = el("span", { class: "count", role: "status" });
  const problem = el("p", { class: "notice", hidden: true });
  const items = el("ol", { class: "spans" });
  const list = new Keyed(items, (step) => stepItem(step, { id, about, path, ask: refresh }));
  const form = el(
    "form",
    { class: "controls", role: "search", submit: (event) => event.preventDefault() },
    el("label", { for: "left-out-query" }, "Search their full text"),
    field,
    found,
  );
  const folded = el("details", { class: "left-out" }, el("summary", {}, "show them"), form, problem, items);
  const node = el("section", {}, el("h2", {}, about.dry_run ? "Would be left out now" : "Left out now"), summary, folded);
  let known = "";
  let last = 0;

  async function load() {
    const asked = ++last;
    const query = field.value.trim();
    try {
      const now = await ask(query ? `${path}?query=${encodeURIComponent(query)}` : path);
      if (asked !== last) return;
      problem.hidden = !now.missing.length;
      const without = now.missing.map((span) => `s_${span}`).join(", ");
      say(problem, now.missing.length ? `The store holds no original of ${without} any more, so they are not listed.` : "");
      say(found, query ? `${count(now.steps.length)} of ${many(now.total, "step")}` : "");
      list.show(now.steps.map((step) => [step.index, { ...step, restored: now.restored[step.index] ?? null }]));
    } catch (error) {
      problem.hidden = false;
      say(problem, `${error.message}.`);
    }
  }

  const refresh = atMostEvery(300, load);
  folded.addEventListener("toggle", () => folded.open && refresh());
  field.addEventListener("input", refresh);

  const update = (now) => {
    const total = Object.values(now.left_out).reduce((sum, number) => sum + number, 0);
    const words = shortened(now.left_out, would);
    say(summary, total ? `${many(total, "step")}: ${words}.` : "Nothing: every step goes up whole.");
    folded.hidden = !total;
    const state = JSON.stringify([now.left_out, now.restored, now.log.length]);
    if (folded.open && state !== known) refresh();
    known = state;
  };
  return { node, update };
}

function stepItem(step, { id, about, path, ask: again }) {
  const label = `s_${step.index}`;
  const badge = el("span");
  const tokens = el("span", { class: "tokens" });
  const hit = el("p", { class: "hit" });
  const hitBack = el("div");
  const reason = el("p", { class: "reason" });
  const body = el("div");
  const back = restoring(label, about, async () => {
    await send(`api/sessions/${id}/restore`, { span: step.index });
    back.done(false);
    again();
  });
  const node = el(
    "li",
    {},
    el(
      "div",
      { class: "head" },
      el("h3", {}, label),
      badge,
      el("code", { class: "what" }, el("bdi", {}, step.what)),
      tokens,
    ),
    hit,
    hitBack,
    reason,
    body,
    back.node,
  );
  // A passage that a search found can come back alone.
  const passages = new Map();
  const passageBack = (name) => {
    if (!passages.has(name)) {
      const one = restoring(name, about, async () => {
        await send(`api/sessions/${id}/restore`, { span: step.index, passage: Number(name.split(".")[1]) });
        one.done(false);
        again();
      });
      passages.set(name, one.node);
    }
    return passages.get(name);
  };
  let shown = "";
  const update = (now) => {
    node.className = `span ${now.fate}`;
    badge.className = `badge ${now.fate}`;
    say(badge, (about.dry_run && WOULD[now.fate]) || now.fate);
    say(tokens, extent(now));
    say(reason, now.reason === UNASKED ? now.reason : `sketches said: ${now.reason}`);
    hit.hidden = !now.hit;
    if (now.hit) hit.replaceChildren(...found(now.hit));
    hitBack.replaceChildren(...(now.hit?.passage && !now.hit.seen ? [passageBack(now.hit.passage)] : []));
    const state = `${now.fate} ${now.left}`;
    if (state !== shown) {
      body.replaceChildren(
        texts({
          lengths: now.lengths,
          label,
          shortened: now.fate !== "dropped",
          load: () => ask(`${path}/${now.index}`),
        }),
      );
      shown = state;
    }
    if (now.restored !== null) back.done(false);
  };
  return { node, update };
}

const found = ({ before, words, after, passage, seen }) => [
  passage && el("b", {}, `${passage}${seen ? ", which the agent sees" : ""}: `),
  el("q", {}, el("bdi", {}, before, el("mark", {}, words), after.trimEnd())),
].filter(Boolean);
