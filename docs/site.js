// Accessibility that the theme leaves out: names for the button bars of code blocks, a way for the keyboard into tables
// that scroll, and empty corners of tables, which are no headers.
const repair = () => {
  document.querySelectorAll(".md-code__nav").forEach((bar, number) => {
    bar.setAttribute("aria-label", `Code block ${number + 1}`);
  });
  document.querySelectorAll(".md-typeset__scrollwrap, .highlight code").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  });
  document.querySelectorAll("th").forEach((cell) => {
    if (!cell.textContent.trim()) cell.replaceWith(document.createElement("td"));
  });
};
addEventListener("load", () => {
  repair();
  // The theme adds bars and scrolling boxes later, when they come into view.
  new MutationObserver(repair).observe(document.querySelector("main"), { childList: true, subtree: true });
});
addEventListener("resize", repair);
