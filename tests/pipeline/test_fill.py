"""Spare room goes to what the data flow ranks next, whole or as a skeleton."""

from typing import Any

import pytest
from focusctx.pipeline.fill import fill, read_offers, spare_room
from focusctx.pipeline.skeleton import skeleton_of
from hypothesis import given
from hypothesis import strategies as st

from focusctx import Focus, FocusConfig, History, Span
from focusctx.drafts import ScriptedDraft
from focusctx.pipeline.keep import Selection, select
from focusctx.pipeline.score import score
from focusctx.pipeline.split import read_history
from helpers.histories import Messages, call

NOISE = "nothing of note here, only words upon words " * 8
PLAN = "Step: finish | Depends on: []"


def step(number: int, action: str, output: str) -> Messages:
    return [
        {"role": "assistant", "content": "", "tool_calls": [call(number, "look", action)]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": output},
    ]


def history(*steps: tuple[str, str]) -> Messages:
    """A task, these steps, and one more that stays because it is the newest."""
    messages: Messages = [{"role": "user", "content": "Do the task."}]
    for number, (action, output) in enumerate([*steps, ("go", "done")], 1):
        messages += step(number, action, output)
    return messages


USED = ('"src/ledger.py"', NOISE)
"""Only what the agent did is of use later: the path it opened."""
SHOWN = ('"orders"', f'[{{"order": "W2890441"}}, {{"order": "W2890999"}}] {NOISE}')
"""Only what came back is."""
EMPTY = ('"x"', NOISE)


def compress(messages: Messages, **settings: Any) -> Any:
    return Focus(ScriptedDraft([PLAN]), tokens=len, **settings).compress(messages)


def size(messages: Messages) -> int:
    return read_history(messages, FocusConfig(), len).tokens


def test_what_was_done_comes_back_as_a_skeleton_and_what_was_shown_comes_back_whole() -> None:
    messages = history(USED, EMPTY, SHOWN)
    result = compress(messages, budget=size(messages) - 1)
    assert result.kept == (3, 4)
    assert (result.dropped, result.skeletons) == ((1, 2), (1,))
    assert [decision.fate for decision in result.decisions] == ["skeleton", "dropped", "kept", "pinned"]
    assert result.messages[1:3] == [messages[1], {**messages[2], "content": "[output omitted]"}]
    assert result.messages[3:] == messages[5:]
    assert "the future may need what it shows" in result.explain()
    assert "1 left as skeletons, 1 dropped" in result.explain()
    assert result.tokens_after == size(list(result.messages))


def test_without_fill_it_is_the_papers_rule() -> None:
    messages = history(USED, EMPTY, SHOWN)
    for settings in ({"fill": 0.0}, {"config": FocusConfig.paper()}):
        result = compress(messages, budget=size(messages) - 1, **settings)
        assert (result.kept, result.skeletons) == ((4,), ())


def test_beside_skeletons_of_all_it_only_brings_back_whole_spans() -> None:
    messages = history(USED, EMPTY, SHOWN)
    result = compress(messages, budget=size(messages) - 1, dropped="skeleton")
    assert result.kept == (3, 4)
    assert result.skeletons == result.dropped == (1, 2)


def test_bare_spans_come_back_whole_or_not_at_all() -> None:
    spans = (Span(1, action="open src/ledger.py", observation=NOISE), Span(2, action="x", observation=NOISE), Span(3))
    result = Focus(ScriptedDraft([PLAN]), tokens=len, budget=700, fill=0.6).compress(History("go", spans))
    assert (result.kept, result.skeletons) == ((1, 3), ())


@pytest.mark.parametrize(
    ("plan", "budget", "reads"),
    [
        (PLAN, 1000, True),
        ("Step: finish | Depends on: [s_1, s_2]", 600, False),  # what is cited fills the budget
        (PLAN, 10, False),
        (PLAN, 1, False),
    ],
)
async def test_data_flow_is_read_only_where_the_sketches_leave_room(plan: str, budget: int, reads: bool) -> None:
    found = read_history(history(USED, EMPTY, SHOWN), FocusConfig(), len)
    drafted = await Focus(ScriptedDraft([plan]), tokens=len, budget=budget).sketch(found)
    assert (drafted.offers is not None) == reads


def test_no_skeleton_is_offered_that_saves_next_to_nothing() -> None:
    """A placeholder in the place of a short result would lose it for a token or two."""
    found = read_history(history(('"x"', "w" * 18), ('"y"', "w" * 24)), FocusConfig(), len)
    shares = [skeleton_of(span, found.format, len).tokens / span.tokens for span in found.spans[:2]]
    assert 0.7 < shares[1] < 0.9 < shares[0] < 1
    assert read_offers(found, len).skeletons.keys() == {2}


def test_a_step_that_goes_on_from_dropped_reasoning_stays_away() -> None:
    spans = tuple(
        Span(index, action=f"open src/ledger{index}.py", observation=NOISE, tokens=400, needs=needs)
        for index, needs in ((1, None), (2, 1), (3, None), (4, None))
    )
    bare = History("go", spans, tokens=1600)
    config = FocusConfig(budget=1600, fill=1.0)
    offers = read_offers(bare, len)
    dropped = Selection(frozenset({4}), frozenset(), frozenset(), {4: "newest span"})
    assert fill(bare, dropped, offers, config).kept == {1, 3, 4}
    kept = Selection(frozenset({1, 4}), frozenset({1}), frozenset(), {4: "newest span"})
    assert fill(bare, kept, offers, config).kept == {1, 2, 3, 4}


texts = st.sampled_from(["src/a.py", "src/b.py", "W2890441", "W2890999", "user_name", NOISE, "ok"])
steps = st.lists(st.tuples(texts, st.lists(texts, max_size=3).map(" ".join)), min_size=1, max_size=8)


@given(steps, st.frozensets(st.integers(1, 8)), st.floats(0, 1), st.integers(1, 3000))
def test_it_only_adds_and_never_more_than_there_is_room_for(
    made: list[tuple[str, str]], cited: frozenset[int], share: float, budget: int
) -> None:
    found = read_history(history(*made), FocusConfig(), len)
    config = FocusConfig(budget=budget, fill=share)
    before = select(found, score([]), {found.newest: "newest span", **dict.fromkeys(cited, "cited")}, config)
    after = fill(found, before, read_offers(found, len), config)
    tokens = {span.index: span.tokens for span in found.spans}
    outlines = {span.index: skeleton_of(span, found.format, len).tokens for span in found.spans}
    taken = sum(tokens[i] for i in after.kept - before.kept) + sum(outlines[i] for i in after.skeletons)
    assert before.kept <= after.kept
    assert after.kept.isdisjoint(after.skeletons)
    assert taken <= max(spare_room(found, before.kept, config), 0)
    assert after.notes.keys() == (after.kept - before.kept) | after.skeletons


@given(st.lists(st.integers(1, 50), min_size=2, max_size=12), st.integers(0, 100), st.integers(1, 99))
def test_decided_ahead_of_time_the_room_is_what_it_will_be_at_the_budget(
    sizes: list[int], coming: int, percent: int
) -> None:
    """Ahead of time, and when a step has come that just fills the budget and stays."""
    now = History(
        goal="", spans=tuple(Span(index, tokens=size) for index, size in enumerate(sizes, 1)), tokens=sum(sizes)
    )
    later = History(goal="", spans=(*now.spans, Span(len(sizes) + 1, tokens=coming)), tokens=now.tokens + coming)
    config = FocusConfig(budget=later.tokens, fill=percent / 100)
    kept = {1, 2}
    assert spare_room(now, kept, config) == pytest.approx(spare_room(later, {*kept, len(sizes) + 1}, config))
