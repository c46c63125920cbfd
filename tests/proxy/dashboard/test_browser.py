"""The dashboard in a real Chromium: what people see, follow, open and press."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

import task

pytest.importorskip("playwright", reason="playwright is not installed")

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright, expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FLAGS = ["--no-sandbox", "--headless=new", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PAGE_5 = "Page 5 of 30. Balance"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        await browser.close()


class Window:
    """A page in the browser. Whatever it complains of, and every request it makes to elsewhere, is remembered."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.set_default_timeout(10_000)
        page.on("console", lambda line: line.type in ("error", "warning") and self.complaints.append(line.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        page.on("request", lambda request: self._heed(request.url))

    def _heed(self, url: str) -> None:
        if not re.match(r"http://127\.0\.0\.1:\d+/ui(/|$|#)", url):
            self.complaints.append(f"asked for {url}")


@pytest_asyncio.fixture(loop_scope="module")
async def window(browser: Browser) -> AsyncIterator[Window]:
    context = await browser.new_context(viewport={"width": 1200, "height": 900})
    window = Window(await context.new_page())
    yield window
    await context.close()
    assert window.complaints == []


def heading(page: Page, text: str | re.Pattern[str]) -> Any:
    return page.get_by_role("heading", level=1, name=text)


async def opened(window: Window, stage: Any, *, event: int | None = None) -> Page:
    """The page of the only session, or of the event that dropped its fifth span."""
    (live,) = stage.proxy.sessions
    hash = f"#/sessions/{live.id}"
    if event is not None:
        events = list(live.session.events)
        hash += f"/events/{next(n for n, it in enumerate(events, 1) if it.result and event in it.result.dropped)}"
    await window.page.goto(f"{stage.url}/ui{hash}")
    return window.page


async def test_it_says_what_to_do_and_then_follows_a_running_session(staging, window):
    async with staging() as stage:
        page = window.page
        await page.goto(f"{stage.url}/ui")
        await expect(page.get_by_text(f"export OPENAI_BASE_URL={stage.url}/v1")).to_be_visible()
        await expect(page.get_by_text(f"export ANTHROPIC_BASE_URL={stage.url}")).to_be_visible()

        agent = stage.agent()
        await agent.step(2)
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="scripted"))
        await expect(row).to_contain_text("in 2 requests")
        await expect(page.get_by_text("No agent has called yet")).to_be_hidden()
        await row.get_by_role("link").click()
        await expect(heading(page, "scripted")).to_be_focused()
        await expect(page.get_by_text("None so far")).to_be_visible()

        await agent.step(12)
        await expect(page.locator("figcaption")).to_contain_text("at 14 requests")
        (live,) = stage.proxy.sessions
        changes = sum(event.happened for event in live.session.events)
        await expect(page.locator("figcaption")).to_contain_text(f"{changes} events marked")
        await expect(page.locator("svg .mark:not(.left)")).to_have_count(changes)
        items = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=re.compile("^Event")))
        await expect(items.first).to_contain_text(re.compile("left alone: too little is new|compressed"))
        await expect(page.get_by_role("link", name=re.compile("^Event 1: compressed"))).to_be_visible()
        await expect(page.get_by_role("status")).to_have_text(re.compile("new events? in session scripted"))


async def test_updates_keep_focus_place_and_what_is_open(staging, window):
    async with staging() as stage:
        agent = stage.agent()
        await agent.step(9)
        page = await opened(window, stage)
        figures = page.get_by_text("The figures as a table")
        await figures.click()
        link = page.get_by_role("link", name="Event 1: compressed")
        await link.focus()
        await page.evaluate("scrollTo(0, 200)")
        shown = await page.locator(".events > li").count()
        await agent.step(8)
        await expect(page.locator(".contents tbody tr")).to_have_count(17)
        assert await page.locator(".events > li").count() > shown
        await expect(link).to_be_focused()
        assert await page.evaluate("scrollY") == 200
        assert await page.locator("details[open]").count() == 1


async def test_a_row_stays_where_somebody_points_at_it(staging, window):
    async with staging() as stage:
        first, second = stage.agent("1", model="first"), stage.agent("2", model="second")
        await first.step()
        await second.step()
        page = window.page
        await page.goto(f"{stage.url}/ui")
        names = page.locator("tbody a")
        await expect(names).to_have_text(["second", "first"])
        await names.last.focus()
        await first.step(3)
        await expect(page.get_by_role("row").filter(has_text="first")).to_contain_text("in 4 requests")
        await expect(names).to_have_text(["second", "first"])
        await expect(names.last).to_be_focused()
        await names.last.blur()
        await first.step()
        await expect(names).to_have_text(["first", "second"])


async def test_an_event_shows_its_spans_their_text_and_restores_one(staging, window):
    async with staging() as stage:
        agent = stage.agent()
        await agent.step(12)
        assert PAGE_5 not in stage.went_up
        page = await opened(window, stage, event=5)
        await expect(heading(page, re.compile("^Event 3: compressed$"))).to_be_visible()
        spans = page.locator("li.span")
        fates = [await fate.text_content() for fate in await spans.locator(".badge").all()]
        assert fates == ["rescued", "kept", "kept", "dropped", "dropped", "dropped", "dropped", "pinned", "pinned"]
        first, second = spans.nth(0), spans.nth(1)
        await expect(first).to_contain_text("rescued by sketches 1-2: it was the first try")
        await expect(second).to_contain_text("needed by sketches 1-2: finish the audit")
        await expect(second).to_contain_text("utility  0.67")
        await expect(page.locator("li.turn")).to_contain_text(task.TASK)
        await page.get_by_text("Sketch 1: 1 step, cites s_2–s_3, rescues s_1").click()
        await expect(page.get_by_text("Rescued Spans: [s_1]").first).to_be_visible()
        await expect(page.get_by_role("heading", name="Certificate")).to_be_visible()

        span = spans.filter(has=page.get_by_role("heading", name="s_5", exact=True))
        assert await page.get_by_text(PAGE_5).count() == 0, "texts come when they are asked for"
        await span.get_by_text("characters").click()
        text = span.get_by_role("group", name="observation of s_5")
        await expect(text).to_be_visible()
        assert (await text.text_content() or "").startswith(task.run_tool("read_page", {"page": 5}))

        await page.get_by_role("button", name="restore s_5").click()
        await expect(span).to_contain_text("goes up again from the agent's next request on")
        await expect(span.get_by_text("restored", exact=True)).to_be_visible()
        await agent.step()
        assert PAGE_5 in stage.went_up
        await expect(span).to_contain_text("s_5 is back in its place")
        assert await span.locator("details[open]").count() == 1

        await page.reload()
        await expect(span).to_contain_text("s_5 is back in its place")
        await expect(page.get_by_role("button", name="restore s_6")).to_be_visible()


async def test_a_span_that_is_back_already_is_not_restored_again(staging, window):
    async with staging() as stage:
        agent = stage.agent()
        await agent.step(12)
        page = await opened(window, stage, event=5)
        button = page.get_by_role("button", name="restore s_5")
        await expect(button).to_be_visible()
        (live,) = stage.proxy.sessions
        live.session.restore(5)
        await agent.step()
        await button.click()
        await expect(page.get_by_text("Not restored: s_5 is not dropped any more.").first).to_be_visible()
        # A browser notes every answer of that kind.
        assert [line for line in window.complaints if "409" not in line] == []
        window.complaints.clear()


async def test_filters_and_the_bar_lead_to_spans(staging, window):
    async with staging() as stage:
        await stage.agent().step(12)
        page = await opened(window, stage, event=5)
        await page.get_by_role("button", name="dropped (4)").click()
        await expect(page.locator("li.span:visible")).to_have_count(4)
        await expect(page.get_by_text("4 of 9 spans")).to_be_visible()
        await page.locator(".bar").first.locator(".segment", has_text="s_2").click()
        await expect(page.get_by_role("heading", name="s_2", exact=True)).to_be_focused()
        await expect(page.locator("li.span:visible")).to_have_count(9)


async def test_addresses_lead_to_where_they_say_and_back(staging, window):
    async with staging() as stage:
        await stage.agent().step(12)
        page = await opened(window, stage, event=5)
        await expect(heading(page, "Event 3: compressed")).to_be_visible()
        assert await page.title() == "Event 3: compressed · focusctx"
        await page.get_by_role("link", name="← event 2").click()
        await expect(heading(page, "Event 2: left alone: too little is new")).to_be_focused()
        await page.go_back()
        await expect(heading(page, "Event 3: compressed")).to_be_visible()
        await page.get_by_role("navigation", name="You are here").get_by_role("link", name="scripted").click()
        await expect(heading(page, "scripted")).to_be_visible()
        await page.locator("svg .mark:not(.left)").first.click()
        await expect(heading(page, "Event 1: compressed")).to_be_visible()
        for hash in ("#/sessions/0123", "#/sessions/0123/events/1"):
            await page.goto(f"{stage.url}/ui{hash}")
            await expect(page.get_by_text("there is no such session in memory any more.")).to_be_visible()
        assert {"404" in line for line in window.complaints} == {True}
        window.complaints.clear()


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
        await tab_to("Event 3")
        await page.keyboard.press("Enter")
        await expect(heading(page, "Event 3: compressed")).to_be_focused()
        await tab_to("dropped (4)")
        await page.keyboard.press("Space")
        await tab_to("thought")
        await page.keyboard.press("Enter")
        await tab_to("observation of s_5")
        await tab_to("restore s_5")
        await page.keyboard.press("Enter")
        await expect(page.locator(".note:focus")).to_contain_text("goes up again")
        await agent.step()
        assert PAGE_5 in stage.went_up


EVIL = (
    "</pre></script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\u202eevil\u2066 {{7*7}}"
)


async def test_hostile_text_stays_text(staging, window):
    sketches = [f"Step: {EVIL} | Depends on: [s_2]\nRescued Spans: [s_1] | Reason: {EVIL}"]
    async with staging(sketches=sketches) as stage:
        agent = stage.agent(model=f"<b>model</b>{EVIL}", tool=lambda name, said: f"{task.run_tool(name, said)} {EVIL}")
        agent.history[1]["content"] += EVIL
        await agent.step(12)
        page = window.page
        await page.goto(f"{stage.url}/ui")
        await page.get_by_role("link", name="<b>model</b>").click()
        await page.get_by_role("link", name="Event 1").click()
        await expect(heading(page, re.compile("^Event 1"))).to_be_visible()
        for summary in await page.locator("summary").all():
            await summary.click()
        await expect(page.get_by_role("group", name="observation of s_4")).to_contain_text(EVIL)
        await expect(page.locator("li.turn")).to_contain_text(EVIL)
        await expect(page.locator("li.span").first).to_contain_text("rescued by sketches 1-3")
        assert await page.evaluate("window.hacked") is None
        assert await page.locator("main :is(img, script, b:has(> *), iframe)").count() == 0
        direction = "node => getComputedStyle(node).unicodeBidi"
        assert await page.locator("q").first.evaluate(direction) == "isolate"


async def test_a_dry_run_says_would(staging, window):
    async with staging(dry_run=True) as stage:
        await stage.agent().step(12)
        assert PAGE_5 in stage.went_up
        page = await opened(window, stage)
        await expect(page.get_by_text("Dry run.")).to_be_visible()
        await expect(page.locator("figcaption")).to_contain_text("would be sent")
        await page.get_by_role("link", name="Event 1: would compress").click()
        await expect(page.locator("li.span .badge", has_text="would be dropped").first).to_be_visible()
        await expect(page.get_by_role("button", name=re.compile("would be dropped"))).to_be_visible()


async def test_with_a_token_there_is_a_door(staging, window):
    token = "open, sesame & more"
    async with staging(token=token) as stage:
        await stage.agent(headers={"x-focusctx-token": token}).step(2)
        page = window.page
        await page.goto(f"{stage.url}/ui")
        field, button = page.get_by_label("Access token"), page.get_by_role("button", name="Open the dashboard")
        await check_accessibility(page)
        await field.fill("something else, that long")
        await button.click()
        await expect(page.get_by_text("That is not the access token.")).to_be_visible()
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


async def check_accessibility(page: Page) -> None:
    found = await Axe().run(page, options={"resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
async def test_every_view_is_readable_and_accessible(staging, window, scheme, width):
    async with staging() as stage:
        agent = stage.agent(model="gpt-4.1-with-a-name-that-is-longer-than-most-names-of-models-are")
        await agent.step(12)
        page = await opened(window, stage, event=5)
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        await page.set_viewport_size({"width": width, "height": 800})
        await page.get_by_role("button", name="restore s_6").click()
        await page.locator("li.span summary").first.click()
        await expect(page.get_by_role("group", name="observation of s_1")).to_be_visible()
        lightness = await page.evaluate("parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
        assert (lightness < 60) == (scheme == "dark")
        assert await page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
        for expected in ("Event 3: compressed", agent.model, "Sessions"):
            await expect(heading(page, expected)).to_be_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            await check_accessibility(page)
            up = page.get_by_role("navigation", name="You are here").get_by_role("link").last
            if await up.count():
                await up.click()
        await expect(page.get_by_role("table")).to_be_visible()
        await expect(page.get_by_role("columnheader")).to_have_count(6)
        await expect(page.get_by_role("cell")).to_have_count(5)


async def test_a_thousand_spans(staging, window):
    async with staging() as stage:
        agent = stage.agent()
        for number in range(1, 1001):
            call = {"id": f"c{number}", "type": "function", "function": {"name": "read_page", "arguments": "{}"}}
            agent.history.append({"role": "assistant", "content": None, "tool_calls": [call]})
            agent.history.append(
                {"role": "tool", "tool_call_id": f"c{number}", "content": f"No. {number}" + " x" * 200}
            )
        await agent.step()
        page = await opened(window, stage, event=5)
        await expect(page.locator("li.span")).to_have_count(1000)
        await expect(page.locator(".bar.dense")).to_have_count(1)
        last = page.locator("li.span").last
        await last.locator("summary").click()
        await expect(last).to_contain_text("No. 1000")


async def test_it_comes_back_when_the_proxy_does(staging, window):
    page = window.page
    async with AsyncExitStack() as first:
        stage = await first.enter_async_context(staging())
        await stage.agent().step(9)
        await opened(window, stage)
        await expect(page.locator("#connection")).to_have_text("live")
        port = int(stage.url.rpartition(":")[2])
    await expect(page.locator("#connection")).to_have_text(re.compile("trying again"))
    await expect(heading(page, "scripted")).to_be_visible()
    async with staging(port=port) as again:
        await expect(page.locator("#connection")).to_have_text("live")
        await expect(page.get_by_text("there is no such session in memory any more.")).to_be_visible()
        await again.agent().step(3)
        await expect(page.locator("figcaption")).to_contain_text("at 3 requests")
    window.complaints.clear()


async def test_a_page_that_nobody_sees_gives_its_connection_back(staging, window):
    async with staging() as stage:
        page = window.page
        await page.goto(f"{stage.url}/ui")
        await expect(page.locator("#connection")).to_have_text("live")
        hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true}); "
        hide += "document.dispatchEvent(new Event('visibilitychange')) }"
        await page.evaluate(hide, True)
        for _ in range(100):
            if not stage.proxy.watchers:
                break
            await asyncio.sleep(0.02)
        assert not stage.proxy.watchers
        await stage.agent().step()
        await page.evaluate(hide, False)
        await expect(page.get_by_role("link", name="scripted")).to_be_visible()


async def test_the_long_words_of_the_user_can_be_opened(staging, window):
    long = "Mind the valves. " * 500
    async with staging() as stage:
        agent = stage.agent()
        agent.history[1]["content"] += long
        await agent.step(12)
        page = await opened(window, stage, event=4)
        turn = page.locator("li.turn")
        await turn.get_by_role("button", name=f"show all {len(task.TASK + long):,} characters").click()
        await expect(turn.get_by_role("group", name="The task")).to_be_focused()
        assert await turn.locator("pre").text_content() == task.TASK + long


async def test_the_page_works_with_what_the_api_says(staging, window):
    """Every name that the scripts read is one that the server writes."""
    async with staging() as stage:
        await stage.agent(model="gpt-4.1").step(22)
        page = await opened(window, stage)
        (live,) = stage.proxy.sessions
        await expect(page.locator(".tiles dd").nth(1)).to_contain_text(f"{live.steps[-1].sent:,}")
        text = await page.locator("main").inner_text()
        for number in range(1, len(live.session.events) + 1):
            await page.goto(f"{stage.url}/ui#/sessions/{live.id}/events/{number}")
            await expect(heading(page, re.compile(f"^Event {number}:"))).to_be_visible()
            text += await page.locator("main").inner_text()
        assert not re.search(r"undefined|NaN|null|\[object", text), json.dumps(text)
