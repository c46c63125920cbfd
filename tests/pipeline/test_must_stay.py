"""Steps that must stay because others stay, and parts that no event may leave out: deeds, codes shown once, rules,
answered questions, and failures that nobody has repaired."""

import json
from typing import Any

import pytest

from focusctx import FocusConfig
from focusctx.invariants import violations
from focusctx.pipeline.keep import survey
from focusctx.pipeline.must_stay import companions_of, repeated_lookups, required_units, rules_in_passing
from focusctx.pipeline.outline import Outlines
from focusctx.pipeline.rebuild import rebuild
from focusctx.pipeline.split import read_history
from focusctx.types import History, Unit

NOISE = "".join(f"{number:3} nothing of note on this line\n" for number in range(60))
USER = {"role": "user", "content": "Do the task for order W4440001."}


def read(*messages: Any, **settings: Any) -> History:
    last = step("last", ("get_time", {}, "noon"))
    return read_history([USER, *messages, *last], FocusConfig(**settings), len)


def step(thought: str, *calls: tuple[str, dict[str, Any], str]) -> list[dict[str, Any]]:
    ids = [f"{thought}-{number}" for number in range(len(calls))]
    made = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for one, (name, arguments, _) in zip(ids, calls, strict=True)
    ]
    results = [{"role": "tool", "tool_call_id": one, "content": call[2]} for one, call in zip(ids, calls, strict=True)]
    return [{"role": "assistant", "content": thought, "tool_calls": made}, *results]


def required(history: History, *reads: str) -> dict[Unit, str]:
    assert history.outlines is not None
    return required_units(history, history.outlines, reads)


def outlined(history: History) -> tuple[History, Outlines]:
    assert history.outlines is not None
    return history, history.outlines


def passing(history: History) -> list[str]:
    """Return the passages that state a rule, wherever it was read."""
    found = rules_in_passing(*outlined(history), room=10_000)
    return [outlined(history)[1].of(history.spans[index - 1]).text_of(number) for index, number in found]


def words_of(history: History, found: dict[Unit, str], why: str) -> str:
    assert history.outlines is not None
    spans = {span.index: span for span in history.spans}
    texts = [
        history.outlines.of(spans[index]).text_of(number) for (index, number), reason in found.items() if reason == why
    ]
    return "".join(texts)


def test_a_deed_keeps_its_record_and_a_look_up_does_not() -> None:
    found = required(
        read(*step("one", ("cancel_order", {"order": "W1"}, NOISE)), *step("two", ("get_order", {}, NOISE)))
    )
    assert found == {(1, 0): "cancel_order changed something"}


def test_the_users_list_makes_a_tool_a_look_up() -> None:
    assert required(read(*step("one", ("frobnicate", {}, NOISE))), "frobnicate") == {}
    assert (1, 0) in required(read(*step("one", ("frobnicate", {}, NOISE))))


def test_a_write_that_failed_is_no_deed() -> None:
    assert required(read(*step("one", ("cancel_order", {}, "Error: no such order")))) == {}


def test_a_deed_in_a_parallel_turn_is_one() -> None:
    turn = step("one", ("get_order", {}, NOISE), ("send_mail", {"to": "a"}, "sent"), ("get_user", {}, NOISE))
    assert required(read(*turn)) == {(1, 0): "send_mail changed something"}


def test_an_id_that_a_write_made_stays_and_one_that_was_known_does_not() -> None:
    output = f"{NOISE}the new booking is RES774512 for you\n{NOISE}it is paid from W4440001 as you asked\n{NOISE}"
    history = read(*step("one", ("book_flight", {}, output)))
    found = required(history)
    made = words_of(history, found, "it holds an id that was made here")
    assert "RES774512" in made
    assert "W4440001" not in made
    assert "it holds an id that was made here" not in required(read(*step("one", ("get_flight", {}, output)))).values()


PHRASE = "Your recovery phrase is apple banana cherry, and after that come " + "more words of that kind, " * 5
WARNING = "It will not be shown again, so save it in a place that is safe enough, " + "and tell nobody about it, " * 3


def test_what_is_shown_once_stays_with_the_line_before_it() -> None:
    output = f"{NOISE}\n{PHRASE}\n\n{WARNING}\n{NOISE}"
    history = read(*step("one", ("get_phrase", {}, output)))
    kept = words_of(history, required(history), "it was shown once")
    assert WARNING in kept
    assert PHRASE in kept
    assert len(kept) < len(output) / 3


def test_rules_of_a_rule_book_stay_to_the_line() -> None:
    output = f"{NOISE}Never refund more than 100 EUR.\n{NOISE}"
    history = read(*step("one", ("read_file", {"path": "policy.md"}, output)))
    assert "Never refund" in words_of(history, required(history), "it states a rule")
    assert required(read(*step("one", ("read_file", {"path": "novel.txt"}, output)))) == {}


def test_a_rule_inside_a_paragraph_stays() -> None:
    paragraph = "This page is for all who take part. Never refund more than 100 EUR. Thank you for reading it."
    history = read(*step("one", ("read_file", {"path": "policy.md"}, f"{NOISE}{paragraph}\n{NOISE}")))
    assert "Never refund" in words_of(history, required(history), "it states a rule")


FILLER = "\n".join(f"Line {number} of the catalogue says little." for number in range(40))


@pytest.mark.parametrize(
    "rule",
    [
        "Never waive a late fee without a note.",
        "Only the duty supervisor may waive a late fee.",
        "Waivers of late fees are reserved for the duty supervisor.",
        "Please leave late fees to the duty supervisor.",
    ],
)
def test_a_rule_in_an_ordinary_result_is_found(rule: str) -> None:
    listing = f"{FILLER}\n{rule}\n{FILLER}"
    found = passing(read(*step("", ("get_catalogue", {"page": 1}, listing)), *step("", ("get_order", {"id": 2}, "ok"))))
    assert any(rule in text for text in found)
    assert sum(map(len, found)) < 400, "the rule, and not the page around it"


@pytest.mark.parametrize(
    "line",
    [
        "        # Don't log the line or indent buffer, it's too noisy.",
        '    raise ValueError("a name must not be empty")',
        "django.core.exceptions.ImproperlyConfigured: The SECRET_KEY setting must not be empty.",
        "The garden must have been quiet.",
    ],
)
def test_a_programs_own_text_is_no_rule_for_the_agent(line: str) -> None:
    listing = f"{FILLER}\n{line}\n{FILLER}"
    assert not passing(read(*step("", ("read_file", {"path": "a.py"}, listing)), *step("", ("ls", {}, "ok"))))


def test_a_rule_in_a_field_of_json_is_found() -> None:
    record = json.dumps({"order": "W1", "lines": FILLER, "note": "Never waive a late fee.", "paid": True})
    assert any("Never waive" in text for text in passing(read(*step("", ("get_order", {"id": 1}, record)))))


def test_rules_outside_of_policies_have_limited_room() -> None:
    pages = [step("", ("get_page", {"page": page}, f"{FILLER}\nNever do {page}.")) for page in range(9)]
    whole = outlined(read(*(message for page in pages for message in page)))
    every = rules_in_passing(*whole, room=10_000)
    some = rules_in_passing(*whole, room=60)
    assert 0 < len(some) < len(every) == 9
    assert [*some] == [*every][: len(some)], "the newest come first"


def test_a_rule_that_was_read_twice_counts_once() -> None:
    listing = f"{FILLER}\nNever waive a late fee."
    pages = [step("", ("get_catalogue", {"page": page}, listing)) for page in (1, 2, 3)]
    found = rules_in_passing(*outlined(read(*pages[0], *pages[1], *pages[2])), room=10_000)
    assert [index for index, _ in found] == [3]


def test_a_short_policy_stays_whole() -> None:
    output = "".join(f"Part {number} of the page: only the office can grant that.\n" for number in range(10))
    history = read(*step("one", ("read_file", {"path": "policy.md"}, output)))
    assert history.outlines is not None
    passages = history.outlines.of(history.spans[0]).passages
    assert len(passages) > 1
    assert required(history) == {(1, passage.number): "it states a rule" for passage in passages}


def test_a_text_agent_keeps_the_rules_it_read() -> None:
    output = f"{NOISE}Never refund more than 100 EUR.\n{NOISE}"
    asked = {"role": "user", "content": "Answer with Thought and Action. You get an Observation."}
    acts = {"role": "assistant", "content": "Thought: look\nAction: read_file policy.md"}
    history = read(asked, acts, {"role": "user", "content": f"Observation: {output}"}, *step("two", ("get", {}, "x")))
    assert "Never refund" in words_of(history, required(history), "it states a rule")


LONG_SPEECH = (
    "I compared all of the offers that there are. " * 12
    + "Shall I book the second one for 120 EUR? "
    + "Thank you. " * 30
)


def test_a_question_stays_if_the_user_answered_it() -> None:
    yes = {"role": "user", "content": "Yes."}
    spoken = {"role": "assistant", "content": LONG_SPEECH}
    history = read(*step("one", ("get_offers", {}, NOISE)), spoken, yes)
    found = required(history)
    assert found[2, 0] == "the user answered it"
    kept = words_of(history, {unit: why for unit, why in found.items() if unit[1]}, "the user answered it")
    assert "Shall I book the second one for 120 EUR?" in kept
    assert len(kept) < len(LONG_SPEECH) / 2
    assert required(read(spoken, *step("one", ("get_offers", {}, NOISE)))) == {}, "nobody answered"


def test_a_question_stays_whole_if_a_colon_divides_it() -> None:
    offer = "For the flights of that week you can choose from the fares that I found for you there today: "
    asks = "Which of the two, RES774512 with a seat at the window or RES774513 without one, shall I book for you?"
    spoken = {"role": "assistant", "content": "I compared all of the offers that there are. " * 12 + offer + asks}
    history = read(spoken, {"role": "user", "content": "The first."})
    assert (offer + asks) in words_of(history, required(history), "the user answered it")


def failures(history: History) -> dict[Unit, str]:
    found = survey(history, FocusConfig())
    assert found is not None
    return {unit: why for unit, why in found.required.items() if "failed" in why}


def test_a_failure_that_stands_keeps_its_record_also_in_a_parallel_turn() -> None:
    failed = ("get_order", {"order": "W7770001"}, "Error: no such order")
    fine = ("get_user", {"user": "ann_lee_11"}, "fine")
    assert failures(read(*step("one", failed))) == {(1, 0): "get_order failed here"}
    assert failures(read(*step("one", fine, failed))) == {(1, 0): "get_order failed here"}
    again = ("get_order", {"order": "W7770001"}, "open")
    assert failures(read(*step("one", fine, failed), *step("two", fine, again))) == {}
    other = ("get_order", {"order": "W7770002"}, "open")
    assert failures(read(*step("one", fine, failed), *step("two", other))) == {(1, 0): "get_order failed here"}


def test_a_look_up_repeated_because_its_result_was_cut_is_a_regret() -> None:
    look, other = ("get_order", {"order": "W1"}, NOISE), ("get_order", {"order": "W2"}, NOISE)
    history = read(*step("one", look), *step("two", other), *step("three", look))
    assert [*repeated_lookups(history.spans, {1: 2})] == [3]
    assert repeated_lookups(history.spans, {}) == {}
    assert repeated_lookups(history.spans, {2: 2}) == {}, "another result was cut"
    assert repeated_lookups(history.spans, {1: 3}) == {}, "it was repeated before it was cut"
    write = ("pay", {"order": "W1"}, NOISE)
    history = read(*step("one", write), *step("two", other), *step("three", write))
    assert repeated_lookups(history.spans, {1: 2}) == {}, "a deed done twice is no look-up"
    assert [*repeated_lookups(history.spans, {1: 2}, ("pay",))] == [3]


def test_of_several_repetitions_the_latest_counts() -> None:
    look = ("get_order", {"order": "W1"}, NOISE)
    history = read(*step("one", look), *step("two", look), *step("three", look))
    assert [*repeated_lookups(history.spans, {1: 1})] == [3]


def test_of_a_rule_that_was_read_again_the_later_reading_stays() -> None:
    policy = f"{NOISE}Never refund twice.\n{NOISE}"
    book = ("read_file", {"path": "policy.md"}, policy)
    other = ("read_file", {"path": "rules.md"}, policy)
    history = read(*step("one", book), *step("two", other), *step("three", book))
    assert {index for index, _ in required(history)} == {2, 3}


SYSTEM = {"role": "system", "content": "Mind the rules."}


def look(number: int) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "seen"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def kept_with(messages: list[dict[str, Any]], *chosen: int) -> set[int]:
    """The spans that stay with the chosen ones; the list they make is one the provider takes."""
    history = read_history(messages, FocusConfig(), len, format="anthropic")
    stays = {*chosen, *companions_of(history, chosen)}
    assert violations(rebuild(history, stays), "anthropic") == []
    return stays


TASK = {"role": "user", "content": "Do it."}
MORE = {"role": "user", "content": "And that."}


def test_two_system_messages_do_not_meet():
    messages = [TASK, SYSTEM, *look(1), *look(2), *look(3), SYSTEM, *look(4), *look(5)]
    assert kept_with(messages, 5) == {3, 5}
    assert kept_with(messages, 1, 5) == {1, 5}
    assert kept_with(messages, 2, 4, 5) == {2, 4, 5}


def test_a_system_message_does_not_meet_the_users_words():
    messages = [TASK, SYSTEM, *look(1), *look(2), MORE, *look(3), *look(4)]
    assert kept_with(messages, 4) == {1, 4}


def test_without_system_messages_nothing_more_stays():
    assert kept_with([TASK, *look(1), *look(2), MORE, *look(3)], 3) == {3}


def test_thinking_that_a_gateway_passes_on_stays_with_the_steps_that_go_on_from_it():
    def chat(number: int, **more: Any) -> list[dict[str, Any]]:
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        result = {"role": "tool", "tool_call_id": f"c{number}", "content": "seen"}
        return [{"role": "assistant", "content": None, "tool_calls": [call], **more}, result]

    thinking = [{"type": "thinking", "thinking": "hm", "signature": "EqQBCg=="}]
    history = read_history([TASK, *chat(1, thinking_blocks=thinking), *chat(2), *chat(3)], FocusConfig(), len)
    assert [span.needs for span in history.spans] == [None, 1, 1]
    assert companions_of(history, {3}).keys() == {1}
