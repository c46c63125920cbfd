"""Controls at the tokens of FOCUS: the same events, at most the same tokens, other turns."""

import asyncio
from collections.abc import Callable

import pytest

from focusctx.baselines.focus import DefaultFocus
from focusctx.baselines.matched import Matched, at_random, newest_first
from focusctx.baselines.method import Compressed, Method
from focusctx.baselines.registry import MethodSettings, method_from
from focusctx.config import FocusConfig
from focusctx.drafts import ScriptedDraft
from focusctx.errors import ConfigError, DraftUnavailable
from focusctx.pipeline.split import read_history
from focusctx.tokens import Counter
from focusctx.types import Message
from helpers.histories import Messages, run, step

BUDGET = 600
KEEP_EARLY = "Step: go on | Depends on: [s_1, s_2]\nRescued Spans: [] | Reason: none"


def growing(steps: int) -> list[Messages]:
    """Histories of an agent, step by step; results have different lengths."""
    messages = run(0)
    found = []
    for number in range(1, steps + 1):
        messages = [*messages, *step(number, f"result {number} " * (5 + 7 * (number % 4)))]
        found.append(messages)
    return found


def follow(method: Method, histories: list[Messages]) -> list[Compressed]:
    async def steps() -> list[Compressed]:
        return [await method.compress(history) for history in histories]

    return asyncio.run(steps())


def focus() -> DefaultFocus:
    return DefaultFocus(ScriptedDraft([KEEP_EARLY]), BUDGET, {"ahead": 1.0, "levels": False, "target": None})


def size(messages: list[Message]) -> int:
    history = read_history(messages, FocusConfig(), Counter().count, format="chat_completions")
    return sum(span.tokens for span in history.spans)


MAKERS = {
    "random": lambda: Matched("random", focus(), at_random()),
    "newest": lambda: Matched("newest", focus(), newest_first),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_events_are_those_of_focus_and_tokens_are_no_more(make: Callable[[], Matched]) -> None:
    histories = growing(40)
    ours, theirs = follow(make(), histories), follow(focus(), histories)
    assert [each.happened for each in ours] == [each.happened for each in theirs]
    events = [place for place, each in enumerate(theirs) if each.happened]
    assert len(events) > 2
    for place in events:
        mine, focused = size(list(ours[place].messages)), size(list(theirs[place].messages))
        assert 0.6 * focused < mine <= focused


def test_newest_keeps_what_is_new_and_random_does_not() -> None:
    histories = growing(30)
    newest = follow(Matched("newest", focus(), newest_first), histories)
    by_chance = follow(Matched("random", focus(), at_random()), histories)
    other = follow(Matched("random", focus(), at_random(7)), histories)
    place = next(place for place, each in enumerate(newest) if each.happened)
    kept = [message for message in newest[place].messages if message["role"] == "tool"]
    assert kept[-2:] == [message for message in histories[place] if message["role"] == "tool"][-2:]
    assert len({str(run[place].messages) for run in (newest, by_chance, other)}) == 3


def test_usage_is_that_of_the_draft_and_a_dead_draft_is_no_result() -> None:
    compressed = follow(Matched("random", focus(), at_random()), growing(20))
    by_focus = follow(focus(), growing(20))
    assert sum(each.usage.requests for each in by_focus) > 0
    assert [each.usage for each in compressed] == [each.usage for each in by_focus]
    dead = DefaultFocus(ScriptedDraft([DraftUnavailable("down")]), BUDGET, {"ahead": 1.0})
    assert any(each.unanswered for each in follow(Matched("random", dead, at_random()), growing(20)))


@pytest.mark.parametrize("name", ["focus", "random", "newest", "retrieval-matched"])
def test_every_setting_of_focus_can_be_given(name: str) -> None:
    settings = MethodSettings(
        draft="offline", embedder="words", method_options={"target": 0.2, "growth": 0.5, "seed": 1}
    )
    assert method_from(name, settings)().name == name
    with pytest.raises(ConfigError, match="unknown setting 'tarte'"):
        method_from(name, MethodSettings(draft="offline", embedder="words", method_options={"tarte": 1}))
    with pytest.raises(ConfigError, match="target must be"):
        method_from(name, MethodSettings(draft="offline", embedder="words", method_options={"target": "much"}))


def test_focus_by_default_is_what_a_session_does() -> None:
    from focusctx import Focus

    histories = growing(40)
    session = Focus("offline", budget=BUDGET).session()
    expected = [list(session.view(history, format="chat_completions")) for history in histories]
    method = follow(DefaultFocus("offline", BUDGET), histories)
    assert [list(each.messages) for each in method] == expected
    assert any(each.happened for each in method)
