// Numbers, times and the vocabulary of events, in words.

import { el, say } from "./dom.js";

export const count = (number) => Math.round(number).toLocaleString("en-US");
// Not 100% before all is gone.
export const percent = (share) => `${share > 0.99 ? Math.floor(1000 * share) / 10 : Math.round(100 * share)}%`;
export const saved = (full, sent) => (full ? 1 - sent / full : 0);
export const money = (usd) => `${usd < 0 ? "−" : ""}$${Math.abs(usd).toFixed(Math.abs(usd) < 1 ? 4 : 2)}`;
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;
export const size = (before, after) =>
  `${count(before)} → ${count(after)} tokens (${percent(saved(before, after))} saved)`;

// 1, 2, 3 and 5 as "1-3, 5".
export function numbers(values) {
  const runs = [];
  for (const value of [...values].sort((one, other) => one - other)) {
    const run = runs.at(-1);
    if (run && value === run[1] + 1) run[1] = value;
    else runs.push([value, value]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
}

function ago(time) {
  const seconds = Math.max(Date.now() / 1000 - time, 0);
  if (seconds < 5) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 36 * 3600 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} days ago`;
}

// A moment that grows older while it is shown.
export function moment(time) {
  const node = el("time");
  since(node, time);
  return node;
}

export function since(node, time) {
  if (node.dataset.at !== String(time)) {
    node.dataset.at = time;
    node.dateTime = new Date(1000 * time).toISOString();
    node.title = new Date(1000 * time).toLocaleString();
  }
  say(node, ago(time));
}

setInterval(
  () => document.querySelectorAll("time[data-at]").forEach((node) => since(node, Number(node.dataset.at))),
  5000,
);

const CAUSES = {
  compressed: ["Compressed", "Would compress"],
  followed: ["Followed a decision made elsewhere", "Would follow a decision made elsewhere"],
  restored: ["Brought steps back", "Would bring steps back"],
  growth: ["Left alone: too little is new"],
  newest: ["Put off: the newest results are large"],
  money: ["Left alone: it does not pay yet"],
  needed: ["Left alone: every step is needed"],
  pinned: ["Left alone: no step may be dropped"],
  illegal: ["Left alone: the provider would refuse it"],
  draft: ["Left alone: the draft failed"],
  store: ["Left alone: the store failed"],
};

export function headline(cause, dryRun) {
  const [is, would = is] = CAUSES[cause] ?? [cause];
  return dryRun ? would : is;
}

// What an entry of a log is called: only what changed something is an event, and has a number as one.
export function name({ ordinal, cause }, dryRun) {
  const words = headline(cause, dryRun);
  return ordinal === null ? words : `Event ${ordinal}: ${words.toLowerCase()}`;
}

export const FATES = {
  kept: "whole: plans cite it, or there was room",
  rescued: "whole, for the risk of losing it",
  pinned: "whole, whatever the sketches say",
  excerpt: "its action and the passages that matter",
  record: "what was done and how it ended",
  dropped: "nothing of it",
};

// What is said of a span's fate where nothing was really left out.
export const WOULD = { excerpt: "would be an excerpt", record: "would be a record", dropped: "would be dropped" };

// Not whole any more: these can be brought back.
export const SHORTER = ["excerpt", "record", "dropped"];

// "2 as excerpts, 3 as records, 1 dropped", without what there is none of.
export function shortened(fates, would = "") {
  const [excerpts, records, gone] = SHORTER.map((fate) => fates[fate] ?? 0);
  const found = [
    excerpts && `${count(excerpts)} ${would}shown as ${excerpts === 1 ? "an excerpt" : "excerpts"}`,
    records && `${count(records)} ${would}left as ${records === 1 ? "a record" : "records"}`,
    gone && `${count(gone)} ${would}dropped`,
  ];
  return found.filter(Boolean).join(", ");
}

// 1,234 tokens, or what is left of them.
export const extent = ({ tokens, left, fate }) =>
  fate === "excerpt" || fate === "record" ? `${count(left)} of ${count(tokens)} tokens` : `${count(tokens)} tokens`;
