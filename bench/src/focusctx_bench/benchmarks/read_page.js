// One document as lines of text, in the order of reading. `elements[i]` is what line i's number stands for (or null),
// `places[i]` where the line is, `top` the first line that the window shows. Only what can be seen is read; nothing in
// the document is changed.
({ mostNodes, mostCharacters, longestLine, longestName }) => {
  const SKIPPED = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "IFRAME", "FRAME", "OBJECT", "EMBED"]);
  const LEAVES = "a[href], area[href], button, input, textarea, select, summary, [contenteditable=''], [contenteditable=true]";
  const ROLES = ["button", "link", "checkbox", "radio", "switch", "tab", "option", "combobox", "searchbox", "textbox"];
  const CLICKED = ["[onclick]", ...ROLES.concat("menuitem").map((role) => `[role=${role}]`)].join(", ");
  const texts = [], kinds = [], elements = [], places = [];
  let nodes = 0, characters = 0, line = "", place = null, cut = false;

  const tidy = (text) => (text || "").replace(/[\s\u00a0]+/g, " ").trim();
  const shorten = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);

  const add = (kind, text, element, where) => {
    texts.push(text); kinds.push(kind); elements.push(element); places.push(where);
    characters += text.length;
  };
  const endLine = () => {
    const text = tidy(line);
    for (let at = 0; at < text.length; at += longestLine) add("", text.slice(at, at + longestLine), null, place);
    line = ""; place = null;
  };
  const isSeen = (element) =>
    element.checkVisibility({ visibilityProperty: true }) && element.getAttribute("aria-hidden") !== "true";

  const nameOf = (element) => {
    const labelled = (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean)
      .map((id) => element.ownerDocument.getElementById(id)?.textContent).join(" ");
    const label = element.labels?.length ? element.labels[0].innerText : "";
    const isField = element.matches("input, textarea, select");
    const shown = isField ? (["submit", "button", "reset"].includes(element.type) ? element.value : "") : element.innerText;
    const image = element.querySelector("img[alt], svg title");
    const ways = [element.getAttribute("aria-label"), labelled, label, shown, element.getAttribute("placeholder"),
      element.getAttribute("title"), element.getAttribute("alt"), image?.getAttribute("alt") || image?.textContent,
      element.getAttribute("name")];
    return shorten(ways.map(tidy).find(Boolean) || "", longestName);
  };
  const kindOf = (element) => {
    const role = element.getAttribute("role");
    if (ROLES.includes(role)) return role;
    const tag = element.tagName.toLowerCase();
    if (tag === "a" || tag === "area") return "link";
    if (tag === "select") return "select";
    if (tag === "textarea" || element.isContentEditable) return "textbox";
    if (tag !== "input") return "button";
    const kinds = { checkbox: "checkbox", radio: "radio", submit: "button", button: "button", reset: "button", image: "button" };
    return kinds[element.type] || (element.type === "text" ? "textbox" : `textbox (${element.type})`);
  };
  const stateOf = (element) => {
    const states = [];
    if (element.matches("select")) {
      const options = [...element.options].slice(0, 30).map((option) => tidy(option.label));
      states.push(` = "${tidy(element.selectedOptions[0]?.label)}", options: ${options.join("; ")}`);
    } else if (["checkbox", "radio"].includes(element.type)) states.push(element.checked ? " (checked)" : " (not checked)");
    else if (element.matches("textarea, input:not([type=submit], [type=button], [type=reset], [type=image])") && element.value)
      states.push(` = "${shorten(tidy(element.value), longestName)}"`);
    if (element.disabled) states.push(" (disabled)");
    const expanded = element.getAttribute("aria-expanded");
    if (expanded) states.push(expanded === "true" ? " (expanded)" : " (collapsed)");
    return states.join("");
  };
  const isActive = (element) => {
    if (element.matches(LEAVES)) return element.type !== "hidden";
    return element.matches(CLICKED) && !element.querySelector(LEAVES) && !element.querySelector(CLICKED);
  };
  const childrenOf = (element) => {
    if (element.shadowRoot) return element.shadowRoot.childNodes;
    const assigned = element.tagName === "SLOT" ? element.assignedNodes() : [];
    return assigned.length ? assigned : element.childNodes;
  };

  const readElement = (element) => {
    if (SKIPPED.has(element.tagName)) return;
    const style = getComputedStyle(element);
    if (style.display === "none") return;
    if (isActive(element)) {
      if (!isSeen(element)) return;
      endLine();
      add(kindOf(element), `"${nameOf(element)}"${stateOf(element)}`, element, element);
      return;
    }
    if (/^H[1-6]$/.test(element.tagName) && isSeen(element) && !element.querySelector(LEAVES)) {
      endLine();
      const text = tidy(element.innerText);
      if (text) add("heading", `${"#".repeat(Number(element.tagName[1]))} ${shorten(text, longestLine)}`, null, element);
      return;
    }
    if (element.tagName === "IMG" && element.alt && isSeen(element)) line += ` (image: ${shorten(tidy(element.alt), longestName)}) `;
    const isBlock = !style.display.startsWith("inline") && style.display !== "contents";
    const isCell = style.display === "table-cell";
    if (element.tagName === "BR" || (isBlock && !isCell)) endLine();
    if (isCell && tidy(line)) line += " | ";
    for (const child of childrenOf(element)) if (!read(child)) break;
    if (isBlock && !isCell) endLine();
  };
  const read = (node) => {
    if (++nodes > mostNodes || characters + line.length > mostCharacters) cut = true;
    if (cut) return false;
    if (node.nodeType === Node.TEXT_NODE) {
      const parent = node.parentElement || node.getRootNode().host;
      if (node.data.trim() && parent && isSeen(parent)) { line += node.data; place ??= parent; }
      else if (/\s/.test(node.data)) line += " ";
    } else if (node.nodeType === Node.ELEMENT_NODE) readElement(node);
    return !cut;
  };
  if (document.body) read(document.body);
  endLine();
  const top = Math.max(0, places.findIndex((where) => where && where.getBoundingClientRect().bottom > 0));
  return { texts, kinds, elements, places, top, cut };
}
