"""Outlines and the shortener: steps as records and passages, in every format."""

import json
from typing import Any

import pytest

from focusctx import Focus, FocusConfig
from focusctx.drafts import ScriptedDraft
from focusctx.invariants import violations
from focusctx.pipeline.outline import Outline, message_tokens, shortened
from focusctx.pipeline.rebuild import rebuild
from focusctx.pipeline.split import read_history
from focusctx.types import History
from focusctx.wire import Role, wire_named
from focusctx.wire.part import MEDIA_TOKENS
from helpers.oracles import check_verbatim

LOG = "".join(f"{number:3} a line of a long result\n" for number in range(60))
RECORD = "  0 a line of a long result\n[… 59 lines left out]\n"
TASK = {"role": "user", "content": "Do the task."}
END = {"role": "assistant", "content": "Done."}
Made = tuple[str, dict[str, Any], str]
Format = str


def chat(*calls: Made, thought: str = "", **more: Any) -> list[dict[str, Any]]:
    made = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments, _) in enumerate(calls)
    ]
    results = [{"role": "tool", "tool_call_id": f"c{n}", "content": output} for n, (_, _, output) in enumerate(calls)]
    return [{"role": "assistant", "content": thought, "tool_calls": made, **more}, *results]


def anthropic(*calls: Made, before: tuple[Any, ...] = (), behind: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
    uses = [
        {"type": "tool_use", "id": f"c{n}", "name": name, "input": arguments}
        for n, (name, arguments, _) in enumerate(calls)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": f"c{n}", "content": output} for n, (_, _, output) in enumerate(calls)
    ]
    return [{"role": "assistant", "content": [*before, *uses]}, {"role": "user", "content": [*results, *behind]}]


def responses(*calls: Made) -> list[dict[str, Any]]:
    made = [
        {"type": "function_call", "call_id": f"c{n}", "name": name, "arguments": json.dumps(arguments)}
        for n, (name, arguments, _) in enumerate(calls)
    ]
    return [
        *made,
        *({"type": "function_call_output", "call_id": f"c{n}", "output": one[2]} for n, one in enumerate(calls)),
    ]


STEPS = {"chat_completions": chat, "anthropic": anthropic, "responses": responses}


def read(format: Format, *messages: dict[str, Any]) -> History:
    return read_history([TASK, *messages, END], FocusConfig(), len, format=format)


def outline_of(history: History) -> Outline:
    assert history.outlines is not None
    return history.outlines.of(history.spans[0])


def left(history: History, *numbers: int) -> list[Any]:
    """The step as it is rebuilt with its record and these passages; the whole list is legal and verbatim."""
    parts = outline_of(history).record | set(numbers)
    rebuilt = rebuild(history, [span.index for span in history.spans[1:]], {1: parts})
    assert violations(rebuilt, history.format) == []
    check_verbatim(history.messages, rebuilt)  # type: ignore[arg-type]
    own = shortened(history.spans[0], wire_named(history.format), parts)
    tokens = sum(message_tokens(message, wire_named(history.format), len) for message in own)
    assert history.outlines is not None
    assert history.outlines.tokens(history.spans[0], parts) == tokens
    return rebuilt[1:-1]


@pytest.mark.parametrize("format", STEPS)
def test_passages_are_numbered_through_all_results(format: Format) -> None:
    history = read(format, *STEPS[format](("get_a", {}, LOG), ("get_b", {}, LOG.replace("result", "answer"))))
    outline = outline_of(history)
    assert [passage.number for passage in outline.passages] == list(range(1, len(outline.passages) + 1))
    first = [passage.number for passage in outline.passages if passage.call == "c0"]
    second = [passage.number for passage in outline.passages if passage.call == "c1"]
    assert first + second == [passage.number for passage in outline.passages]
    assert all("answer" in passage.text for passage in outline.passages if passage.number in second)
    assert outline.record_tokens < outline.tokens / 4
    assert outline.tokens == history.spans[0].tokens


@pytest.mark.parametrize("format", ["chat_completions", "anthropic"])
def test_reads_of_a_parallel_turn_go_with_their_results(format: Format) -> None:
    reads = [(f"get_{name}", {"at": name}, LOG) for name in "abc"]
    history = read(format, *STEPS[format](*reads, ("send_mail", {}, LOG)))
    text = json.dumps(left(history), ensure_ascii=False)
    assert "[… 3 more calls left out: get_a (a), get_b (b), get_c (c)]" in text
    assert "send_mail" in text
    assert text.count("59 lines left out") == 1
    wanted = next(passage.number for passage in outline_of(history).passages if passage.call == "c1")
    text = json.dumps(left(history, wanted), ensure_ascii=False)
    assert "[… 2 more calls left out: get_a (a), get_c (c)]" in text
    assert '"c1"' in text
    assert '"c0"' not in text


@pytest.mark.parametrize("format", ["chat_completions", "anthropic"])
def test_of_reads_alone_the_first_stays_and_a_failed_one_does(format: Format) -> None:
    history = read(format, *STEPS[format](*[("get_a", {"at": n}, LOG) for n in range(7)]))
    assert "[… 6 more calls left out: get_a ×6 (1, 2, 3, 4, 5, 6)]" in json.dumps(left(history), ensure_ascii=False)
    calls = [("get_a", {}, LOG), ("get_b", {}, "Error: no such thing"), ("get_c", {}, LOG)]
    text = json.dumps(left(read(format, *STEPS[format](*calls))), ensure_ascii=False)
    assert "Error: no such thing" in text
    assert "[… 2 more calls left out: get_a, get_c]" in text


def test_no_call_is_left_out_in_the_responses_format_or_beside_reasoning() -> None:
    calls = [(f"get_{name}", {}, LOG) for name in "abc"]
    thinking = {"type": "thinking", "thinking": "hm", "signature": "EqQBCg=="}
    for history in (
        read("responses", *responses(*calls)),
        read("anthropic", *anthropic(*calls, before=(thinking,))),
        read("chat_completions", *chat(*calls, reasoning_content="hm")),
    ):
        text = json.dumps(left(history), ensure_ascii=False)
        assert "more call" not in text
        assert text.count("59 lines left out") == 3
    own = anthropic(*calls, before=(thinking,))
    assert left(read("anthropic", *own))[0] is own[0], "the model's turn beside its thinking is the same object"


def test_speech_and_arguments_beside_reasoning_stay_whole() -> None:
    spoken = "I think that it is so. " * 40
    call = ("get_a", {"text": LOG}, LOG)
    beside = outline_of(read("chat_completions", *chat(call, thought=spoken, reasoning_content="hm")))
    alone = outline_of(read("chat_completions", *chat(call, thought=spoken)))
    assert {passage.role for passage in beside.passages} == {Role.RESULT}
    assert {passage.role for passage in alone.passages} == {Role.RESULT, Role.SPEECH, Role.ARGUMENT}
    assert beside.is_turn_whole
    assert not alone.is_turn_whole


def test_work_that_the_provider_goes_on_with_keeps_all_its_calls() -> None:
    program = {"type": "server_tool_use", "id": "p", "name": "code_execution", "input": {"code": "1"}}
    caller = {"caller": {"type": "code_execution_20250825", "tool_id": "p"}}
    end = {"type": "code_execution_tool_result", "tool_use_id": "p", "content": {"type": "x", "content": []}}
    messages: list[dict[str, Any]] = []
    for name in ("a", "b"):
        use = {"type": "tool_use", "id": name, "name": "look", "input": {}, **caller}
        messages.append({"role": "assistant", "content": [*([program] if not messages else []), use]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": LOG}]})
    history = read("anthropic", *messages, {"role": "assistant", "content": [end]}, TASK)
    assert outline_of(history).record == frozenset()
    assert [use["id"] for message in left(history) for use in message["content"] if "id" in use] == ["p", "a", "b"]


def test_a_result_without_content_goes_with_its_call() -> None:
    messages = anthropic(("send_mail", {}, LOG), ("get_a", {}, LOG))
    del messages[1]["content"][1]["content"]
    assert "get_a" in left(read("anthropic", *messages))[0]["content"][0]["text"]


def test_the_users_words_beside_results_are_the_same_objects() -> None:
    words = {"type": "text", "text": "By the way, I said this. " * 30}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A"}}
    history = read("anthropic", *anthropic(("get_a", {}, LOG), ("get_b", {}, LOG), behind=(words, image)))
    turn, mixed = left(history)
    assert mixed["content"][0]["content"] == RECORD
    assert mixed["content"][1] is words
    assert mixed["content"][2] is image
    assert len(turn["content"]) == 2
    assert words["text"] not in outline_of(history).results


def test_images_in_a_result_go_when_it_is_shortened() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 999}}
    content: Any = [{"type": "text", "text": LOG}, image]
    history = read("anthropic", *anthropic(("get_a", {}, content)))
    outline = outline_of(history)
    assert [(passage.number, passage.tokens) for passage in outline.passages] == [(1, MEDIA_TOKENS + len(LOG))]
    assert left(history, 1)[1] is history.messages[2]
    assert left(history)[1]["content"][0]["content"].endswith("[… image or file left out]")
    assert outline.record_tokens < MEDIA_TOKENS


@pytest.mark.parametrize("format", STEPS)
def test_a_long_argument_is_shown_in_part_and_stays_json(format: Format) -> None:
    history = read(format, *STEPS[format](("write_file", {"path": "a.py", "text": LOG, "lines": 60}, "ok")))
    assert {passage.role for passage in outline_of(history).passages} == {Role.ARGUMENT}
    call = left(history)[0]
    if format == "chat_completions":
        arguments = json.loads(call["tool_calls"][0]["function"]["arguments"])
    else:
        arguments = json.loads(call["arguments"]) if format == "responses" else call["content"][0]["input"]
    assert arguments == {"path": "a.py", "text": RECORD, "lines": 60}


def test_what_an_earlier_event_left_is_all_that_can_be_shown() -> None:
    history = read("chat_completions", *chat(("get_a", {}, LOG)))
    assert history.outlines is not None
    known = history.outlines.of(history.spans[1])
    later = history.outlines.after({1: frozenset({2, 3})})
    outline = later.of(history.spans[0])
    assert [passage.number for passage in outline.passages] == [2, 3]
    assert outline.tokens == history.outlines.tokens(history.spans[0], frozenset({2, 3})) < history.spans[0].tokens
    assert later.of(history.spans[1]) is known, "whole steps are not outlined again"


BLOCKS = [{"type": "text", "text": LOG}, {"type": "text", "text": LOG}]


@pytest.mark.parametrize("said", ["", "I look.", [{"type": "text", "text": "I look."}]])
@pytest.mark.parametrize("output", [LOG, BLOCKS])
def test_words_and_results_in_blocks_let_parallel_calls_be_left_out(said: Any, output: Any) -> None:
    calls: list[Made] = [("get_a", {"at": 1}, output), ("get_a", {"at": 2}, output), ("send_mail", {}, "ok")]
    messages = [TASK, *chat(*calls, thought=said), TASK, END]
    focus = Focus(ScriptedDraft(["Step: finish | Depends on: []"]), budget=50, target=40)
    result = focus.compress(messages)
    assert result.failure is None
    assert result.shortened == {1: ()}
    assert "[… 2 more calls left out: get_a ×2 (1, 2)]" in json.dumps(result.messages, ensure_ascii=False)
    assert [message["role"] for message in result.messages] == ["user", "assistant", "tool", "user", "assistant"]
    check_verbatim(messages, result.messages)  # type: ignore[arg-type]
