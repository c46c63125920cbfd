// The evidence itself: the sketches word for word, and the bound with what it rests on.

import { el } from "./dom.js";
import { many, numbers, percent } from "./words.js";

export function evidence(result) {
  return [sketches(result), certificate(result.certificate)].filter(Boolean);
}

const names = (lines) => {
  const found = new Set(lines.flatMap(([, spans]) => spans));
  return found.size ? `s_${numbers(found).replaceAll(", ", ", s_").replaceAll("-", "–s_")}` : "nothing";
};

function sketches(result) {
  if (!result.sketches.length) return null;
  const shown = result.sketches.map((sketch, place) => {
    const rescues = sketch.rescues.length ? `, rescues ${names(sketch.rescues)}` : "";
    const unknown = sketch.unknown.length ? `, ${many(sketch.unknown.length, "citation")} of no known span` : "";
    const about = sketch.problem
      ? `Sketch ${place + 1} does not vote: ${sketch.problem}`
      : `Sketch ${place + 1}: ${many(sketch.steps.length, "step")}, cites ${names(sketch.steps)}${rescues}${unknown}`;
    return el(
      "details",
      {},
      el("summary", {}, about),
      el("pre", { tabindex: "0", role: "group", "aria-label": `sketch ${place + 1}` }, sketch.text),
    );
  });
  return el("section", {}, el("h2", {}, "Sketches, as the draft wrote them"), shown);
}

function certificate(found) {
  if (!found) return null;
  const upper = Math.min(1, found.set_utility + found.radius);
  const words = [
    `${percent(found.set_utility)} of ${many(found.rollouts, "sketch", "sketches")} cite any of the dropped spans.`,
    `At ${percent(found.confidence)} confidence the true share is at most ${percent(upper)}`,
    `(radius ${found.radius.toFixed(2)}), so the drop changes the agent's decision by at most`,
    `${found.bound.toFixed(2)}, where the most it could change is ${found.m_max}.`,
    "More rollouts make the radius smaller.",
  ];
  return el(
    "section",
    { class: "certificate" },
    el("h2", {}, "Certificate"),
    el("p", {}, words.join(" ")),
    el("p", {}, "This holds if:"),
    el(
      "ul",
      {},
      found.assumptions.map((assumption) => el("li", {}, assumption)),
    ),
  );
}

// For each span, who said what of it: the sketches by the words they used.
export function citations(sketches) {
  const said = { steps: new Map(), rescues: new Map() };
  sketches.forEach((sketch, place) => {
    if (sketch.problem !== null) return;
    for (const kind of ["steps", "rescues"]) {
      for (const [words, spans] of sketch[kind]) {
        for (const span of spans) {
          if (!said[kind].has(span)) said[kind].set(span, new Map());
          const by = said[kind].get(span);
          by.set(words, (by.get(words) ?? new Set()).add(place + 1));
        }
      }
    }
  });
  return said;
}
