"""What the dashboard's API tells: sessions, events with their evidence, and texts only when they are asked for."""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.proxy.conversations import AgentStep
from focusctx.proxy.dashboard.data import requests_of
from helpers import task
from helpers.session_parts import Draft, cites, growing, session_of, sized

PAGE_9 = "Page 9 of 30. Balance"


async def got(stage: Any, path: str, status: int = 200) -> Any:
    async with stage.http.get(f"{stage.url}/ui/api/{path}") as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def only_session(stage: Any) -> str:
    (session,) = (await got(stage, "sessions"))["sessions"]
    return str(session["id"])


async def path_of(stage: Any, cause: str) -> str:
    """The first event for that reason."""
    session = await only_session(stage)
    log = (await got(stage, f"sessions/{session}"))["log"]
    return f"sessions/{session}/events/{next(entry['number'] for entry in log if entry['cause'] == cause)}"


async def test_the_list_says_what_each_session_saves_and_no_word_of_what_was_said(staging):
    async with staging() as stage:
        await stage.agent("first", model="gpt-4.1").step(3)
        await stage.agent("second").step(14)
        told = await got(stage, "sessions")
    assert told["about"] == {
        "version": told["about"]["version"],
        "dry_run": False,
        "draft": "scripted",
        "budget": 2500,
        "target": None,
        "rule": stage.proxy.settings.rule,
        "base_urls": {"OPENAI_BASE_URL": "/v1", "ANTHROPIC_BASE_URL": ""},
        "token": None,
        "login": False,
    }
    second, first = told["sessions"]
    assert (second["model"], second["upstream"], second["requests"]) == ("scripted", "local", 14)
    assert second["full"] > 4000 > 2500 > second["sent"]
    assert second["events"] >= 1
    assert second["net"] is None, "nobody knows the price of that model"
    assert (first["model"], first["net"], first["events"]) == ("gpt-4.1", 0.0, 0)
    assert second["waits"] is first["waits"] is None
    assert first["full"] == first["sent"] > 0
    text = json.dumps(told)
    assert "ledger" not in text
    assert "read_page" not in text


async def test_a_session_tells_its_steps_and_why_it_changed_or_did_not(staging):
    async with staging() as stage:
        agent = stage.agent(model="claude-sonnet-5")
        await agent.step(20)
        (live,) = stage.proxy.conversations
        told = await got(stage, f"sessions/{await only_session(stage)}")
        assert len(told["steps"]) == told["requests"] == 20
        assert [step[1:3] for step in told["steps"]] == [[step.full, step.sent] for step in live.steps]
        log = told["log"]
        assert [entry["number"] for entry in log] == list(range(1, len(log) + 1))
        assert [entry["ordinal"] for entry in log if entry["happened"]] == list(range(1, told["events"] + 1))
        assert {entry["ordinal"] for entry in log if not entry["happened"]} == {None}
        assert {"compressed", "growth", "money"} >= {entry["cause"] for entry in log} >= {"compressed", "money"}
        for entry in log:
            step = told["steps"][entry["request"] - 1]
            assert step[2] == entry["after"]
            assert step[0] == entry["time"]
            assert entry["why"]
        assert told["money"]["saved"] > 0
        assert "ledger" not in json.dumps(told)


async def test_a_session_that_is_over_budget_says_what_it_waits_for(staging):
    async with staging() as stage:
        agent = stage.agent(model="claude-sonnet-5")
        waits = []
        for _ in range(12):
            await agent.step()
            (line,) = (await got(stage, "sessions"))["sessions"]
            assert (line["waits"] is not None) == (line["sent"] > 2500 and not line["events"])
            waits.append(line["waits"])
            if line["waits"] == "money":
                break
        assert waits[-1] == "money"
        del agent.history[4:]
        await agent.step()
        line, before = (await got(stage, "sessions"))["sessions"]
        assert line["sent"] < 2500
        assert line["waits"] is None, "what goes another way from an earlier step waits for nothing"
        assert before["waits"] == "money"


async def test_entries_lead_to_those_before_and_after_them(staging):
    async with staging() as stage:
        await stage.agent().step(20)
        session = await only_session(stage)
        log = (await got(stage, f"sessions/{session}"))["log"]
        assert len(log) > 2
        names = [{name: entry[name] for name in ("number", "ordinal", "cause")} for entry in log]
        for place, earlier, later in zip(range(len(log)), [None, *names], [*names[1:], None], strict=False):
            event = await got(stage, f"sessions/{session}/events/{place + 1}")
            assert (event["earlier"], event["later"]) == (earlier, later)
            assert {name: event[name] for name in names[place]} == names[place]


async def events_with_levels(stage: Any, steps: int = 20) -> list[Any]:
    await stage.agent().step(steps)
    session = await only_session(stage)
    log = (await got(stage, f"sessions/{session}"))["log"]
    happened = [entry["number"] for entry in log if entry["happened"]]
    return [await got(stage, f"sessions/{session}/events/{number}") for number in happened]


async def test_an_event_tells_what_is_left_of_each_span(staging):
    async with staging(levels=True, budget=3000) as stage:
        events = await events_with_levels(stage)
    assert len(events) > 1
    spans = [span for event in events for span in event["result"]["spans"]]
    assert {span["fate"] for span in spans} >= {"kept", "excerpt", "dropped"}
    for span in spans:
        match span["fate"], span["note"]:
            case "dropped", _:
                assert span["left"] == 0
            case "excerpt" | "record", "what an earlier event left of it":
                # The line behind it that tells of steps that are gone may have grown, or moved to a nearer step.
                assert abs(span["left"] - span["tokens"]) <= 40
            case "excerpt", _:
                assert 0 < span["left"] < span["tokens"]
                assert span["parts"]
            case "record", _:
                assert 0 < span["left"] <= span["tokens"]
                assert not span["parts"]
            case _:
                assert span["left"] == span["tokens"]
    for event in events:
        left = sum(span["left"] for span in event["result"]["spans"])
        assert event["result"]["frame"] + left == event["after"] <= event["target"] == 1500
        assert sum(event["fates"].values()) == event["spans"]
        assert not event["restored"], "what stayed did not come back"


async def test_the_text_of_an_excerpt_has_the_marks_that_the_agent_sees(staging):
    async with staging(levels=True) as stage:
        events = await events_with_levels(stage, 12)
        path = f"sessions/{await only_session(stage)}/events/{events[-1]['number']}"
        excerpts = [span["index"] for span in events[-1]["result"]["spans"] if span["fate"] == "excerpt"]
        assert excerpts
        sent = json.loads(stage.went_up)["messages"]
        for index in excerpts:
            blocks = {block["name"]: block["stretches"] for block in await got(stage, f"{path}/spans/{index}")}
            whole = "".join(words for words, _ in blocks["observation"])
            seen = "".join(mark or words for words, mark in blocks["observation"])
            assert any(message["content"] == seen for message in sent)
            if index % 5:  # every fifth step makes several calls
                assert whole == task.run_tool("read_page", {"page": index})
        assert stage.proxy is not None
        (live,) = stage.proxy.conversations
        said = re.findall(
            r"\[… (\d+) (?:later|earlier) steps? left out", "\n".join(str(one["content"]) for one in sent)
        )
        assert sum(map(int, said)) == len(live.conversation.left_out.gone) > 0, "lines say how many steps are gone"


async def test_an_event_above_its_target_says_so(staging):
    async with staging(levels=True) as stage:
        agent = stage.agent()
        agent.history[1]["content"] += " Mind the valves." * 400
        await agent.step(12)
        event = await got(stage, await path_of(stage, "compressed"))
        assert event["after"] > event["target"] == 1250
        assert any("above the target of 1,250" in warning for warning in event["result"]["warnings"])


async def test_a_session_counts_what_was_looked_up_again(staging):
    async with staging(levels=True, budget=3000) as stage:
        agent = stage.agent()
        await agent.step(12)
        assert (await got(stage, f"sessions/{await only_session(stage)}"))["regrets"] == 0
        (live,) = stage.proxy.conversations
        cut = min(live.conversation.left_out.spans)
        call = agent.history[2 * cut]
        assert json.loads(call["tool_calls"][0]["function"]["arguments"]) == {"page": cut}
        agent.history += [call, agent.history[2 * cut + 1]]
        await agent.step(14)
        # The agent goes on from the page that it read again, and so reads more pages twice.
        assert (await got(stage, f"sessions/{await only_session(stage)}"))["regrets"] >= 1


async def test_an_event_tells_each_spans_fate_and_who_asked_for_it(staging):
    async with staging() as stage:
        await stage.agent().step(12)
        path = await path_of(stage, "compressed")
        event = await got(stage, path)
        result = event["result"]
        fates = {span["index"]: span["fate"] for span in result["spans"]}
        assert [fates[index] for index in (1, 2, 3, 4)] == ["rescued", "kept", "kept", "dropped"]
        assert fates[event["span"]] == "pinned"
        assert result["spans"][1]["utility"] == pytest.approx(2 / 3)
        assert result["spans"][-1]["pinned"] == "newest span"
        assert result["sketches"][0]["steps"] == [["finish the audit", ["2", "3"]]]
        assert result["sketches"][0]["rescues"] == [["it was the first try", ["1"]]]
        assert result["certificate"]["rollouts"] == 3
        assert result["turns"] == [{"after": 0, "text": task.TASK, "length": len(task.TASK)}]
        assert result["frame"] + sum(span["tokens"] for span in result["spans"]) == event["before"]
        assert event["before"] > event["after"]
        assert "back" not in event
        assert event["restored"] == {}
        assert "counted by" not in json.dumps(event), "what the tools said is not among it"
        blocks = {block["name"]: block["stretches"] for block in await got(stage, f"{path}/spans/4")}
        assert blocks["action"] == [['read_page({"page": 4})', ""]]
        assert blocks["observation"] == [[task.run_tool("read_page", {"page": 4}), ""]]


async def test_long_words_of_the_user_come_when_they_are_asked_for(staging):
    long = "Mind the valves. " * 1000
    async with staging() as stage:
        agent = stage.agent()
        agent.history[1]["content"] += long
        await agent.step(12)
        path = await path_of(stage, "compressed")
        event = await got(stage, path)
        (turn,) = event["result"]["turns"]
        assert len(turn["text"]) == 2000
        assert turn["length"] == len(task.TASK + long)
        assert await got(stage, f"{path}/turns/0") == {"text": task.TASK + long}
        await got(stage, f"{path}/turns/1", 404)


async def test_a_failed_event_has_its_reason_and_no_decisions(staging):
    async with staging(sketches=["I would rather not."]) as stage:
        await stage.agent().step(9)
        event = await got(stage, await path_of(stage, "draft"))
        assert not event["happened"]
        assert event["result"]["failure"] in event["why"]
        assert {span["utility"] for span in event["result"]["spans"]} == {None}
        assert all(sketch["problem"] for sketch in event["result"]["sketches"])


@pytest.mark.parametrize(
    "path",
    ["sessions/0123", "sessions/0123/events/1", "sessions/{id}/events/0", "sessions/{id}/events/99",
     "sessions/{id}/events/1/spans/99", "sessions/{id}/events/99/spans/1", "sessions/{id}/events/x", "nonsense"],
)  # fmt: skip
async def test_what_is_not_there_is_not_found(staging, path):
    async with staging() as stage:
        await stage.agent().step(9)
        told = await got(stage, path.replace("{id}", await only_session(stage)), 404)
        assert told["error"]["message"].startswith("focusctx: ")


async def test_a_thousand_spans_stay_light(staging):
    async with staging() as stage:
        agent = stage.agent()
        for number in range(1, 1001):
            call = {"id": f"c{number}", "type": "function", "function": {"name": "read_page", "arguments": "{}"}}
            agent.history.append({"role": "assistant", "content": None, "tool_calls": [call]})
            agent.history.append({"role": "tool", "tool_call_id": f"c{number}", "content": PAGE_9 + " x" * 200})
        await agent.step()
        session = await only_session(stage)
        started = time.perf_counter()
        async with stage.http.get(f"{stage.url}/ui/api/sessions/{session}/events/1") as answer:
            body = await answer.read()
        assert len(json.loads(body)["result"]["spans"]) == 1000
        assert len(body) < 250_000
        assert time.perf_counter() - started < 2
        assert PAGE_9.encode() not in body


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=40),
    st.integers(50, 200),
    st.integers(1, 5),
    st.lists(st.integers(1, 6), max_size=4),
)
def test_every_event_is_found_at_its_request(sizes, budget, cited, wanted):
    """Against a real session, with retries, and with spans that somebody wants back in between."""
    session = session_of(Draft(cites(cited)), budget=budget, growth=0.1)
    steps: list[AgentStep] = []
    expected: list[int] = []
    for number, history in enumerate(growing(sized(*sizes))):
        for _ in range(1 + (number % 7 == 3)):
            known = len(session.events)
            session.view(history)
            steps.append(AgentStep(0.0, *session.size, 0.0))
            fresh = len(session.events) - known
            expected += [len(steps) - 1] * fresh
            if not fresh and session.events and session.events[-1].steps > 1:
                expected[-1] = len(steps) - 1
        if number % 9 == 8:
            for span in wanted:
                session.restore(span)
    assert requests_of(steps, list(session.events)) == expected
