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
        await expect(window.heading(re.compile("^Event 1: compressed$"))).to_be_visible()
        spans = page.locator("li.span")
        fates = [await fate.text_content() for fate in await spans.locator(".badge").all()]
        assert fates == ["rescued", "kept", "kept", "dropped", "dropped", "pinned", "pinned", "pinned"]
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
        await expect(page.get_by_role("button", name="restore s_4")).to_be_visible()


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
        await page.get_by_role("button", name="dropped (2)").click()
        await expect(page.locator("li.span:visible")).to_have_count(2)
        await expect(page.get_by_text("2 of 8 steps")).to_be_visible()
        await page.locator(".bar").first.locator(".segment", has_text="s_2").click()
        await expect(page.get_by_role("heading", name="s_2", exact=True)).to_be_focused()
        await expect(page.locator("li.span:visible")).to_have_count(8)


async def test_excerpts_and_records_have_their_places_in_both_bars(staging, window):
    async with staging(levels=True) as stage:
        await stage.agent().step(12)
        (live,) = stage.proxy.conversations
        event = live.session.events[0]
        page = await window.opened(stage, event=4)
        await expect(window.heading("Event 1: compressed")).to_be_visible()
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
        excerpts = [(name, tokens) for name, kind, tokens in after if "excerpt" in kind]
        assert excerpts
        assert all(0 < tokens < sizes[name] for name, tokens in excerpts)
        assert sum(tokens for _, _, tokens in after) == event.tokens_after
        await expect(page.locator(".legend")).to_contain_text("excerpt: its action and the passages that matter")
        await expect(page.locator(".tiles")).to_contain_text("steps shown in part2of 8")
        await expect(page.locator(".tiles")).to_contain_text("target 1,250")
        await bars.last.locator(".segment.excerpt").first.click()
        await expect(page.get_by_role("heading", name=excerpts[0][0], exact=True)).to_be_focused()


async def test_an_excerpt_shows_what_the_agent_sees_and_opens_what_it_does_not(staging, window):
    async with staging(levels=True) as stage:
        await stage.agent().step(12)
        page = await window.opened(stage, event=4)
        span = page.locator("li.span").filter(has=page.get_by_role("heading", name="s_2", exact=True))
        await expect(span.locator(".badge")).to_have_text("excerpt")
        await expect(span.locator(".tokens")).to_contain_text(" of ")
        await span.get_by_text("as the agent sees it").click()
        box = span.get_by_role("group", name="observation of s_2")
        hidden = task.run_tool("read_page", {"page": 2}).splitlines()
        await expect(box.get_by_text(hidden[0])).to_be_visible()
        marks = box.locator("details.gap")
        assert await marks.count() >= 1
        await expect(marks.first.locator("div")).to_be_hidden()
        await expect(marks.first.locator("summary")).to_have_text(re.compile(r"^\[…( \d+ lines? left out)?\]$"))
        await marks.first.locator("summary").click()
        await expect(marks.first.locator("div")).to_be_visible()
        assert (await marks.first.locator("div").text_content() or "").splitlines()[0] in hidden
        await page.get_by_role("button", name="restore s_2").click()
        await expect(span).to_contain_text("goes up again from the agent's next request on")


async def test_passages_that_sketches_cite_are_named(staging, window):
    async with staging(levels=True, sketches=["Step: report page 3 | Depends on: [s_3.2, s_2]"]) as stage:
        await stage.agent().step(12)
        page = await window.opened(stage, event=4)
        span = page.locator("li.span").filter(has=page.get_by_role("heading", name="s_3", exact=True))
        await expect(span).to_contain_text("needed by sketches 1-3 (s_3.2): report page 3")
        await expect(page.get_by_text("Sketch 1: 1 step, cites s_2, s_3.2")).to_be_visible()


async def test_what_is_left_out_now_is_found_and_restored(staging, window):
    async with staging(levels=True) as stage:
        agent = stage.agent()
        await agent.step(12)
        line = task.run_tool("read_page", {"page": 4}).splitlines()[3]
        number = line.split("lot ")[1].split(":")[0]
        assert number not in stage.went_up
        page = await window.opened(stage)
        await expect(page.get_by_role("heading", name="Left out now")).to_be_visible()
        await page.get_by_text("show them").click()
        items = page.locator(".left-out li.span")
        (live,) = stage.proxy.conversations
        await expect(items).to_have_count(len(live.conversation.left_out.spans))
        await page.get_by_role("searchbox").fill(number)
        await expect(items).to_have_count(1)
        await expect(items.locator("mark")).to_have_text(number)
        await expect(page.locator(".left-out .count")).to_contain_text("1 of ")
        await items.get_by_text("characters").click()
        await expect(items.get_by_role("group", name="observation of s_4")).to_contain_text(line)
        alone = page.get_by_role("button", name=re.compile(r"restore s_4\.\d+"))
        await alone.click()
        await expect(items).to_contain_text(re.compile(r"s_4\.\d+ goes up again from the agent's next request on"))
        await agent.step()
        assert line in stage.went_up
        await expect(alone).to_have_count(0)
        await page.get_by_role("button", name="restore s_4", exact=True).click()
        await expect(items).to_contain_text("s_4 goes up again from the agent's next request on")
        await agent.step()
        assert number in stage.went_up
        await expect(items).to_have_count(0)


async def test_a_session_says_in_words_that_its_target_was_exceeded(staging, window):
    async with staging(levels=True) as stage:
        agent = stage.agent()
        agent.history[1]["content"] += " Mind the valves." * 400
        await agent.step(12)
        page = await window.opened(stage)
        await expect(page.get_by_text("above the target of 1,250: what remained may not be left out")).to_be_visible()


async def test_addresses_lead_to_where_they_say_and_back(staging, window):
    async with staging() as stage:
        await stage.agent().step(12)
        page = await window.opened(stage, event=6)
        await expect(window.heading("Event 2: compressed")).to_be_visible()
        assert await page.title() == "Event 2: compressed · focusctx"
        await page.get_by_role("link", name="← Event 1: compressed").click()
        await expect(window.heading("Event 1: compressed")).to_be_focused()
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


async def test_what_was_looked_at_and_left_alone_has_a_page_too(staging, window):
    async with staging() as stage:
        await stage.agent(model="claude-sonnet-5").step(20)
        page = await window.opened(stage)
        await expect(page.get_by_text(re.compile(r"\d events?; looked at and left alone \d+ times?"))).to_be_visible()
        await page.get_by_role("link", name="Left alone: it does not pay yet").first.click()
        await expect(window.heading("Left alone: it does not pay yet")).to_be_focused()


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
