"use strict";
// The page is complete without this: it only hides and opens what is there.
for (const bar of document.querySelectorAll(".controls")) {
  const list = document.getElementById(bar.dataset.list);
  const spans = [...list.querySelectorAll("li.span")];
  const turns = [...list.querySelectorAll("li.turn")];
  const filters = [...bar.querySelectorAll("button[data-fate]")];
  const count = bar.querySelector(".count");
  bar.hidden = false;
  bar.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.open) {
      for (const span of spans) {
        if (span.hidden) continue;
        for (const folded of span.querySelectorAll("details")) folded.open = button.dataset.open === "open";
      }
      return;
    }
    const fate = button.dataset.fate;
    for (const other of filters) other.setAttribute("aria-pressed", String(other === button));
    for (const span of spans) span.hidden = fate !== "" && span.dataset.fate !== fate;
    for (const turn of turns) turn.hidden = fate !== "";
    count.textContent = fate ? spans.filter((span) => !span.hidden).length + " of " + spans.length + " steps" : "";
  });
}
// A link from the picture must find its span even when a filter hides it.
addEventListener("hashchange", () => {
  const span = document.getElementById(location.hash.slice(1));
  if (span && span.hidden) {
    const all = document.querySelector('.controls[data-list="' + span.parentElement.id + '"] button[data-fate=""]');
    if (all) all.click();
    span.scrollIntoView();
  }
});
