"""Events in a real Chromium: what people open, read and press."""

import re

import pytest

from helpers import task

expect = pytest.importorskip("playwright.async_api", reason="playwright is not installed").expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

PAGE_5 = "Page 5 of 30. Balance"


async def test_an_event_shows_its_spans_their_text_and_restores_one(staging, window):
    async with staging() as stage:
        agent = stage.agent()
        await agent.step(12)
        assert PAGE_5 not in stage.went_up
        page = await window.opened(stage, event=5)
        await expect(window.heading(re.compile("^Event 2: compressed$"))).to_be_visible()
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
        page = await window.opened(stage, event=5)
        button = page.get_by_role("button", name="restore s_5")
        await expect(button).to_be_visible()
        (live,) = stage.proxy.conversations
        live.session.restore(5)
        await agent.step()
        await button.click()
        await expect(page.get_by_text("Not restored: s_5 is not left out any more.").first).to_be_visible()
        # A browser notes every answer of that kind.
        assert [line for line in window.complaints if "409" not in line] == []
        window.complaints.clear()


async def test_filters_and_the_bar_lead_to_spans(staging, window):
    async with staging() as stage:
        await stage.agent().step(12)
        page = await window.opened(stage, event=5)
        await page.get_by_role("button", name="dropped (4)").click()
        await expect(page.locator("li.span:visible")).to_have_count(4)
        await expect(page.get_by_text("4 of 9 spans")).to_be_visible()
        await page.locator(".bar").first.locator(".segment", has_text="s_2").click()
        await expect(page.get_by_role("heading", name="s_2", exact=True)).to_be_focused()
        await expect(page.locator("li.span:visible")).to_have_count(9)


async def test_skeletons_stand_in_their_places_in_both_bars(staging, window):
    async with staging(fill=0.7) as stage:
        await stage.agent().step(20)
        (live,) = stage.proxy.conversations
        event = next(event for event in live.session.events if event.happened and event.result.skeletons)
        page = await window.opened(stage, event=event.result.skeletons[0])
        bars = page.locator(".bar")
        await expect(bars).to_have_count(2)
        before, after = [
            await bar.locator(".segment").evaluate_all(
                "all => all.map(one => [one.title.split(':')[0], one.className, Number(one.style.flexGrow)])"
            )
            for bar in await bars.all()
        ]
        stayed = [name for name, kind, _ in before if "dropped" not in kind]
        assert len(stayed) < len(before)
        assert [name for name, _, _ in after] == stayed
        sizes = {name: tokens for name, _, tokens in before}
        skeletons = [(name, tokens) for name, kind, tokens in after if "skeleton" in kind]
        assert skeletons
        assert all(0 < tokens < sizes[name] for name, tokens in skeletons)
        assert sum(tokens for _, _, tokens in after) == event.tokens_after
        await expect(page.locator(".legend")).to_contain_text("kept: plans cite it, or there was room")
        await bars.last.locator(".segment.skeleton").first.click()
        await expect(page.get_by_role("heading", name=skeletons[0][0], exact=True)).to_be_focused()


async def test_addresses_lead_to_where_they_say_and_back(staging, window):
    async with staging() as stage:
        await stage.agent().step(12)
        page = await window.opened(stage, event=5)
        await expect(window.heading("Event 2: compressed")).to_be_visible()
        assert await page.title() == "Event 2: compressed · focusctx"
        await page.get_by_role("link", name="← Left alone: too little is new").click()
        await expect(window.heading("Left alone: too little is new")).to_be_focused()
        await page.get_by_role("link", name="← Event 1: compressed").click()
        await expect(window.heading("Event 1: compressed")).to_be_focused()
        await page.go_back()
        await page.get_by_role("link", name="Event 2: compressed →").click()
        await expect(window.heading("Event 2: compressed")).to_be_visible()
        await page.get_by_role("navigation", name="You are here").get_by_role("link", name="scripted").click()
        await expect(window.heading("scripted")).to_be_visible()
        await page.locator("svg .mark:not(.left)").first.click()
        await expect(window.heading("Event 1: compressed")).to_be_visible()
        for place in ("#/sessions/0123", "#/sessions/0123/events/1"):
            await page.goto(f"{stage.url}/ui{place}")
            await expect(page.get_by_text("this session is not in memory any more")).to_be_visible()
        assert {"404" in line for line in window.complaints} == {True}
        window.complaints.clear()


async def test_a_dry_run_says_would(staging, window):
    async with staging(dry_run=True) as stage:
        await stage.agent().step(12)
        assert PAGE_5 in stage.went_up
        page = await window.opened(stage)
        await expect(page.get_by_text("Dry run.")).to_be_visible()
        await expect(page.locator("figcaption")).to_contain_text("would be sent")
        await page.get_by_role("link", name="Event 1: would compress").click()
        await expect(page.locator("li.span .badge", has_text="would be dropped").first).to_be_visible()
        await expect(page.get_by_role("button", name=re.compile("would be dropped"))).to_be_visible()


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
        page = await window.opened(stage, event=5)
        await expect(page.locator("li.span")).to_have_count(1000)
        await expect(page.locator(".bar.dense")).to_have_count(1)
        last = page.locator("li.span").last
        await last.locator("summary").click()
        await expect(last).to_contain_text("No. 1000")


async def test_the_long_words_of_the_user_can_be_opened(staging, window):
    long = "Mind the valves. " * 500
    async with staging() as stage:
        agent = stage.agent()
        agent.history[1]["content"] += long
        await agent.step(12)
        page = await window.opened(stage, event=4)
        turn = page.locator("li.turn")
        await turn.get_by_role("button", name=f"show all {len(task.TASK + long):,} characters").click()
        await expect(turn.get_by_role("group", name="The task")).to_be_focused()
        assert await turn.locator("pre").text_content() == task.TASK + long
