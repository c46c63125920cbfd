"""Keep within a target: what may not go first, then what is cited, then what is rescued, then what is new."""

import json
from dataclasses import replace
from typing import Any

import pytest

from focusctx import FocusConfig, History
from focusctx.compressor import decide
from focusctx.pipeline.draft import Drafted, passages_of
from focusctx.pipeline.evidence import report
from focusctx.pipeline.keep import Selection, score, select_parts, survey, target_tokens
from focusctx.pipeline.must_stay import NEWEST
from focusctx.pipeline.split import read_history
from focusctx.types import Rescue, Sketch, Step, Unit, Usage
from helpers.histories import Messages, call

STEPS = 6
TEXT = "".join(f"{number:3} only words and words\n" for number in range(40))


def messages(*names: str, text: str = TEXT) -> Messages:
    """A task and one step per name, each with the same long result."""
    found: Messages = [{"role": "user", "content": "Do it."}]
    for number, name in enumerate(names, 1):
        found += [
            {"role": "assistant", "content": "", "tool_calls": [call(number, name, json.dumps({"at": "x" * number}))]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": text},
        ]
    return found


def history(*names: str, **settings: Any) -> History:
    return read_history(messages(*(names or ["look"] * STEPS)), FocusConfig(**settings), len)


def plan(*cites: int | Unit, rescued: tuple[int | Unit, ...] = ()) -> Sketch:
    def split(named: tuple[int | Unit, ...]) -> tuple[tuple[int, ...], tuple[Unit, ...]]:
        return tuple(one for one in named if isinstance(one, int)), tuple(
            one for one in named if isinstance(one, tuple)
        )

    whole, parts = split(cites)
    saved, some = split(rescued)
    return Sketch("", (Step("go", whole, parts),), (Rescue(saved, "risk", some),))


def selected(
    found: History,
    *plans: Sketch,
    newer: dict[int, str] | None = None,
    pinned: dict[int, str] | None = None,
    reserve: int = 0,
    **settings: Any,
) -> Selection:
    config = FocusConfig(**{"budget": found.tokens, **settings})
    seen = survey(found, config)
    assert seen is not None
    scores = score(plans, passages_of(found))
    pins = {found.newest: NEWEST} if pinned is None else pinned
    return select_parts(found, scores, pins, seen, config, newer=newer or {}, reserve=reserve)


def test_the_target_is_a_share_of_the_budget_or_tokens() -> None:
    assert target_tokens(FocusConfig(budget=1000, target=0.25)) == 250
    assert target_tokens(FocusConfig(budget=1000, target=1)) == 1000
    assert target_tokens(FocusConfig(budget=1000, target=300)) == 300
    assert target_tokens(FocusConfig(target=None)) is None


def test_a_cited_passage_stays_with_its_record_and_nothing_else_does_without_a_target() -> None:
    found = selected(history(), plan((2, 3), 4), plan((2, 0)), target=None)
    assert found.kept == {4, 6}
    assert found.shortened == {2: frozenset({3})}
    assert found.useful == {2, 4}
    assert found.excess is None


def test_below_the_threshold_a_passage_goes_though_its_span_is_cited_often() -> None:
    found = selected(history(), plan((2, 1)), plan((2, 2)), plan((2, 2)), target=None, threshold=0.6)
    assert found.shortened == {2: frozenset({2})}


@pytest.mark.parametrize("target", [0.2, 0.4, 0.6, 0.8, 1500])
def test_it_comes_back_to_the_target_whatever_is_cited(target: float) -> None:
    whole = history()
    found = selected(whole, plan(1, 2, 3, 4, 5), target=target)
    most = target_tokens(FocusConfig(budget=whole.tokens, target=target))
    assert most is not None
    assert 0.8 * most < found.tokens <= most
    assert found.excess is None


def test_more_votes_come_first_then_the_newer_span() -> None:
    whole = history()
    size = whole.spans[0].tokens
    found = selected(whole, plan(1, 4), plan(1), plan(3), target=whole.spans[5].tokens + size + 200)
    assert found.kept == {1, 6}
    found = selected(whole, plan(2, 4), target=whole.spans[5].tokens + size + 60)
    assert len(found.shortened[4]) > 2
    assert found.shortened.get(2) == frozenset()


def test_what_is_required_stays_before_what_is_cited() -> None:
    whole = history("look", "pay", "look", "look", "look", "look")
    record = whole.outlines.of(whole.spans[1]).record_tokens  # type: ignore[union-attr]
    found = selected(whole, plan(1, 3, 4, 5), target=whole.spans[5].tokens + len("Do it.") + record)
    assert found.kept == {6}
    assert found.shortened == {2: frozenset()}
    assert "pay changed something" in found.notes[2]
    assert found.notes[1] == "no room below the target"
    assert found.useful == set()


def test_newer_spans_come_after_citations_and_rescues() -> None:
    whole = history()
    room = whole.spans[5].tokens + len("Do it.") + whole.spans[4].tokens + 60
    found = selected(whole, plan(), newer={5: "newer"}, target=room)
    assert (found.kept, found.notes[5]) == ({5, 6}, "newer")
    for plans in (plan(1), plan(rescued=(1,))):
        found = selected(whole, plans, newer={5: "newer"}, target=room)
        assert 1 in found.kept
        assert 5 not in found.kept


def test_what_all_sketches_rescue_comes_before_what_one_cites() -> None:
    whole = history()
    plans = (plan(1, rescued=(2,)), plan(rescued=(2,)), plan(rescued=(2,)))
    room = whole.spans[5].tokens + len("Do it.") + whole.spans[1].tokens + 60
    found = selected(whole, *plans, target=room)
    assert 2 in found.kept | found.shortened.keys()
    assert 1 not in found.kept | found.shortened.keys()


def test_of_newer_spans_what_is_worth_most_stays_first() -> None:
    """The sketches could not judge them: large results among them must not stay from their beginning on."""
    made = messages(*["look"] * STEPS)
    made[10]["content"] = TEXT.replace(" 36 only words", " 36 order_W2890441 order_W2890442 order_W2890443")
    whole = read_history(made, FocusConfig(), len)
    room = whole.spans[5].tokens + len("Do it.") + whole.spans[4].tokens // 2
    found = selected(whole, plan(), newer={5: "newer"}, target=room)
    number = next(one.number for one in whole.outlines.of(whole.spans[4]).passages if "W2890441" in one.text)  # type: ignore[union-attr]
    assert number in found.shortened[5]
    assert number > len(found.shortened[5]), "not only its beginning"


def test_rescues_count_only_in_the_defensive_form() -> None:
    for defensive, kept in ((True, {2, 6}), (False, {6})):
        found = selected(history(), plan(rescued=(2,)), target=None, defensive=defensive)
        assert found.kept == kept
    assert selected(history(), plan(rescued=((2, 1),)), target=None).shortened == {2: frozenset({1})}


def test_spare_room_goes_to_what_the_data_flow_expects() -> None:
    made = messages(*["look"] * STEPS)
    made[4]["content"] = TEXT.replace(" 20 only words", " 20 order_W2890441 order_W2890442 order_W2890443")
    whole = read_history(made, FocusConfig(), len)
    found = selected(whole, plan(), target=0.5)
    number = next(one.number for one in whole.outlines.of(whole.spans[1]).passages if "W2890441" in one.text)  # type: ignore[union-attr]
    assert number in found.shortened[2]
    assert "data flow" in found.notes[2]
    assert selected(whole, plan(), target=None).shortened == {}, "without a target there is no room to fill"
    made[4]["content"] = TEXT.replace(" 20 only words", " 20 order_W2890441")
    found = selected(read_history(made, FocusConfig(), len), plan(), target=0.5)
    assert not found.shortened, "a faint chance is not worth a screenful, though there is room"


def test_a_reserve_is_left_free() -> None:
    whole = history()
    found = selected(whole, plan(1, 2, 3, 4, 5), target=0.5, reserve=700)
    assert found.tokens <= whole.tokens // 2 - 700
    assert found.tokens > whole.tokens // 2 - 1200


def test_where_pinned_text_exceeds_the_target_a_little_of_the_rest_stays_and_it_is_said() -> None:
    whole = history()
    pinned = dict.fromkeys((4, 5, 6), "your pin rule")
    found = selected(whole, plan(1, 2, 3), pinned=pinned, target=0.3)
    rest = sum(span.tokens for span in whole.spans[:3])
    fixed = whole.tokens - rest
    assert {4, 5, 6} <= found.kept
    assert fixed < found.tokens <= fixed + 0.25 * rest
    assert found.excess is not None
    assert "above the target" in found.excess


def test_where_required_records_exceed_the_target_a_little_of_what_is_cited_stays_beside_them() -> None:
    found = history(*["book_room"] * 4, "look", "look")
    pinned_tokens = found.tokens - sum(span.tokens for span in found.spans[:-1])
    kept = selected(found, plan((5, 2)), target=pinned_tokens + 20)
    assert {*kept.shortened} >= {1, 2, 3, 4}
    assert 2 in kept.shortened[5]
    assert kept.excess is not None
    assert kept.tokens <= found.tokens


def test_an_excerpt_that_is_nearly_whole_is_shown_whole() -> None:
    whole = read_history(messages(*["look"] * STEPS, text=TEXT * 4), FocusConfig(), len)
    cited = [(2, number) for number in passages_of(whole)[2]]
    assert 2 in selected(whole, plan(*cited[:-1]), target=None).kept
    assert selected(whole, plan(*cited[:-3]), target=None).shortened.keys() == {2}


def drafted(found: History, config: FocusConfig, *plans: Sketch) -> Drafted:
    return Drafted(plans, None, passages_of(found), survey(found, config), Usage(), None)


def test_the_papers_setting_asks_for_nothing_else() -> None:
    config = FocusConfig.paper(budget=10)
    found = history("pay", "look", "look", "look", levels=False)
    assert survey(found, config) is None
    chosen = decide(found, drafted(found, config, plan(2)), {4: NEWEST}, config)
    assert chosen.kept == {2, 4}
    assert chosen.shortened == {}
    assert (chosen.notes, chosen.excess) == ({}, None)


def test_the_certificate_is_about_the_passages_that_were_left_out() -> None:
    found = history()
    config = FocusConfig(budget=10, target=None, threshold=0.5)
    plans = [plan((2, 1), 4), plan((2, 1), (2, 2)), plan((2, 1), 4)]
    reading = drafted(found, config, *plans)
    selection = decide(found, reading, {6: NEWEST}, config)
    result = report([], found, reading, selection, config=config, latency=0.0)
    assert result.shortened == {2: (1,)}
    assert result.certificate is not None
    assert result.certificate.set_utility == pytest.approx(1 / 3), "one sketch of three cites s_2.2, which is gone"
    lax = replace(config, threshold=0.3)
    selection = decide(found, reading, {6: NEWEST}, lax)
    result = report([], found, reading, selection, config=lax, latency=0.0)
    assert result.certificate is not None
    assert result.certificate.set_utility == 0


def test_spans_newer_than_the_sketches_stay() -> None:
    made = messages(*["look"] * STEPS)
    config = FocusConfig(budget=10, target=None)
    before = read_history(made[:9], config, len)
    reading = drafted(before, config, plan(1))
    later = read_history(made, config, len)
    selection = decide(later, replace(reading, survey=survey(later, config)), {6: NEWEST}, config)
    assert selection.kept == {1, 4, 5, 6}


def test_reasoning_that_a_filled_step_goes_on_from_leaves_again_if_it_is_above_the_target() -> None:
    sent = messages("look", "look", "look", text="ok")
    sent[1] |= {"reasoning_content": "hm", "tool_calls": [call(1, "look", json.dumps({"at": TEXT}))]}
    sent.insert(5, {"role": "user", "content": "And now?"})
    found = read_history(sent, FocusConfig(), len)
    assert found.spans[1].needs == 1
    chosen = selected(found, plan(), target=0.3)
    assert chosen.excess is None
    assert chosen.kept == {3}


def test_a_draft_that_never_names_passages_does_not_push_out_what_is_expected_to_be_needed() -> None:
    made = messages(*["look"] * STEPS)
    made[4]["content"] = TEXT.replace(" 20 only words", " 20 order_W2890441 order_W2890442 order_W2890443")
    whole = read_history(made, FocusConfig(), len)
    number = next(one.number for one in whole.outlines.of(whole.spans[1]).passages if "W2890441" in one.text)  # type: ignore[union-attr]
    room = whole.spans[5].tokens + len("Do it.") + 2 * whole.spans[4].tokens
    coarse = selected(whole, plan(3, 4, 5), target=room)
    assert number in coarse.shortened[2], "no citation says which lines of the others are needed"
    assert {3, 4, 5} & coarse.kept, "the others have the rest of the room"
    narrow = selected(whole, plan(3, 4, 5, (1, 1)), target=room)
    assert number not in narrow.shortened.get(2, ()), "who names passages means all of a step that is named whole"


def parallel(*results: str) -> Messages:
    """A task, one turn with a look-up per result, and another step."""
    return [
        {"role": "user", "content": "Pay everyone."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [call(n, "get_mail", f'{{"id": {n}}}') for n in range(len(results))],
        },
        *({"role": "tool", "tool_call_id": f"call_{n}", "content": text} for n, text in enumerate(results)),
        *messages("look")[1:],
    ]


@pytest.mark.parametrize(("room", "shown"), [(10**6, {1, 2, 3, 4}), (700, set())])
def test_a_set_stays_together_or_goes_together(room: int, shown: set[int]) -> None:
    found = read_history(parallel(*["x" * 150 + f" {n}" for n in range(4)]), FocusConfig(), len)
    fixed = found.tokens - found.spans[0].tokens
    everyone = plan(*[(1, number) for number in range(1, 5)])
    chosen = selected(found, everyone, everyone, everyone, target=fixed + room)
    whole = {1, 2, 3, 4} if 1 in chosen.kept else set(chosen.shortened.get(1, ()))
    assert {number for number in whole if number > 0} == shown


def test_the_next_steps_of_a_plan_come_before_later_ones() -> None:
    found = history()
    soon, late = ((2, 1), (2, 2)), ((1, 1), (1, 2))
    for first, second in ((soon, late), (late, soon)):
        steps = (Step("first", (), first), Step("second", (), second))
        outline = found.outlines.of(found.spans[first[0][0] - 1])  # type: ignore[union-attr]
        needed = outline.record_tokens + sum(one.tokens for one in outline.passages[:2]) + 20
        chosen = selected(found, Sketch("", steps), target=found.spans[5].tokens + len("Do it.") + needed)
        assert {first[0][0]} == chosen.shortened.keys(), "there is room for one of the two"
