// One span: what became of it, on whose word, all it says, and the way to have it back.

import { el, say, tell } from "./dom.js";
import { ask } from "./server.js";
import { texts } from "./text.js";
import { extent, numbers, SHORTER, WOULD } from "./words.js";

export function spanItem({ span, said, unreal, about, path, restore }) {
  const label = `s_${span.index}`;
  const lost = SHORTER.includes(span.fate);
  const head = el(
    "div",
    { class: "head" },
    el("h3", { tabindex: "-1" }, label),
    el("span", { class: `badge ${span.fate}` }, (unreal && WOULD[span.fate]) || span.fate),
    el("code", { class: "what" }, el("bdi", {}, span.what)),
    span.utility !== null && utility(span.utility),
    el("span", { class: "tokens" }, extent(span)),
  );
  const back = lost && restore ? restoring(label, about, () => restore(span.index)) : null;
  const node = el(
    "li",
    { class: `span ${span.fate}`, "data-fate": span.fate },
    head,
    reasons(span, said),
    texts({
      lengths: span.lengths,
      label,
      shortened: span.fate === "excerpt" || span.fate === "record",
      load: () => ask(`${path}/spans/${span.index}`),
    }),
    back?.node,
  );
  const restored = (inEffect) => {
    if (!back) return;
    if (!node.classList.contains("restored")) {
      node.classList.add("restored");
      head
        .querySelector(".badge")
        .after(el("span", { class: "badge restored" }, about.dry_run ? "would be restored" : "restored"));
    }
    back.done(inEffect);
  };
  return { node, restored };
}

function utility(share) {
  const level = el("span");
  level.style.width = `${100 * share}%`;
  return el(
    "span",
    { class: "utility" },
    "utility ",
    el("span", { class: "meter", "aria-hidden": "true" }, level),
    ` ${share.toFixed(2)}`,
  );
}

function reasons(span, said) {
  if (span.utility === null) return null;
  const found = span.pinned ? [el("li", {}, `Pinned: ${span.pinned}.`)] : [];
  for (const [verb, kind] of [
    ["needed by", "steps"],
    ["rescued by", "rescues"],
  ]) {
    for (const [words, { by, passages }] of said[kind].get(span.index) ?? []) {
      const which = passages.size ? ` (${[...passages].map((one) => `s_${span.index}.${one}`).join(", ")})` : "";
      const who = `${verb} ${by.size > 1 ? "sketches" : "sketch"} ${numbers(by)}${which}`;
      found.push(el("li", {}, el("b", {}, who), ": ", words ? el("q", {}, el("bdi", {}, words)) : "no reason given"));
    }
  }
  if (span.note) found.push(el("li", {}, el("b", {}, "reason"), `: ${span.note}.`));
  if (!found.length) found.push(el("li", {}, "No sketch needs it."));
  if (span.back) found.push(el("li", {}, el("b", {}, "would have kept it whole"), `: ${span.back}.`));
  return el("ul", { class: "why" }, found);
}

export function restoring(label, about, restore) {
  const note = el("p", { class: "note", tabindex: "-1" });
  const button = el("button", { type: "button", class: "restore", "aria-label": `restore ${label}` }, "restore");
  const would = about.dry_run ? "would go" : "goes";
  let busy = false;
  button.addEventListener("click", async () => {
    if (busy) return;
    busy = true;
    try {
      await restore();
    } catch (error) {
      say(note, `Not restored: ${error.message}.`);
      tell(note.textContent);
    }
    busy = false;
  });
  const done = (inEffect) => {
    const hadFocus = document.activeElement === button;
    button.remove();
    say(
      note,
      inEffect
        ? `${label} is back in its place.`
        : `${label} ${would} up again from the agent's next request on, for the rest of the conversation.`,
    );
    if (hadFocus) note.focus();
  };
  return { node: el("div", { class: "back" }, button, note), done };
}
