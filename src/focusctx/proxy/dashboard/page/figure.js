// The plot with its text alternative: a caption that says what it shows, and the figures behind it.

import { el, say } from "./dom.js";
import { legend, plot } from "./plot.js";
import { count, many } from "./words.js";

export function figure(session, about, href) {
  const caption = el("figcaption");
  const canvas = el("div", { class: "canvas" });
  const rows = el("tbody");
  const head = ["request", "at", "whole history", "sent", "added"].map((name) => el("th", { scope: "col" }, name));
  const table = el(
    "details",
    { toggle: () => fill() },
    el("summary", {}, "The figures as a table"),
    el(
      "div",
      { class: "contents", tabindex: "0", role: "group", "aria-label": "Figures" },
      el("table", {}, el("thead", {}, el("tr", {}, head)), rows),
    ),
  );
  const node = el("figure", { class: "picture" }, caption, canvas, legend(about.dry_run), table);
  let now = session;

  const draw = () => {
    const width = Math.max(Math.floor(canvas.clientWidth), 260);
    if (now.steps.length)
      canvas.replaceChildren(
        plot({ steps: now.steps, log: now.log, budget: now.budget, target: now.target, width, href }),
      );
  };
  const fill = () => {
    if (!table.open) return;
    if (now.steps.length >= now.steps_limit) rows.replaceChildren();
    for (const [place, [time, full, sent, spent, exact]] of [...now.steps.entries()].slice(rows.children.length)) {
      const cells = [
        new Date(1000 * time).toLocaleTimeString(),
        `${exact ? "" : "about "}${count(full)}`,
        `${exact ? "" : "about "}${count(sent)}`,
        `${(1000 * spent).toFixed(1)} ms`,
      ];
      rows.append(
        el(
          "tr",
          {},
          el("th", { scope: "row" }, count(place + 1)),
          cells.map((cell) => el("td", {}, cell)),
        ),
      );
    }
  };
  const resized = new ResizeObserver(draw);
  resized.observe(canvas);

  const update = (next) => {
    now = next;
    const which = now.steps.length >= now.steps_limit ? "the last " : "";
    const does = about.dry_run ? "would be sent" : "were sent";
    const marked = now.log.filter((event) => event.happened && event.request).length;
    const sentences = [
      `Tokens of the history at ${which}${many(now.steps.length, "request")}.`,
      `At the newest, the agent had ${count(now.full)} and ${count(now.sent)} ${does}.`,
    ];
    if (marked) sentences.push(`${many(marked, "event")} marked: the list below says which and why.`);
    else if (!now.events) sentences.push("No event yet.");
    say(caption, sentences.join(" "));
    draw();
    fill();
  };
  return { node, update, leave: () => resized.disconnect() };
}
