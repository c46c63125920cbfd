"""The value of passages and records, and the best of them that fit."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from focusctx import FocusConfig
from focusctx.drafts.dataflow import FAILURE_CHANCE, DataFlow, Fact, Worth, read_flow, take_best
from focusctx.drafts.reading import Kind
from focusctx.pipeline.split import read_history
from focusctx.types import Unit


def fact(text: str, chance: float, *holders: Unit) -> Fact:
    return Fact(text, Kind.NAME, chance, holders)


def test_a_fact_that_two_units_hold_counts_once() -> None:
    worth = Worth(DataFlow((fact("a", 0.5, (1, 0), (2, 3)), fact("b", 0.25, (2, 3))), {}))
    assert worth.of([(1, 0)]) == 0.5
    assert worth.of([(1, 0), (2, 3)]) == worth.of([(2, 3)]) == 0.75
    assert worth.added_by([(2, 3)], worth.held_by([(1, 0)])) == 0.25


def test_a_failure_is_worth_something_in_its_record() -> None:
    worth = Worth(DataFlow((fact("a", 0.5, (1, 1)),), {1: "look"}), bonus={(2, 0): 0.1})
    assert worth.of([(1, 0)]) == FAILURE_CHANCE
    assert worth.of([(1, 0), (1, 1), (2, 0)]) == FAILURE_CHANCE + 0.5 + 0.1


def test_a_passage_brings_its_record_along_and_pays_for_it() -> None:
    worth = Worth(DataFlow((fact("a", 0.5, (1, 2)),), {}))
    costs = {(1, 0): 10, (1, 1): 20, (1, 2): 20}
    assert take_best(worth, costs, 30) == {(1, 0), (1, 2)}
    assert take_best(worth, costs, 29) == set()
    assert take_best(worth, costs, 20, have=[(1, 0)]) == {(1, 2)}


def test_what_is_worth_too_little_per_token_is_left() -> None:
    worth = Worth(DataFlow((fact("a", 0.5, (1, 0)),), {}))
    assert take_best(worth, {(1, 0): 100}, 1000, least=0.005) == {(1, 0)}
    assert take_best(worth, {(1, 0): 100}, 1000, least=0.0051) == set()


units = st.tuples(st.integers(1, 4), st.integers(0, 2))
facts = st.lists(st.tuples(st.floats(0.01, 1), st.frozensets(units, min_size=1)), max_size=12)
every_unit = [(index, number) for index in range(1, 5) for number in range(3)]


@given(facts, st.lists(st.integers(1, 50), min_size=12, max_size=12), st.integers(0, 250), st.frozensets(units))
def test_nothing_of_use_that_would_still_fit_is_left(
    found: list[tuple[float, frozenset[Unit]]], sizes: list[int], room: int, have: frozenset[Unit]
) -> None:
    worth = Worth(DataFlow(tuple(fact(str(n), c, *sorted(h)) for n, (c, h) in enumerate(found)), {}))
    costs = dict(zip(every_unit, sizes, strict=True))
    have |= {(index, 0) for index, _ in have}
    taken = take_best(worth, costs, room, have=have)
    spent = sum(costs[unit] for unit in taken)
    held = worth.held_by(taken | have)
    assert spent <= room
    assert taken.isdisjoint(have)
    assert all((index, 0) in taken | have for index, _ in taken), "no passage without its record"
    for unit in costs.keys() - taken - have:
        bundle = {unit, (unit[0], 0)} - taken - have
        assert worth.added_by(bundle, held) == 0 or sum(costs[one] for one in bundle) > room - spent


def test_amounts_and_names_in_recent_results_are_worth_something_and_fade() -> None:
    table = "".join(f"row {number}: Tom paid {number}.50 on Monday\n" for number in range(40))
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Sum up the sheet."}]
    for number in range(30):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        text = table.replace("row", f"row {number}/")
        messages += [
            {"role": "assistant", "content": "Next.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": text},
        ]
    flow = read_flow(read_history(messages, FocusConfig(), len))
    details = [(fact.holders[0][0], fact.chance) for fact in flow.facts if fact.kind is Kind.DETAIL]
    spans = [index for index, _ in details]
    assert max(spans) == 29, "the newest step stays by itself"
    assert min(spans) > 15, "what was read long ago has faded"
    best = {index: max(chance for span, chance in details if span == index) for index in spans}
    assert list(best.values()) == sorted(best.values(), reverse=True)
    assert max(best.values()) <= 0.1


def test_a_list_that_was_looked_up_for_the_user_is_worth_more_than_its_members() -> None:
    people = "Readers of harvest: Wanda Ekdal, Clara Stern, Hugo Abbott, Iris Vale." + " Nothing more is said." * 12

    def read(path: str) -> list[dict[str, Any]]:
        given = json.dumps({"path": path})
        call = {"id": f"c{path}", "type": "function", "function": {"name": "read", "arguments": given}}
        result = {"role": "tool", "tool_call_id": f"c{path}", "content": people.replace("harvest", path)}
        return [{"role": "assistant", "content": "Next.", "tool_calls": [call]}, result]

    task = {"role": "user", "content": "Write to all readers of 'harvest'."}
    messages = [task, *read("/lists/harvest.txt"), *read("/lists/other.txt"), *read("/lists/last.txt")]
    flow = read_flow(read_history(messages, FocusConfig(), len))
    lists = [fact.holders[0][0] for fact in flow.facts if fact.text == "the members of a list"]
    assert lists == [1]
