"""Following sessions in a real Chromium: what moves, and what must not."""

import asyncio
import json
import re
from contextlib import AsyncExitStack

import pytest

from focusctx.proxy.upstream import Upstream

expect = pytest.importorskip("playwright.async_api", reason="playwright is not installed").expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


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
        await expect(window.heading("scripted")).to_be_focused()
        await expect(page.get_by_text("None so far")).to_be_visible()

        await agent.step(12)
        await expect(page.locator("figcaption")).to_contain_text("at 14 requests")
        (live,) = stage.proxy.conversations
        changes = sum(event.happened for event in live.session.events)
        await expect(page.locator("figcaption")).to_contain_text(f"{changes} events marked")
        await expect(page.locator("svg .mark:not(.left)")).to_have_count(changes)
        await expect(page.locator(".tiles")).to_contain_text(f"events{changes}in 14 requests")
        await expect(page.get_by_text(f"{changes} events.")).to_be_visible()
        named = page.locator(".events a")
        numbered = [f"Event {number}: compressed" for number in range(changes, 0, -1)]
        texts = await named.all_text_contents()
        assert [text for text in texts if text.startswith("Event")] == numbered, "counted as the tile counts them"
        assert set(texts) == set(numbered)
        await expect(page.get_by_role("status")).to_have_text(re.compile("new events? in session scripted"))


async def test_it_suggests_nothing_that_would_show_a_key_to_the_wrong_provider(staging, window):
    upstreams = (Upstream.named("openai"),)
    async with staging(upstreams=upstreams) as stage:
        await window.page.goto(f"{stage.url}/ui")
        welcome = window.page.locator(".welcome")
        await expect(welcome).to_contain_text(f"export OPENAI_BASE_URL={stage.url}/v1")
        await expect(welcome).not_to_contain_text("ANTHROPIC")


async def test_the_list_says_what_a_session_waits_for(staging, window):
    async with staging() as stage:
        agent = stage.agent(model="claude-sonnet-5")
        page = window.page
        await page.goto(f"{stage.url}/ui")
        live = await _until_it_waits(stage, agent)
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="claude-sonnet-5"))
        await expect(row).to_contain_text("waits: does not pay yet")
        await row.get_by_role("link").click()
        await expect(page.locator("figcaption")).to_contain_text("No event yet.")
        await expect(page.get_by_text("No event yet; looked at and left alone")).to_be_visible()
        assert not any(event.happened for event in live.session.events)
        names = await page.locator(".events a").all_text_contents()
        assert names
        assert not any("Event" in name for name in names)


async def _until_it_waits(stage, agent):
    for _ in range(20):
        await agent.step()
        (live,) = stage.proxy.conversations
        if live.session.events and live.session.events[-1].cause == "money":
            return live
    raise AssertionError("it always pays")


async def test_updates_keep_focus_place_and_what_is_open(staging, window):
    async with staging() as stage:
        agent = stage.agent()
        await agent.step(9)
        page = await window.opened(stage)
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


async def test_it_comes_back_when_the_proxy_does(staging, window):
    page = window.page
    async with AsyncExitStack() as first:
        stage = await first.enter_async_context(staging())
        await stage.agent().step(9)
        await window.opened(stage)
        await expect(page.locator("#connection")).to_have_text("live")
        port = int(stage.url.rpartition(":")[2])
    await expect(page.locator("#connection")).to_have_text(re.compile("trying again"))
    await expect(window.heading("scripted")).to_be_visible()
    async with staging(port=port) as again:
        await expect(page.locator("#connection")).to_have_text("live")
        await expect(page.get_by_text("this session is not in memory any more")).to_be_visible()
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


async def test_the_page_works_with_what_the_api_says(staging, window):
    """Every name that the scripts read is one that the server writes."""
    async with staging() as stage:
        await stage.agent(model="gpt-4.1").step(22)
        page = await window.opened(stage)
        (live,) = stage.proxy.conversations
        await expect(page.locator(".tiles dd").nth(1)).to_contain_text(f"{live.steps[-1].sent:,}")
        text = await page.locator("main").inner_text()
        happened = 0
        for number, event in enumerate(live.session.events, 1):
            happened += event.happened
            name = f"Event {happened}: compressed" if event.happened else re.compile("^Left alone: ")
            await page.goto(f"{stage.url}/ui#/sessions/{live.id}/events/{number}")
            await expect(window.heading(name)).to_be_visible()
            await expect(page.get_by_text(event.why[1:])).not_to_have_count(0)
            text += await page.locator("main").inner_text()
        assert not re.search(r"undefined|NaN|null|\[object", text), json.dumps(text)
