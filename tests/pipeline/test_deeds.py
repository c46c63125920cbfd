"""Deeds of steps that are gone: each in a line, in the call's own words."""

import json
from itertools import count
from typing import Any

import pytest

from focusctx import Focus, FocusConfig, Result
from focusctx.drafts import ScriptedDraft
from focusctx.pipeline.deeds import deed_lines, deeds_of
from focusctx.pipeline.split import read_history
from helpers.oracles import check, check_verbatim

BODY = "".join(f"{number}: a line of a file\n" for number in range(30))
TASK = {"role": "user", "content": "Do the task."}
NEXT = {"role": "user", "content": "And the next one, please."}
NUMBERS = count()
Json = dict[str, Any]


def step(name: str, result: str = "ok", thought: str = "I go on with it.", **arguments: Any) -> list[Json]:
    identity = f"c{next(NUMBERS)}"
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [
        {
            "role": "assistant",
            "content": thought,
            "tool_calls": [{"id": identity, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": identity, "content": result},
    ]


def lines(*steps: list[Json], reads: tuple[str, ...] = ()) -> list[str]:
    history = read_history([TASK, *(message for one in steps for message in one)], FocusConfig(), len)
    return [*deed_lines(deed for span in history.spans for deed in deeds_of(span, history.format, reads))]


def test_a_deed_is_told_by_its_call_and_how_it_ended() -> None:
    assert lines(step("pay_send", "Paid 9.50 to @ada-11.", token="PA-1", to="@ada-11", amount="9.50")) == [
        'pay_send(to="@ada-11", amount="9.50", …) → ok'
    ]
    assert lines(step("book", "Booked as RES-48213. Thank you.", seats=[3, 4], note=None)) == [
        "book(seats=[3, 4]) → ok: RES-48213"
    ]
    order = json.dumps({"order_id": "#W12345", "items": ["x" * 300], "status": "cancelled"})
    assert lines(step("cancel_order", order, order_id="#W12345")) == [
        'cancel_order(order_id="#W12345") → ok: "status": "cancelled"'
    ]


def test_long_arguments_are_told_by_their_first_line() -> None:
    assert lines(step("write_file", path="a.py", text=BODY)) == [
        'write_file(path="a.py", text="0: a line of a file…") → ok'
    ]
    command = "# Make it.\ncat > a.py << 'EOF'\n" + BODY + "EOF"
    assert lines(step("bash", "", command=command)) == ["bash(command=\"cat > a.py << 'EOF'…\") → ok"]
    (line,) = lines(step("mail_send", to="ann", text="word " * 60))
    assert len(line) < 130
    assert line.endswith('word…") → ok')


def test_look_ups_and_failures_alone_are_not_told() -> None:
    assert lines(step("get_order", id="1"), step("pay_send", "Error: no such handle", to="@x")) == []
    assert lines(step("note_it", id="1"), reads=("note_it",)) == []


def test_a_later_deed_on_the_same_object_takes_up_the_earlier_ones() -> None:
    assert lines(
        step("write_file", path="a.py", text="one"),
        step("edit_file", path="a.py", old="one", new="two"),
        step("write_file", path="b.py", text="three"),
        step("write_file", path="a.py", text="four"),
    ) == [
        'write_file(path="b.py", text="three") → ok',
        'write_file(path="a.py", text="four") → ok, after edit_file, write_file',
    ]


@pytest.mark.parametrize(
    ("name", "arguments"), [("pay_send", {"to": "@ada", "account_id": "7"}), ("edit_file", {"path": "a.py"})]
)
def test_deeds_that_add_up_are_all_told(name: str, arguments: Json) -> None:
    assert len(lines(step(name, amount="1", **arguments), step(name, amount="2", **arguments))) == 2


def test_the_same_deed_twice_is_told_once_with_its_number() -> None:
    assert lines(*[step("pay_send", to="@ada", amount="1") for _ in range(3)]) == [
        'pay_send(to="@ada", amount="1") → ok ×3'
    ]


def test_an_agent_that_acts_in_plain_text_is_told_in_its_own_words() -> None:
    def said(action: str) -> list[Json]:
        return [{"role": "assistant", "content": action}, {"role": "user", "content": "Observation: done"}]

    assert lines(said("Thought: go\n```bash\nrm -r build\n```"), said("Thought: so\nAction: book[seat 4]"))[:2] == [
        "rm -r build → ok",
        "book([seat 4]) → ok",
    ]


# ------------------------------------------------------------------------------------------------ in an event


def run(deeds: int, *, tasks: int = 2) -> list[Json]:
    """Some tasks of the user, each with deeds and look-ups between them."""
    found: list[Json] = []
    for task in range(tasks):
        found.append(NEXT if task else TASK)
        for number in range(deeds):
            found += step("get_mail", BODY, page=number)
            text = f"Dear {number}, " + "this is what I have to say. " * 8
            found += step(
                "mail_send", f"Sent.\nMessage id MSG-{task}{number:04}.", to=f"p{number}@x.example", text=text
            )
    return found


def compressed(messages: list[Json], **settings: Any) -> Result:
    plan = ScriptedDraft(["Step: finish | Depends on: []"])
    return Focus(plan, **{"budget": 40_000, "tokens": len, **settings}).compress(messages)


def test_old_deeds_are_told_in_lines_where_their_records_take_too_much_room() -> None:
    messages = run(40)
    result = compressed(messages)
    assert result.tokens_after <= (result.target or 0)
    check(messages, result.messages, "chat_completions")  # type: ignore[arg-type]
    check_verbatim(messages, result.messages)  # type: ignore[arg-type]
    text = "\n".join(str(message.get("content")) for message in result.messages)
    for task in range(2):
        for number in range(40):
            present = any(f"p{number}@x.example" in json.dumps(message) for message in result.messages)
            assert present
            assert f"MSG-{task}{number:04}" in text, "the id that it made"
    second = result.messages.index(NEXT)
    before = "\n".join(str(message.get("content")) for message in result.messages[:second])
    assert "MSG-00001" in before
    assert "MSG-10001" not in before, "no deed is told before the words that asked for it"
    notes = [decision.note for decision in result.decisions if decision.fate == "dropped" and decision.note]
    assert "told in a line behind s_2" in notes


def test_the_newest_deeds_keep_their_records() -> None:
    messages = run(40)
    result = compressed(messages, target=100)
    made = [json.dumps(message.get("tool_calls")) for message in result.messages]
    assert all(any(f"p{number}@x.example" in one for one in made) for number in range(20, 40))


def test_records_stay_where_there_is_room_for_them() -> None:
    messages = run(40)
    result = compressed(messages, budget=78_000, target=0.9)
    assert "Done in them" not in json.dumps(result.messages)


def test_more_deeds_leave_the_lines_of_earlier_ones_as_they_are() -> None:
    first, second = (compressed(run(deeds), budget=100).messages for deeds in (40, 60))
    told = [
        next(str(one["content"]) for one in some if "Done in them" in str(one["content"])) for some in (first, second)
    ]
    early = [text[text.index("Done in them") :].removesuffix("\n…]") for text in told]
    assert early[1].startswith(early[0])
    assert len(early[1]) > len(early[0])
