// Elements, made from text: nothing that comes from a history is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

// Text that changes is only written when it did: a selection in it survives, and screen readers do not repeat it.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// For those who do not see what changes: only what is worth an interruption.
let telling = 0;
export function tell(text) {
  const node = document.getElementById("said");
  node.textContent = "";
  clearTimeout(telling);
  telling = setTimeout(() => say(node, text), 300);
}

// Names and numbers that change: `set` takes the values in the order of the names.
export function figures(kind, names) {
  const entries = names.map((name) => ({ name: el("dt", {}, name), value: el("span"), note: el("small") }));
  const node = el(
    "dl",
    { class: kind },
    entries.map(({ name, value, note }) => el("div", {}, name, el("dd", {}, value, note))),
  );
  const set = (values) =>
    values.forEach(([value, note = ""], place) => {
      say(entries[place].value, value);
      say(entries[place].note, note);
      entries[place].name.parentElement.hidden = value === null;
    });
  return { node, set };
}

// A list that follows its data. What stays keeps its element, and with it focus, scroll position and open details.
export class Keyed {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.known = new Map();
  }

  show(items) {
    const wanted = new Map();
    for (const [key, item] of items) {
      const entry = this.known.get(key) ?? this.make(item);
      if (entry.item !== item) entry.update(item);
      entry.item = item;
      wanted.set(key, entry);
    }
    for (const [key, entry] of this.known) if (!wanted.has(key)) entry.node.remove();
    this.known = wanted;
    arrange(
      this.parent,
      [...wanted.values()].map((entry) => entry.node),
    );
  }
}

// Elements already in place are not touched: an element that is moved loses the focus.
function arrange(parent, nodes) {
  let next = null;
  for (const node of nodes.reverse()) {
    if (node.nextSibling !== next || node.parentElement !== parent) parent.insertBefore(node, next);
    next = node;
  }
}
