"""Taking the best offers: spans, and skeletons under the span's number with a minus sign."""

from hypothesis import given
from hypothesis import strategies as st

from focusctx.drafts.dataflow import DataFlow, Fact, Kind
from focusctx.drafts.worth import Worth, take_best


def fact(text: str, chance: float, *holders: int, written: tuple[int, ...] = ()) -> Fact:
    return Fact(text, Kind.NAME, chance, holders, written)


def test_a_fact_that_two_spans_hold_counts_once() -> None:
    worth = Worth(DataFlow((fact("a", 0.5, 1, 2), fact("b", 0.25, 2)), {}))
    assert worth.of([1]) == 0.5
    assert worth.of([1, 2]) == worth.of([2]) == 0.75


def test_a_skeleton_is_worth_what_the_agent_wrote() -> None:
    flow = DataFlow((fact("a", 0.5, 1, written=(1,)), fact("b", 0.25, 1)), {1: "look"})
    worth = Worth(flow, skeletons=[1])
    assert worth.of([-1]) == 0.5
    assert worth.of([1]) == 0.75 + 0.3  # the failure, too


def test_a_skeleton_makes_way_for_the_whole_span_which_then_costs_the_difference() -> None:
    worth = Worth(DataFlow((fact("a", 0.5, 1, written=(1,)), fact("b", 0.4, 1)), {}), skeletons=[1])
    assert take_best(worth, {1: 100, -1: 20}, 99) == {-1}
    assert take_best(worth, {1: 100, -1: 20}, 100) == {1}


facts = st.lists(st.tuples(st.floats(0.01, 1), st.frozensets(st.integers(1, 6), min_size=1)), max_size=12)


@given(facts, st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=6, max_size=6), st.integers(0, 150))
def test_nothing_of_use_that_would_still_fit_is_left(
    found: list[tuple[float, frozenset[int]]], sizes: list[tuple[int, int]], room: int
) -> None:
    flow = DataFlow(tuple(fact(str(n), c, *sorted(h), written=(max(h),)) for n, (c, h) in enumerate(found)), {})
    costs = {index: outline + more for index, (outline, more) in enumerate(sizes, 1)}
    costs |= {-index: outline for index, (outline, _) in enumerate(sizes, 1)}
    worth = Worth(flow, skeletons=range(1, 7))
    taken = take_best(worth, costs, room)
    spent = sum(costs[offer] for offer in taken)
    assert spent <= room
    assert not any(-offer in taken for offer in taken)
    held = worth.held_by(taken)
    for offer in costs.keys() - taken - {-offer for offer in taken if offer > 0}:
        paid = costs[-offer] if -offer in taken else 0
        assert worth.alone(offer, held) == 0 or costs[offer] - paid > room - spent
