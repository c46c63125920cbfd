// The plot: tokens of the whole history and of what was sent, request by request, with the events marked.

import { el, svg } from "./dom.js";
import { count } from "./words.js";

const HEIGHT = 260;
const EDGE = { left: 58, right: 14, top: 26, bottom: 38 };

const short = (tokens) => (tokens < 10_000 ? count(tokens) : tokens < 1e6 ? `${tokens / 1000}k` : `${tokens / 1e6}M`);

// Round steps, so that the labels can be read.
function ticks(most, wanted, smallest) {
  const rough = Math.max(most / wanted, smallest);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, place) => place * step);
}

// For the eye and the mouse only; the caption and the table beside it say the same in words.
export function plot({ steps, log, budget, target, width, href }) {
  const tall = Math.max(...steps.map((step) => step[1]), 1);
  const shown = budget <= 1.3 * tall ? Math.max(budget, tall) : tall;
  const inner = width - EDGE.left - EDGE.right;
  const x = (place) => EDGE.left + (steps.length > 1 ? (inner * place) / (steps.length - 1) : inner / 2);
  const y = (tokens) => HEIGHT - EDGE.bottom - ((HEIGHT - EDGE.top - EDGE.bottom) * tokens) / (1.06 * shown);
  const line = (column) =>
    steps.map((step, place) => `${place ? "L" : "M"}${x(place).toFixed(1)} ${y(step[column]).toFixed(1)}`).join("");
  const bottom = y(0);
  const text = (attributes, words) => svg("text", attributes, words);

  const drawing = svg("svg", {
    class: "plot",
    width,
    height: HEIGHT,
    viewBox: `0 0 ${width} ${HEIGHT}`,
    "aria-hidden": "true",
  });
  for (const tokens of ticks(shown, 4, 1)) {
    drawing.append(
      svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(tokens), y2: y(tokens) }),
      text({ class: "tick", x: EDGE.left - 8, y: y(tokens) + 4, "text-anchor": "end" }, short(tokens)),
    );
  }
  for (const place of ticks(steps.length - 1, Math.max(Math.floor(inner / 90), 2), 1)) {
    drawing.append(text({ class: "tick", x: x(place), y: bottom + 18, "text-anchor": "middle" }, count(place + 1)));
  }
  drawing.append(
    text({ class: "axis", x: 4, y: 14 }, "tokens"),
    text({ class: "axis", x: width - EDGE.right, y: HEIGHT - 4, "text-anchor": "end" }, "request"),
    svg("path", { class: "area", d: `${line(2)}L${x(steps.length - 1)} ${bottom}L${x(0)} ${bottom}Z` }),
    svg("path", { class: "full", d: line(1) }),
    svg("path", { class: "sent", d: line(2) }),
  );
  for (const [tokens, words] of [
    [budget, "budget"],
    [target, "target"],
  ]) {
    if (tokens === null || tokens > 1.3 * tall || (words !== "budget" && budget > 1.3 * tall)) continue;
    drawing.append(
      svg("line", { class: "budget", x1: EDGE.left, x2: width - EDGE.right, y1: y(tokens), y2: y(tokens) }),
      text({ class: "axis", x: EDGE.left + 4, y: y(tokens) - 4 }, words),
    );
  }
  let free = -Infinity;
  for (const event of log.filter((entry) => entry.request !== null)) {
    const at = x(event.request - 1);
    const [, whole, sent] = steps[event.request - 1];
    const mark = svg(
      "a",
      { href: href(event.number), tabindex: "-1", class: event.happened ? "mark" : "mark left" },
      svg("title", {}, event.happened ? `event ${event.ordinal}: ${event.why}` : `left alone: ${event.why}`),
      svg("rect", { x: at - 7, y: y(whole) - 7, width: 14, height: y(sent) - y(whole) + 14 }), // easy to hit
      event.happened && svg("line", { x1: at, x2: at, y1: y(whole), y2: y(sent) }),
      svg("circle", { cx: at, cy: y(sent), r: event.happened ? 5 : 3.5 }),
    );
    if (event.happened && at - free > 18) {
      mark.append(text({ x: at, y: y(Math.max(whole, sent)) - 8, "text-anchor": "middle" }, String(event.ordinal)));
      free = at;
    }
    drawing.append(mark);
  }
  return drawing;
}

export function legend(dryRun) {
  const entries = [
    ["full", "whole history"],
    ["sent", dryRun ? "what would be sent" : "what was sent"],
    ["happened", "event, with its number"],
    ["left", "looked at and left alone"],
  ];
  return el(
    "ul",
    { class: "legend" },
    entries.map(([kind, words]) => el("li", {}, el("span", { class: `key ${kind}` }), words)),
  );
}
