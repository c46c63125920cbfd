"""A hard limit: the spans of highest total utility that fit."""

from itertools import combinations

from focusctx.pipeline.limit import limit
from hypothesis import given
from hypothesis import strategies as st

from focusctx import FocusConfig, History, Span
from focusctx.pipeline.keep import Selection, select
from focusctx.pipeline.score import Scores, score
from focusctx.types import Rescue, Sketch, Step


def plan(*cites: int, rescued: tuple[int, ...] = ()) -> Sketch:
    return Sketch("", (Step("go", cites),), (Rescue(rescued, "risk"),))


def history(*tokens: int, words: int = 0, needs: dict[int, int] | None = None) -> History:
    found = needs or {}
    spans = tuple(Span(index, tokens=size, needs=found.get(index)) for index, size in enumerate(tokens, 1))
    return History("g", spans, tokens=sum(tokens) + words)


def limited(
    found: History, sketches: list[Sketch], most: int | None, pinned: dict[int, str] | None = None
) -> Selection:
    config = FocusConfig(limit=most)
    scores = score(sketches)
    return limit(found, select(found, scores, pinned or {}, config), scores, pinned or {}, config)


def test_within_the_limit_nothing_changes() -> None:
    found, sketches = history(10, 20, 30, words=5), [plan(1, 2, 3)]
    assert limited(found, sketches, 65).kept == limited(found, sketches, None).kept == {1, 2, 3}


def test_over_it_the_best_that_fit_stay_and_the_others_say_why() -> None:
    found = history(40, 30, 30, words=5)
    sketches = [plan(1, 2, 3), plan(1, 2, 3), plan(2, 3)]
    selection = limited(found, sketches, 70)
    assert selection.kept == selection.useful == {2, 3}
    assert selection.notes == {1: "over the limit"}


def test_pinned_spans_stay_even_where_they_alone_are_over_it() -> None:
    found = history(10, 50, 90)
    assert limited(found, [plan(1, 2)], 100, {3: "newest span"}).kept == {1, 3}
    assert limited(found, [plan(1, 2)], 20, {3: "newest span"}).kept == {3}


def test_a_rescue_counts_as_much_as_a_citation() -> None:
    selection = limited(history(30, 30), [plan(1, rescued=(2,)), plan(rescued=(2,))], 30)
    assert (selection.kept, selection.rescued) == ({2}, {2})


def test_a_step_stays_with_the_reasoning_it_goes_on_from_or_goes_with_it() -> None:
    found = history(60, 30, 30, needs={2: 1})
    assert limited(found, [plan(2), plan(2), plan(3)], 60).kept == {3}
    assert limited(found, [plan(2), plan(2), plan(3)], 90).kept == {1, 2}


votes = st.lists(st.frozensets(st.integers(1, 6)), min_size=1, max_size=4)


@given(votes, st.lists(st.integers(1, 40), min_size=6, max_size=6), st.integers(1, 150))
def test_no_other_choice_that_fits_is_worth_more(cited: list[frozenset[int]], sizes: list[int], most: int) -> None:
    found, sketches = history(*sizes), [plan(*cites) for cites in cited]
    scores: Scores = score(sketches)
    kept = limited(found, sketches, most).kept
    chosen = select(found, scores, {}, FocusConfig()).kept

    def tokens(some: frozenset[int]) -> int:
        return sum(sizes[index - 1] for index in some)

    def worth(some: frozenset[int]) -> float:
        return sum(scores.utility[index] for index in some)

    every = (frozenset(some) for size in range(len(chosen) + 1) for some in combinations(chosen, size))
    assert kept <= chosen
    assert tokens(kept) <= most
    assert worth(kept) >= max(worth(some) for some in every if tokens(some) <= most) - 1e-9
