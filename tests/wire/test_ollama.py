"""Ollama's messages: how results find their calls, and how they are shortened."""

from typing import Any

import pytest

from focusctx import Focus, FocusConfig
from focusctx.pipeline.split import read_history
from focusctx.wire import wire_named

OLLAMA = wire_named("ollama")


def call(name: str, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"name": name, "arguments": {"at": "x"}}}


def result(name: str, text: str = "found", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_name": name, "content": text, **more}


def steps(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "go"}, *messages]


@pytest.mark.parametrize(
    ("calls", "results"),
    [
        ([call("look")], [result("look")]),
        ([call("look"), call("find")], [result("find"), result("look")]),
        ([call("look"), call("look")], [result("look", "a"), result("look", "b")]),
        ([call("look", id="c1")], [result("look")]),
        ([call("look", id="c1")], [result("look", tool_call_id="c1")]),
        (
            [call("look", id="c1"), call("find")],
            [{"role": "tool", "tool_call_id": "c1", "content": "x"}, result("find")],
        ),
    ],
)
def test_a_step_has_all_its_results(calls: list[Any], results: list[Any]) -> None:
    history = steps({"role": "assistant", "content": "", "tool_calls": calls}, *results)
    (span,) = read_history(history, FocusConfig(), len, format="ollama").spans
    assert not span.waiting
    assert len(span.messages) == 1 + len(results)
    half = read_history(history[:-1], FocusConfig(), len, format="ollama").spans[0]
    assert half.waiting


def test_images_go_when_a_result_is_shortened() -> None:
    shown = result("look", "a long text", images=["aGk="])
    assert OLLAMA.texts(shown)[0].media == 1
    assert OLLAMA.with_texts(shown, {0: "short"}) == result("look", "short")


def test_a_long_argument_stays_an_object() -> None:
    turn = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "w", "arguments": {"text": "x" * 500}}}],
    }
    changed = OLLAMA.with_texts(turn, {0: "short"})
    assert changed["tool_calls"] == [{"function": {"name": "w", "arguments": {"text": "short"}}}]


def test_a_run_is_recognised_and_compressed() -> None:
    history = steps()
    for page in range(12):
        text = "\n".join(f"line {line} of page {page}: lot KX-{page * 100 + line} was counted" for line in range(30))
        turn = {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call("look"), call("look")]}
        history += [turn, result("look", text), result("look", text)]
    compressed = Focus("offline", budget=2000).compress(history)
    assert compressed.history is not None
    assert compressed.history.format == "ollama"
    assert compressed.tokens_after < 2000
