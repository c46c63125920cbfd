"""The true dependencies: what they say is needed is needed, what they say is not can go."""

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx_bench.benchmarks.office.clerk import decide
from focusctx_bench.benchmarks.office.dependencies import Need, dependencies, lost, needed
from helpers.thorough import examples
from office.runs import Dropping, full_run, run, without


@cache
def needs_of(number: int) -> tuple[tuple[Need, ...], ...]:
    return tuple(dependencies(full_run(number).messages))


def test_there_is_an_entry_for_every_step() -> None:
    for number in range(12):
        needs = needs_of(number)
        assert len(needs) == len(full_run(number).steps)
        for step, used in enumerate(needs, 1):
            assert all(0 < earlier < step for need in used for earlier in need.steps)


def test_long_ranges_and_two_places_occur() -> None:
    """A code used forty steps later; a fact in two places."""
    hard = [enumerate(needs_of(number), 1) for number in range(2, 12, 3)]
    assert max(step - max(need.steps) for needs in hard for step, used in needs for need in used) >= 30
    twice = [
        need
        for number in range(30)
        for used in needs_of(number)
        for need in used
        if need.fact[0] == "invoice" and len(need.steps) > 1
    ]
    assert twice


@given(st.integers(0, 29), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_a_decision_stays_the_same_while_each_of_its_needs_is_met(number: int, data: st.DataObject) -> None:
    record, needs = full_run(number), needs_of(number)
    step = data.draw(st.integers(2, len(needs)))
    dropped = set(data.draw(st.frozensets(st.integers(1, step - 1))))
    for need in needs[step - 1]:
        if need.steps <= dropped:
            dropped -= {data.draw(st.sampled_from(sorted(need.steps)))}
    assert not [found for found in lost(needs, step, dropped) if found[0] == step]
    messages = record.messages[: record.steps[step - 1].reply]
    full, short = decide(messages), decide(without(messages, frozenset(dropped)))
    assert (full.text, list(full.calls)) == (short.text, list(short.calls))


@given(st.integers(0, 29), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_run_without_what_nobody_needs_later_is_the_same_run(number: int, data: st.DataObject) -> None:
    """At every step all that no later step needs is dropped, for good: the perfect method."""
    needs = needs_of(number)

    @cache
    def choose(step: int) -> frozenset[int]:
        kept = {step - 1}
        for need in sorted(needed(needs, step), key=lambda need: len(need.steps)):
            if not kept & need.steps:
                kept.add(max(need.steps))
        return frozenset(range(1, step)) - kept

    assert all(not lost(needs, step, choose(step)) or step == 1 for step in range(1, len(needs) + 1))
    record = run(number, lambda: Dropping(choose))
    assert record.score.success == 1
    assert [step.reply for step in record.steps] == [step.reply for step in full_run(number).steps]


def test_what_is_lost_is_told() -> None:
    needs = [(), (Need(("a",), frozenset({1})),), (Need(("a",), frozenset({1, 2})), Need(("b",), frozenset({2})))]
    assert lost(needs, 2, {1}) == [(2, ("a",))]
    assert lost(needs, 3, {1}) == []
    assert lost(needs, 3, {1, 2}) == [(3, ("a",)), (3, ("b",))]
    assert needed(needs, 2) == [Need(("a",), frozenset({1}))]
