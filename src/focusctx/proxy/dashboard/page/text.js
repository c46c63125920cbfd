// Texts of a step. What was left out is behind its mark, which opens on a click.

import { el, say } from "./dom.js";
import { count } from "./words.js";

// Long texts scroll in a box of their own, which the keyboard must be able to reach.
export const text = (words, name) => el("pre", { tabindex: "0", role: "group", "aria-label": name }, words);

// A mark, with the line end that the agent sees behind it. One that tells of other steps has nothing to open.
function gap(words, mark) {
  if (!words) return [el("span", {}, mark)];
  const [, before, name, after] = /^(\s*)(.*?)(\s*)$/s.exec(mark);
  const folded = el("details", { class: "gap" }, el("summary", {}, name), el("div", {}, words));
  return [before && el("span", {}, before), folded, after && el("span", {}, after)].filter(Boolean);
}

function box({ name, stretches }, label) {
  if (stretches.every(([, mark]) => !mark)) return text(stretches.map(([words]) => words).join(""), `${name} of ${label}`);
  const shown = stretches.flatMap(([words, mark]) => (mark ? gap(words, mark) : [el("span", {}, words)]));
  return el("div", { class: "excerpted", tabindex: "0", role: "group", "aria-label": `${name} of ${label}` }, shown);
}

function gaps(node) {
  const found = [...node.querySelectorAll("details.gap")];
  if (found.length < 2) return null;
  const button = el("button", { type: "button" }, "open all that was left out");
  button.addEventListener("click", () => {
    const opens = found.some((one) => !one.open);
    for (const one of found) one.open = opens;
    say(button, opens ? "close all that was left out" : "open all that was left out");
  });
  return button;
}

// The original, word for word, as far as the agent sees it: loaded when somebody opens it.
export function texts({ lengths, label, shortened, load }) {
  const parts = Object.entries(lengths).map(([name, length]) => `${name} (${count(length)})`);
  const node = el("div");
  let loaded = false;
  const open = async (toggled) => {
    if (!toggled.target.open || loaded) return;
    say(node, "loading …");
    try {
      const blocks = await load();
      node.replaceChildren(...blocks.flatMap((block) => [el("h4", {}, block.name), box(block, label)]));
      node.prepend(gaps(node) ?? "");
      loaded = true;
    } catch (error) {
      say(node, `${error.message}.`);
    }
  };
  const words = parts.length ? `${parts.join(", ")} characters` : "no text";
  return el("details", { toggle: open }, el("summary", {}, shortened ? `as the agent sees it: ${words}` : words), node);
}
