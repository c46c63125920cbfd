"""κ and ε, where the draft cites what is needed, nothing, or everything; agreement of estimators."""

import pytest

from focusctx_bench.replay.study.events import Votes
from focusctx_bench.replay.study.findings import (
    Scores,
    agreements,
    coverage,
    is_needed,
    sets_of_spans,
    single_spans,
    uses,
)

HOLDERS = {"key_1": frozenset({1}), "key_2": frozenset({2, 3})}
EVENTS = 6


def votes(*cited: set[int]) -> Votes:
    return Votes(("f", "r", 1), (1, 2, 3, 4), tuple(map(frozenset, cited)), (frozenset(),) * len(cited), len(cited))


def test_a_set_is_needed_when_nothing_else_gives_the_fact() -> None:
    assert is_needed({1}, HOLDERS)
    assert not is_needed({2}, HOLDERS)
    assert is_needed({2, 3}, HOLDERS)
    assert not is_needed(set(), HOLDERS)


def test_a_draft_that_cites_what_is_needed() -> None:
    found = coverage("all", single_spans([votes({1}, {1})] * EVENTS, [HOLDERS] * EVENTS))
    assert found.epsilon == 0.0
    assert found.kappa == 1.0


def test_a_draft_that_cites_nothing() -> None:
    found = coverage("all", single_spans([votes(set(), set())] * EVENTS, [HOLDERS] * EVENTS))
    assert found.epsilon == 0.25  # one of four spans holds something alone
    assert found.kappa == 0.0


def test_the_line_is_above_every_bin() -> None:
    events = [votes({1}, {2}, {4}), votes({1, 2}, {3}, {4}), *[votes({4}, {1}, set())] * EVENTS]
    for found in (
        coverage("spans", single_spans(events, [HOLDERS] * len(events))),
        coverage("sets", sets_of_spans(events, [HOLDERS] * len(events))),
    ):
        assert found.bins
        assert all(found.epsilon + found.kappa * one.cited >= one.needed.mean - 1e-9 for one in found.bins)


def test_sets_of_few_events_say_nothing() -> None:
    assert coverage("few", single_spans([votes({1})], [HOLDERS])).bins == ()


def test_agreement_and_use() -> None:
    event = Scores(
        {
            "good": {1: 0.9, 2: 0.5, 3: 0.1, 4: 0.0},
            "alike": {1: 9.0, 2: 8.0, 3: 1.0, 4: 0.5},
            "bad": {1: 0.0, 2: 0.1, 3: 0.5, 4: 0.9},
        },
        kept=2,
        used=frozenset({1, 2}),
    )
    found = {(one.left, one.right): one for one in agreements([event] * 3)}
    alike, opposite = found["good", "alike"], found["good", "bad"]
    assert alike.overlap is not None
    assert alike.overlap.mean == 1.0
    assert alike.chance == 0.5
    assert opposite.overlap is not None
    assert opposite.overlap.mean == 0.0
    assert opposite.decisions is not None
    assert opposite.decisions.mean == pytest.approx(-1)
    assert opposite.utilities is not None
    assert opposite.utilities.mean == pytest.approx(-1)
    by_name = {use.estimator: use for use in uses([event])}
    good, bad = by_name["good"], by_name["bad"]
    assert good.auc is not None
    assert good.recall is not None
    assert bad.auc is not None
    assert (good.auc.mean, good.recall.mean, bad.auc.mean) == (1.0, 1.0, 0.0)


def test_an_event_at_which_all_is_kept_tells_no_agreement() -> None:
    event = Scores({"one": {1: 0.9, 2: 0.5}, "other": {1: 0.1, 2: 0.2}}, kept=2, used=frozenset())
    [found] = agreements([event])
    assert found.events == 0
    assert found.overlap is None
    assert {use.auc for use in uses([event])} == {None}
