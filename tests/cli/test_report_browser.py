"""The page in a real Chromium: accessible, within the window, and with marks that open."""

import shutil

import pytest

from focusctx import Focus
from focusctx.cli.options import setup_of
from focusctx.cli.report import Entry, page
from focusctx.drafts import ScriptedDraft
from helpers import histories

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe-playwright-python is not installed")

pytestmark = pytest.mark.browser

LOG = "".join(f"line {number}: all quiet in the eastern wing\n" for number in range(40))


@pytest.fixture
def report(tmp_path):
    messages = [*histories.run(1), *(message for number in (2, 3, 4) for message in histories.step(number, LOG))]
    focus = Focus(ScriptedDraft(["Step: read on | Depends on: [s_2.3]"]), budget=100, target=700)
    path = tmp_path / "report.html"
    path.write_text(page([Entry("run.json", focus.compress(messages), setup_of(focus))]), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
async def test_it_is_accessible_and_its_marks_open(report, scheme, width):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on PATH (scripts/browser installs it)")
    async with playwright.async_playwright() as started:
        browser = await started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        # The page's own policy would keep the checker's script out.
        context = await browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
        )
        shown = await context.new_page()
        await shown.goto(report)
        step = shown.locator("li.span.excerpt").first
        await step.get_by_text("as the agent sees it").click()
        gap = step.locator("details.gap").first
        await playwright.expect(gap.locator("div")).to_be_hidden()
        await gap.locator("summary").click()
        await playwright.expect(gap.locator("div")).to_be_visible()
        await shown.get_by_role("button", name="open all").click()
        assert await shown.locator("li.span details:not([open])").count() == 0
        assert await shown.evaluate("document.documentElement.scrollWidth") <= width
        found = await axe.Axe().run(shown, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, found.generate_report()
        await browser.close()
