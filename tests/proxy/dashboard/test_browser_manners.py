"""For everybody, in a real Chromium: with a keyboard alone, with a screen reader, in the dark, with hostile text."""

import asyncio
from typing import Any

import pytest

from helpers import task
from helpers.raw_http import proxy, raw_upstream

expect = pytest.importorskip("playwright.async_api", reason="playwright is not installed").expect
axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe-playwright-python is not installed")

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


async def test_a_keyboard_is_enough(staging, window):
    async with staging() as stage:
        agent = stage.agent()
        await agent.step(12)
        page = window.page
        await page.goto(f"{stage.url}/ui")
        await expect(page.get_by_role("link", name="scripted")).to_be_visible()

        async def tab_to(name: str) -> None:
            for _ in range(60):
                await page.keyboard.press("Tab")
                now = await page.evaluate(
                    "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
                )
                if str(now).startswith(name):
                    outline = "getComputedStyle(document.activeElement).outlineStyle"
                    assert await page.evaluate(outline) != "none", f"nobody sees where the focus is on {name}"
                    return
            raise AssertionError(f"no way to {name}")

        await tab_to("scripted")
        await page.keyboard.press("Enter")
        await tab_to("The figures")
        await page.keyboard.press("Enter")
        await expect(page.locator(".contents tbody tr")).to_have_count(12)
        await tab_to("Event 2")
        await page.keyboard.press("Enter")
        await expect(window.heading("Event 2: compressed")).to_be_focused()
        await tab_to("dropped (4)")
        await page.keyboard.press("Space")
        await tab_to("thought")
        await page.keyboard.press("Enter")
        await tab_to("observation of s_6")
        await tab_to("restore s_6")
        await page.keyboard.press("Enter")
        await expect(page.locator(".note:focus")).to_contain_text("goes up again")
        await agent.step()
        assert "Page 6 of 30. Balance" in stage.went_up


EVIL = (
    "</pre></script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\u202eevil\u2066 {{7*7}}"
)


async def late(route: Any) -> None:
    """An answer that takes its time, as on a busy machine."""
    await asyncio.sleep(0.3)
    await route.continue_()


async def test_hostile_text_stays_text(staging, window):
    sketches = [f"Step: {EVIL} | Depends on: [s_2]\nRescued Spans: [s_1] | Reason: {EVIL}"]
    async with staging(sketches=sketches) as stage:
        agent = stage.agent(model=f"<b>model</b>{EVIL}", tool=lambda name, said: f"{task.run_tool(name, said)} {EVIL}")
        agent.history[1]["content"] += EVIL
        await agent.step(12)
        page = window.page
        await page.route("**/events/*", late)
        await page.goto(f"{stage.url}/ui")
        await page.get_by_role("link", name="<b>model</b>").click()
        await page.get_by_role("link", name="Event 1: compressed").click()
        await expect(window.heading("Event 1: compressed")).to_be_visible()  # not before there is something to open
        for summary in await page.locator("summary").all():
            await summary.click()
        await expect(page.get_by_role("group", name="observation of s_4")).to_contain_text(EVIL)
        await expect(page.locator("li.turn")).to_contain_text(EVIL)
        await expect(page.locator("li.span").first).to_contain_text("rescued by sketches 1-3")
        assert await page.evaluate("window.hacked") is None
        assert await page.locator("main :is(img, script, b:has(> *), iframe)").count() == 0
        direction = "node => getComputedStyle(node).unicodeBidi"
        assert await page.locator("q").first.evaluate(direction) == "isolate"


async def test_with_a_token_there_is_a_login_page(staging, window):
    token, callers = "open, sesame & more", "a token for the agents"
    async with staging(token=callers, admin_token=token) as stage:
        await stage.agent(headers={"x-focusctx-token": callers}).step(2)
        page = window.page
        await page.goto(f"{stage.url}/ui")
        field, button = page.get_by_label("Admin token"), page.get_by_role("button", name="Open the dashboard")
        await check_accessibility(page)
        await field.fill(callers)
        await button.click()
        await expect(page.get_by_text("That is not the admin token.")).to_be_visible()
        await field.fill(token)
        await button.click()
        await expect(page.get_by_role("link", name="scripted")).to_be_visible()
        assert page.url == f"{stage.url}/ui"
        assert await page.evaluate("document.cookie") == "", "scripts do not get at it"
        (cookie,) = await page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/ui")
        await page.get_by_role("button", name="log out").click()
        await expect(field).to_be_visible()
        await page.reload()
        await expect(field).to_be_visible()
        assert {"403" in line for line in window.complaints} <= {True}
        window.complaints.clear()


_HOSTILE = b"""<!doctype html><title>quiet</title><script>
document.title = "it runs";
fetch("/ui/api/sessions").then((answer) => answer.text()).then((text) => { document.title = text; });
</script>"""


async def test_a_forwarded_page_cannot_read_the_dashboard(browser):
    """It has the dashboard's origin, and without its sandbox it would run as a page of it."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % len(_HOSTILE)
    async with raw_upstream(head + _HOSTILE) as up, proxy(up.url) as (_, url):
        page = await browser.new_page()
        answer = await page.goto(f"{url}/v1/page")
        assert answer.status == 200
        await asyncio.sleep(0.5)
        assert await page.title() == "quiet", "its script did not run"
        await page.close()


async def check_accessibility(page: Any) -> None:
    found = await axe.Axe().run(page, options={"resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
async def test_every_view_is_readable_and_accessible(staging, window, scheme, width):
    async with staging(levels=True) as stage:
        agent = stage.agent(model="gpt-4.1-with-a-name-that-is-longer-than-most-names-of-models-are")
        await agent.step(12)
        page = await window.opened(stage, event=4)
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        await page.set_viewport_size({"width": width, "height": 800})
        await page.get_by_role("button", name="restore s_4").click()
        span = page.locator("li.span").filter(has=page.get_by_role("heading", name="s_2", exact=True))
        await span.locator("summary").first.click()
        await expect(page.get_by_role("group", name="observation of s_2")).to_be_visible()
        await span.locator(".gap summary").first.click()
        lightness = await page.evaluate("parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
        assert (lightness < 60) == (scheme == "dark")
        assert await page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
        for expected in ("Event 1: compressed", agent.model, "Sessions"):
            await expect(window.heading(expected)).to_be_visible()
            if expected == agent.model:
                await page.get_by_text("show them").click()
                await page.get_by_role("searchbox").fill("Balance")
                await expect(page.locator("mark").first).to_be_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            await check_accessibility(page)
            up = page.get_by_role("navigation", name="You are here").get_by_role("link").last
            if await up.count():
                await up.click()
        await expect(page.get_by_role("table")).to_be_visible()
        await expect(page.get_by_role("columnheader")).to_have_count(6)
        await expect(page.get_by_role("cell")).to_have_count(5)
