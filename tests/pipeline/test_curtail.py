"""Fewer sketches, the same answer."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx import DraftError, Focus, Result
from focusctx.drafts import OfflineDraft, ScriptedDraft
from histories import run

SPANS = 5


def compress(replies: list[Any], **options: Any) -> tuple[Result, ScriptedDraft]:
    draft = ScriptedDraft(replies)
    return Focus(draft, budget=10, tokens=len, rollouts=len(replies), **options).compress(run(SPANS)), draft


ids = st.frozensets(st.integers(1, SPANS), max_size=3).map(lambda spans: ", ".join(f"s_{index}" for index in spans))
plans = st.builds("Step: go on | Depends on: [{}]\nRescued Spans: [{}] | Reason: risk".format, ids, ids)
replies = st.lists(
    st.one_of([plans] * 6 + [st.just("I cannot do that."), st.just(DraftError("down"))]), min_size=1, max_size=12
)


@settings(max_examples=400)
@given(replies, st.floats(0.01, 1), st.booleans())
def test_the_answer_is_that_of_the_full_sample(said: list[Any], threshold: float, defensive: bool) -> None:
    options = {"threshold": threshold, "defensive": defensive}
    full, _ = compress(said, **options)
    curtailed, _ = compress(said, **options, curtail=True)
    assert (curtailed.kept, curtailed.dropped, list(curtailed.messages)) == (
        full.kept,
        full.dropped,
        list(full.messages),
    )
    assert (curtailed.failure is None) == (full.failure is None)
    assert len(curtailed.sketches) <= len(full.sketches)


AGREED = "Step: go on | Depends on: [s_1, s_3]"


@pytest.mark.parametrize(
    ("rollouts", "threshold", "asked"), [(10, 0.3, [8]), (5, 0.3, [4]), (3, 0.3, [3]), (9, 0.5, [5])]
)
def test_where_sketches_agree_no_more_are_asked_for_than_could_decide(
    rollouts: int, threshold: float, asked: list[int]
) -> None:
    result, draft = compress([AGREED] * rollouts, threshold=threshold, curtail=True)
    assert (len(draft.prompts), len(result.sketches)) == (len(asked), sum(asked))
    assert result.kept == (1, 3, 5)


def test_where_they_do_not_the_rest_is_asked_for_with_seeds_of_its_own() -> None:
    other = "Step: go on | Depends on: [s_2]"
    result, draft = compress([AGREED] * 6 + [other] * 4, curtail=True)
    assert len(result.sketches) == 10
    assert [prompt.seed for prompt in draft.prompts] == [42, 50]
    assert result.kept == (1, 2, 3, 5)


def test_the_offline_draft_writes_the_same_sketches_in_one_go_and_in_two() -> None:
    messages = run(12)
    full, curtailed = (
        Focus(OfflineDraft(), budget=10, tokens=len, rollouts=10, curtail=curtail).compress(messages)
        for curtail in (False, True)
    )
    assert curtailed.kept == full.kept
    assert curtailed.sketches == full.sketches[: len(curtailed.sketches)]


@pytest.mark.parametrize("beside", [{"repair": 0.0}, {"members": True}, {"limit": 10_000}])
def test_beside_what_looks_at_every_sketch_it_takes_no_effect(beside: dict[str, Any]) -> None:
    result, draft = compress([AGREED] * 10, curtail=True, **beside)
    assert (len(draft.prompts), len(result.sketches)) == (1, 10)
