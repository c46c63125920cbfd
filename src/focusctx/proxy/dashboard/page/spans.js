// The list of spans in their order, with the user's words in between.

import { el, say } from "./dom.js";
import { citations } from "./evidence.js";
import { ask, send } from "./server.js";
import { spanItem } from "./span.js";
import { text } from "./text.js";
import { count, FATES, WOULD } from "./words.js";

export function spanList({ event, id, unreal, about }) {
  const { spans, turns, sketches } = event.result;
  const said = citations(sketches);
  const canRestore = event.happened && event.cause === "compressed";
  const path = `sessions/${id}/events/${event.number}`;
  const items = new Map();
  const list = el("ol", { class: "spans" });

  async function restore(span) {
    await send(`api/sessions/${id}/restore`, { span });
    items.get(span).restored(false);
  }

  function update(restored, active) {
    for (const [span, at] of Object.entries(restored)) items.get(Number(span))?.restored(at < active);
  }

  const words = turns.map((turn, place) => ({ after: turn.after, node: userTurn(turn, place, path) }));
  const after = (index) => words.filter((turn) => turn.after === index).map((turn) => turn.node);
  list.append(...after(0));
  for (const span of spans) {
    const item = spanItem({ span, said, unreal, about, path, restore: canRestore ? restore : null });
    items.set(span.index, item);
    list.append(item.node, ...after(span.index));
  }

  const filter = controls(spans, unreal, list);
  const goTo = (index) => {
    filter.showAll();
    const node = items.get(index).node;
    node.scrollIntoView({ block: "center" });
    node.querySelector("h3").focus({ preventScroll: true });
  };
  const node = el("section", {}, el("h2", {}, "Steps"), filter.node, list);
  return { node, goTo, update };
}

function controls(spans, unreal, list) {
  const fates = Object.groupBy(spans, (span) => span.fate);
  const shown = el("span", { class: "count", role: "status" });
  const button = (words, fate) =>
    el("button", { type: "button", "aria-pressed": String(fate === ""), click: () => choose(fate) }, words);
  const present = Object.keys(FATES).filter((fate) => fates[fate]);
  const buttons = new Map([
    ["", button("all", "")],
    ...present.map((fate) => [fate, button(`${(unreal && WOULD[fate]) || fate} (${fates[fate].length})`, fate)]),
  ]);

  function choose(chosen) {
    for (const [fate, pressed] of buttons) pressed.setAttribute("aria-pressed", String(fate === chosen));
    for (const item of list.children) item.hidden = chosen !== "" && item.dataset.fate !== chosen;
    say(shown, chosen ? `${fates[chosen].length} of ${spans.length} steps` : "");
  }

  const node = el(
    "div",
    { class: "controls" },
    el("span", { role: "group", "aria-label": "Show only" }, ...buttons.values()),
    shown,
  );
  return { node, showAll: () => choose("") };
}

function userTurn(turn, place, path) {
  const name = turn.after === 0 ? "The task" : "The user";
  const node = el(
    "li",
    { class: "turn" },
    el("div", { class: "head" }, el("h3", {}, name), el("span", { class: "badge user" }, "always kept")),
  );
  const box = text(turn.text, name);
  node.append(box);
  if (turn.length > turn.text.length) {
    const more = el("button", { type: "button" }, `show all ${count(turn.length)} characters`);
    more.addEventListener("click", async () => {
      say(box, (await ask(`${path}/turns/${place}`)).text);
      box.focus();
      more.remove();
    });
    node.append(more);
  }
  return node;
}
