// The evidence itself: the sketches word for word, and the bound with what it rests on.

import { el } from "./dom.js";
import { many, numbers, percent } from "./words.js";

export function evidence(result) {
  return [sketches(result), certificate(result.certificate)].filter(Boolean);
}

// A sketch cites "7" for a whole step and "7.2" for a passage of it.
const spanOf = (label) => Number(label.split(".")[0]);

function names(lines) {
  const found = [...new Set(lines.flatMap(([, labels]) => labels))];
  const whole = found.filter((label) => !label.includes("."));
  const parts = found.filter((label) => label.includes(".")).map((label) => label.split(".").map(Number));
  parts.sort(([span, part], [other, another]) => span - other || part - another);
  const spans = numbers(whole.map(Number)).replaceAll(", ", ", s_").replaceAll("-", "–s_");
  return [...(spans ? [`s_${spans}`] : []), ...parts.map(([span, part]) => `s_${span}.${part}`)].join(", ") || "nothing";
}

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
    `${percent(found.set_utility)} of ${many(found.rollouts, "sketch", "sketches")} cite anything that was left out.`,
    `At ${percent(found.confidence)} confidence the true share is at most ${percent(upper)}`,
    `(radius ${found.radius.toFixed(2)}), so leaving it out changes the agent's decision by at most`,
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

// For each span, who said what of it: the sketches by the words they used, and the passages they named.
export function citations(sketches) {
  const said = { steps: new Map(), rescues: new Map() };
  sketches.forEach((sketch, place) => {
    if (sketch.problem !== null) return;
    for (const kind of ["steps", "rescues"]) {
      for (const [words, labels] of sketch[kind]) {
        for (const label of labels) {
          const span = spanOf(label);
          if (!said[kind].has(span)) said[kind].set(span, new Map());
          const lines = said[kind].get(span);
          if (!lines.has(words)) lines.set(words, { by: new Set(), passages: new Set() });
          lines.get(words).by.add(place + 1);
          const part = Number(label.split(".")[1] ?? 0);
          if (part) lines.get(words).passages.add(part);
        }
      }
    }
  });
  return said;
}
