"""Sessions that shorten steps: excerpts and records last, can be recalled and restored, and are the same everywhere."""

import json
import logging
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.drafts import ScriptedDraft
from focusctx.session.proposal import LeftOut
from focusctx.session.session import Session
from focusctx.session.store import MemoryStore, Spelled
from focusctx.types import Prompt
from helpers.histories import Messages, call
from helpers.session_parts import Draft, cites, moved, session_of, wait_until

MARK = "[…"
BUDGET = 3600
"""Characters that five steps exceed, and four do not."""


def output(number: int, lines: int = 20) -> str:
    """Return a tool's output of which every line can be told from all others."""
    return "".join(f"row {line} of file {number} is about topic {number * 1000 + line}\n" for line in range(lines))


def step(number: int, text: str | None = None, asked: int | None = None, name: str = "read_file") -> Messages:
    function = json.dumps({"path": f"src/part_{number if asked is None else asked}.py"})
    return [
        {"role": "assistant", "content": f"Now {number}.", "tool_calls": [call(number, name, function)]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": output(number) if text is None else text},
    ]


def history(steps: int, first: int = 1) -> Messages:
    start: Messages = [{"role": "user", "content": "Tidy up."}] if first == 1 else []
    return start + [message for number in range(first, steps + 1) for message in step(number)]


def session_over(draft: Any, store: Any = "memory", **options: Any) -> Session:
    chosen = {"budget": BUDGET, "tokens": len, "levels": True, "target": 0.5, **options}
    return session_of(draft, store, **chosen)


def outputs(view: Any) -> dict[str, str]:
    return {message["tool_call_id"]: message["content"] for message in view if message["role"] == "tool"}


def passages_cited(*names: str) -> str:
    return f"Step: finish | Depends on: [{', '.join(names)}]"


# ------------------------------------------------------------------------------------------------- what lasts


def test_an_excerpt_stays_as_it_is_until_the_next_event() -> None:
    session = session_over(Draft(passages_cited("s_2.3", "s_3.2")))
    first = session.view(history(5))
    (event,) = moved(session)
    assert event.result.shortened, "some steps are shown in part"
    assert 3 in event.result.shortened[2]
    assert 2 in event.result.shortened[3]
    assert any(MARK in text for text in outputs(first).values())
    views = [first]
    for steps in range(6, 9):
        views.append(session.view(history(steps)))
        if len(moved(session)) > 1:
            break
        assert views[-1][: len(views[-2])] == views[-2]
    assert len(views) > 2
    assert session.focus.compress(first).tokens_before == event.tokens_after, "the view is counted as it is"


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not re.match(r"\[…(?:\]$| .* left out)", line)]


@settings(max_examples=25)
@given(st.lists(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6)), max_size=4), min_size=6, max_size=6))
def test_a_later_event_shortens_further_and_never_lengthens(plans: list[list[tuple[int, int]]]) -> None:
    """An earlier decision is not taken back, whatever later sketches cite."""
    replies = iter(plans)

    def plan(prompt: Prompt) -> str:
        known = {span.index for span in prompt.history.spans}
        named = [one for one in next(replies, []) if one[0] in known]
        return passages_cited(*(f"s_{span}.{part}" if part else f"s_{span}" for span, part in named))

    session = session_over(Draft(plan), rollouts=1, growth=0.0)
    shown: dict[str, list[str]] = {}
    for steps in range(1, 26):
        view = session.view(history(steps))
        now = {name: lines_of(text) for name, text in outputs(view).items()}
        for name, before in shown.items():
            assert set(now.get(name, ())) <= set(before)
        assert all(set(lines) <= set(output(int(name[5:])).splitlines()) for name, lines in now.items()), "verbatim"
        shown = {name: now.get(name, []) for name in {**shown, **now}}
    assert len(moved(session)) > 1


def test_two_sessions_on_one_store_have_the_same_view_also_after_a_restart(store_url: str) -> None:
    if store_url == "memory":
        pytest.skip("a store in memory is not shared")
    session = session_over(Draft(passages_cited("s_2.3", "s_3.2")), store_url)
    first = session.view(history(5))
    shortened = moved(session)[0].result.shortened
    (stored,) = session.store.recent("default", 9)
    conversation = session.conversations[0]
    numbers = {conversation.keys.index(key) + 1: parts for key, parts in stored.shortened.items()}
    assert numbers == shortened
    for options in ({}, {"levels": False, "target": None}, {"budget": 10**6}):
        other = session_over(Draft(), store_url, **options)
        assert other.view(history(5)) == first
        assert moved(other) == []
        other.close()
    session.close()
    again = session_over(Draft(cites()), store_url)
    assert again.view(history(5)) == first
    second = again.view(history(9))
    assert moved(again), "it goes on from there"
    third = session_over(Draft(), store_url)
    assert third.view(history(9)) == second
    again.close()
    third.close()


# --------------------------------------------------------------------------------------------- recall and restore


def test_the_archive_holds_the_whole_originals_of_shortened_steps() -> None:
    """Also where a second event shortened a step further: the original is what the agent sent."""
    session = session_over(Draft(passages_cited("s_2.3", "s_3.2")), growth=0.0)
    session.view(history(5))
    session.view(history(9))
    assert len(moved(session)) == 2
    left_out = session.conversations[0].dropped
    assert len(left_out) > 4
    for index in left_out:
        (found,) = session.recall(index)
        assert found.messages == tuple(step(index))


def test_a_shortened_step_comes_back_whole_and_stays() -> None:
    session = session_over(Draft(passages_cited("s_2.3", "s_3.2")), growth=0.0)
    view = session.view(history(5))
    assert MARK in outputs(view)["call_2"]
    assert session.restore("s_2")
    assert outputs(session.view(history(5)))["call_2"] == output(2)
    assert not session.restore("s_2")
    assert outputs(session.view(history(9)))["call_2"] == output(2), "no later event shortens it again"
    assert len(moved(session)) > 2


def test_a_passage_comes_back_by_itself_and_stays_also_after_a_restart(store_url: str) -> None:
    session = session_over(Draft(passages_cited("s_2.3", "s_3.2")), store_url, growth=0.0)
    before = lines_of(outputs(session.view(history(5)))["call_2"])
    assert session.restore("s_2.4")
    with_passage = lines_of(outputs(session.view(history(5)))["call_2"])
    assert set(with_passage) > set(before)
    assert MARK in outputs(session.view(history(5)))["call_2"], "the rest of the step is still left out"
    assert [event.cause for event in session.events if event.happened][-1] == "restored"
    assert not session.restore("s_2.4"), "it is there already"
    assert not session.restore("s_2.999"), "there is no such passage"
    assert set(lines_of(outputs(session.view(history(9)))["call_2"])) >= set(with_passage) - set(before)
    if store_url != "memory":
        other = session_over(Draft(cites()), store_url, growth=0.0)
        assert set(lines_of(outputs(other.view(history(9)))["call_2"])) >= set(with_passage) - set(before)
        other.close()
    session.close()


def test_a_passage_can_be_recalled_by_itself() -> None:
    session = session_over(Draft(cites()))
    session.view(history(5))
    (whole,), (part,) = session.recall("s_2"), session.recall("s_2.3")
    assert whole.messages == tuple(step(2))
    text = part.messages[1]["content"]
    shown = lines_of(text)
    assert 0 < len(shown) < 20
    assert set(shown) < set(output(2).splitlines())
    assert MARK in text
    assert part.tokens < whole.tokens
    assert part.messages[0] == step(2)[0]
    said = session.handle_recall({"query": "s_2.3"})
    assert said.startswith("[s_2]\n")
    assert shown[-1] in said
    assert len(said) < len(whole.text)
    (two,) = session.recall("s_2.2 and s_2.3")
    assert set(lines_of(two.messages[1]["content"])) > set(shown)


@pytest.mark.parametrize("query", ["s_2.99", "s_2 and s_2.3", "s_2.0"])
def test_a_passage_that_does_not_exist_brings_the_whole_step(query: str) -> None:
    session = session_over(Draft(cites()))
    session.view(history(5))
    assert [found.messages for found in session.recall(query)] == [tuple(step(2))]


def test_of_a_parallel_turn_only_the_call_of_the_passage_comes_back() -> None:
    calls = [call(number, "read_file", json.dumps({"path": f"{number}.py"})) for number in (1, 2)]
    start: Messages = [
        {"role": "user", "content": "Tidy up."},
        {"role": "assistant", "content": "Both.", "tool_calls": calls},
        *({"role": "tool", "tool_call_id": f"call_{number}", "content": output(number)} for number in (1, 2)),
    ]
    session = session_over(Draft(cites()))
    session.view([*start, *history(6, first=3)])
    numbers = range(1, 30)
    found = [session.recall(f"s_1.{number}")[0].messages for number in numbers]
    parts = [messages for messages in found if len(messages) == 2]
    assert {messages[1]["tool_call_id"] for messages in parts} == {"call_1", "call_2"}
    for messages in parts:
        assert [one["id"] for one in messages[0]["tool_calls"]] == [messages[1]["tool_call_id"]]


def test_the_note_names_steps_left_out_and_steps_shown_in_part() -> None:
    from focusctx.session.recall import note

    said = note([1, 2, 5], [3, 4], "chat_completions")["content"]
    assert said == "[Left out to save space: steps s_1–s_2, s_5, parts of s_3–s_4. Call recall_step to get one back.]"
    session = session_over(Draft(passages_cited("s_2.3", "s_3.2")), recall=True)
    view = session.view(history(5))
    shown = sorted(moved(session)[0].result.shortened)
    assert f"parts of s_{shown[0]}" in view[1]["content"]


def test_messages_made_for_a_view_know_their_bytes_like_the_others() -> None:
    came = [Spelled(message, json.dumps(message, indent=1).encode()) for message in history(5)]
    view = session_over(Draft(passages_cited("s_2.3")), recall=True, frozen=True).view(came)
    made = [message for message in view if not any(message is one for one in came)]
    assert len(made) > 1, "the note on what was left out, and an excerpt"
    assert all(isinstance(message, Spelled) for message in view)
    assert [json.loads(message.json) for message in view if isinstance(message, Spelled)] == view


# ------------------------------------------------------------------------------------------------------- the draft


def test_what_was_decided_is_shown_to_the_draft_as_it_is_left() -> None:
    draft = Draft(passages_cited("s_2.3", "s_3.2"))
    session = session_over(draft, growth=0.0)
    view = session.view(history(5))
    session.view(history(9))
    first, second = draft.prompts
    assert output(1).splitlines()[10] in first.user
    for number, text in outputs(view).items():
        index = int(number[5:])
        for line in output(index).splitlines():
            assert (line in second.user) == (line in text), "what is gone is not asked about again"
    assert "read_file" in second.user
    assert second.system == first.system, "the fixed part comes first, and is the same at every event"
    assert second.user.startswith("Task:\nTidy up.\n\nTrace:\n")


def test_an_event_that_would_save_too_little_is_not_made_and_the_draft_is_left_alone() -> None:
    """Nearly everything may not go: each step wrote something, and the user spoke before each of them."""
    draft = Draft(cites())
    session = session_over(draft, growth=0.25)
    written: Messages = [{"role": "user", "content": "Tidy up."}, *step(1, output(1, 9))]
    for number in range(2, 200):
        written += [{"role": "user", "content": "On."}]
        written += step(number, f"ok, saved as version {number} of it all", name="save_file")
        session.view(written)
    assert moved(session) == []
    asked = [event for event in session.events if event.result]
    assert asked
    assert {event.cause for event in asked} == {"needed"}
    assert "too little to change the prompt for" in asked[0].why
    assert asked[0].result.tokens_after < asked[0].tokens_before, "something could have gone"
    tokens = [event.tokens_before for event in asked]
    assert all(after - before >= 0.25 * BUDGET for before, after in pairwise(tokens))
    assert draft.calls == len(asked) < 198 / 4


# ------------------------------------------------------------------------------------------------------ the target


sizes = st.lists(st.integers(0, 60), min_size=4, max_size=20)


@settings(max_examples=40)
@given(sizes, st.data())
def test_after_an_event_the_view_is_within_the_target_or_says_why_not(lines: list[int], data: st.DataObject) -> None:
    target = data.draw(st.sampled_from([0.3, 0.5, 1.0, 1500]))
    recall, ahead = data.draw(st.booleans()), data.draw(st.sampled_from([0.7, 1.0]))
    cited = data.draw(st.lists(st.integers(1, 20), max_size=8))
    session = session_over(Draft(cites(*cited)), target=target, recall=recall, ahead=ahead, growth=0.0, budget=BUDGET)
    messages: Messages = [{"role": "user", "content": "Tidy up."}]
    aim = target if target > 1 else target * BUDGET
    for number, count in enumerate(lines, 1):
        messages += step(number, output(number, count))
        before = len(moved(session))
        session.view(messages)
        assert wait_until(lambda: not session.conversations[0].early_draw.in_flight)
        if len(moved(session)) > before:
            event = moved(session)[-1]
            assert session.size[1] == event.tokens_after == event.result.tokens_after
            over = [warning for warning in event.result.warnings if "above the target" in warning]
            assert bool(over) == (event.tokens_after > aim)
            if over:  # the newest step stays whole, and a record of what the agent did may stay beside it
                newest = sum(len(str(message.get("content"))) for message in messages[-2:])
                assert newest > 0.25 * aim or number > 8


@pytest.mark.parametrize("lines", range(10, 20))
def test_the_note_on_what_is_missing_counts(lines: int) -> None:
    messages = [{"role": "user", "content": "Tidy up."}]
    messages += [message for number in range(1, 13) for message in step(number, output(number, lines))]
    session = session_over(Draft(cites(*range(1, 13))), recall=True)
    session.view(messages)
    (event,) = moved(session)
    assert event.tokens_after == session.size[1] <= BUDGET / 2
    assert event.result.warnings == ()


def test_steps_newer_than_the_sketches_are_shortened_if_the_target_needs_it() -> None:
    session = session_over(Draft(cites(1)), ahead=0.7)
    messages = history(4)
    session.view(messages)
    assert wait_until(lambda: session.conversations[0].early_draw.has_come)
    assert moved(session) == []
    messages = [*messages, *step(5, output(5, 60)), *step(6)]
    view = session.view(messages)
    (event,) = moved(session)
    assert event.tokens_after <= BUDGET / 2
    assert 5 in event.result.shortened
    assert MARK in outputs(view)["call_5"]
    assert outputs(view)["call_6"] == output(6), "the newest stays whole"


# ---------------------------------------------------------------------------------------------------------- regrets


def test_a_look_up_made_again_stays_whole_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    session = session_over(Draft(cites()), growth=0.0)
    messages = history(5)
    session.view(messages)
    assert 2 not in moved(session)[0].result.kept
    messages += step(6, output(2), asked=2)
    with caplog.at_level(logging.INFO, "focusctx"):
        messages += history(9, first=7)
        view = session.view(messages)
    result = moved(session)[-1].result
    assert result.regrets == (6,)
    assert 6 in result.pinned
    assert outputs(view)["call_6"] == output(2)
    assert "s_6 looked up again what had been cut" in caplog.text
    messages += history(14, first=10)
    assert outputs(session.view(messages))["call_6"] == output(2), "at later events, too"


def test_in_the_papers_setting_there_are_no_regrets() -> None:
    session = session_over(Draft(cites()), levels=False, target=None, growth=0.0)
    messages = history(5)
    session.view(messages)
    messages += step(6, output(2), asked=2) + history(9, first=7)
    assert set(outputs(session.view(messages))) == {"call_9"}
    assert moved(session)[-1].result.regrets == ()


def other_tool(number: int) -> Messages:
    return step(number, name="list_rows")


def test_results_of_the_tool_that_was_missed_come_before_others() -> None:
    """The newest results of that tool get the room, although others are newer and the data flow prefers none."""
    kept = {}
    for regrets in (True, False):
        session = session_over(Draft(cites()), growth=0.0)
        messages = [*history(5)]
        session.view(messages)
        messages += step(6, output(2, 4), asked=2 if regrets else 6)
        messages += step(7) + [message for number in range(8, 13) for message in other_tool(number)]
        view = session.view(messages)
        kept[regrets] = len(lines_of(outputs(view).get("call_7", "")))
    assert kept[True] > 2 * kept[False], kept


class Forgetful:
    """An agent that needs some files again and again, and looks up again whatever it does not see."""

    def __init__(self, needed: int, tool: str) -> None:
        self.messages: Messages = [{"role": "user", "content": "Tidy up."}]
        self.looked_up: list[int] = []
        self._needed = range(1, needed + 1)
        self._number = 0
        self._tool = tool

    def act(self, view: Any) -> None:
        self._number += 1
        seen = "\n".join(outputs(view).values())
        missing = [file for file in self._needed if not all(line in seen for line in output(file).splitlines())]
        file = missing[0] if missing else 100 + self._number
        self.looked_up.append(file)
        self.messages += step(self._number, output(file), asked=file, name=self._tool)


@pytest.mark.parametrize("tool", ["read_file", "file_rows"])
@pytest.mark.parametrize("draft", ["offline", "nothing"])
def test_nobody_runs_in_circles(draft: str, tool: str) -> None:
    """Each file is looked up again at most once, whatever the sketches ask for and however the tool is called."""
    session = session_over("offline" if draft == "offline" else ScriptedDraft([cites()]), budget=8000)
    agent = Forgetful(needed=3, tool=tool)
    for _ in range(40):
        agent.act(session.view(agent.messages))
    assert len(moved(session)) > 3
    if draft == "nothing":
        assert moved(session)[-1].result.regrets, "some were missed"
    assert max(agent.looked_up.count(file) for file in agent.looked_up) <= 2
    assert agent.looked_up.count(40 + 100) == 1, "and the run goes on"


# -------------------------------------------------------------------------------------------------- what is recorded


parts = st.frozensets(st.integers(1, 4))
left_outs = st.dictionaries(st.integers(1, 9), st.none() | parts).map(LeftOut)


@given(left_outs, left_outs)
def test_an_event_records_what_is_new_and_no_more(earlier: LeftOut, event: LeftOut) -> None:
    event = event.without(earlier.gone)  # what is gone is not decided about again
    later = earlier.then(event)
    news = later.since(earlier)
    assert earlier.then(news) == later
    assert later.shown.keys() <= later.spans
    assert news.spans <= event.spans
    assert later.since(later) == LeftOut()
    assert later.without(later.spans) == LeftOut()


def test_what_an_earlier_event_left_of_a_step_is_reported_as_that() -> None:
    session = session_over(Draft(passages_cited("s_2.3", "s_3.2")), MemoryStore(), growth=0.0)
    session.view(history(5))
    first = moved(session)[-1].result
    session.view(history(9))
    second = moved(session)[-1].result
    fates = {decision.index: decision.fate for decision in second.decisions}
    assert first.shortened
    assert all(fates[index] in ("excerpt", "record", "dropped") for index in first.shortened)
    assert not set(first.shortened) & set(second.kept)
