// The history as a bar: spans in order, as wide as they are long, in the colour and pattern of what became of them.

import { el } from "./dom.js";
import { count, FATES, WOULD } from "./words.js";

const LABELLED = 0.035; // segments below this share of the bar have no room for their name
const DENSE = 150; // more segments than this leave no room for gaps

// For the eye and the mouse only: the list of spans says the same in words.
export function picture(event, unreal, goTo) {
  const { spans, frame } = event.result;
  if (!spans.length || spans[0].utility === null) return null;
  const user = { fate: "user", tokens: frame, name: "user" };
  const before = [user, ...spans.map((span) => ({ ...span, name: `s_${span.index}` }))];
  const after = before
    .map((segment) => ({ ...segment, tokens: segment.left ?? segment.tokens }))
    .filter(({ tokens }) => tokens);
  const left = after.reduce((sum, segment) => sum + segment.tokens, 0);
  const total = event.happened && event.cause === "compressed" ? event.after : left;
  const whole = frame + spans.reduce((sum, span) => sum + span.tokens, 0);
  return el(
    "figure",
    { class: "picture" },
    el("figcaption", {}, "The steps in order, each as wide as its tokens"),
    bar("before", before, whole, whole, goTo),
    bar(unreal ? "after, if it were done" : "after", after, total, whole, goTo),
    el(
      "ul",
      { class: "legend" },
      Object.entries(FATES)
        .filter(([fate]) => before.some((segment) => segment.fate === fate))
        .map(([fate, meaning]) => key(fate, (unreal && WOULD[fate]) || fate, meaning)),
      key("user", "user", "always kept"),
    ),
  );
}

const key = (fate, word, meaning) =>
  el("li", {}, el("span", { class: `swatch ${fate}` }), el("b", {}, word), `: ${meaning}`);

function bar(name, segments, tokens, scale, goTo) {
  const drawn = segments
    .filter((segment) => segment.tokens)
    .map((segment) => {
      const [what, became] =
        segment.fate === "user" ? ["the task and the user's words", "always kept"] : [segment.name, segment.fate];
      const title = `${what}: ${became}, ${count(segment.tokens)} tokens`;
      const label = segment.tokens >= LABELLED * scale && el("span", {}, segment.name);
      const node = el(
        "div",
        { class: `segment ${segment.fate}`, title, click: () => segment.index && goTo(segment.index) },
        label,
      );
      node.style.flexGrow = segment.tokens;
      return node;
    });
  const node = el("div", { class: segments.length > DENSE ? "bar dense" : "bar", "aria-hidden": "true" }, drawn);
  node.style.width = `${scale ? (100 * tokens) / scale : 0}%`;
  return el("div", {}, el("div", { class: "bar-name" }, `${name}: ${count(tokens)} tokens`), node);
}
