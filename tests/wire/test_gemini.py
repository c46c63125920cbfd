"""Gemini contents: whose each part is, how calls and results pair, and how results are shortened."""

import copy
from typing import Any

import pytest

from focusctx import Focus, FocusConfig
from focusctx.pipeline.split import read_history
from focusctx.wire import Kind, Role, wire_named

GEMINI = wire_named("gemini")
SIGNED = {"functionCall": {"name": "look", "args": {"at": "x"}, "id": "a"}, "thoughtSignature": "c2ln"}


def response(**response: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "look", "response": response}}


def history(steps: int, **more: Any) -> list[dict[str, Any]]:
    """A run with a long result in every step."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Audit the ledger."}]}]
    for step in range(1, steps + 1):
        text = "\n".join(f"line {line} of page {step}: lot KX-{step * 100 + line} was counted" for line in range(30))
        contents += [
            {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"page": step}}, **more}]},
            {"role": "user", "parts": [response(output=text)]},
        ]
    return contents


def test_a_result_beside_words_is_two_parts() -> None:
    message = {"role": "user", "parts": [response(result="found"), {"text": "and then?"}]}
    result, words = GEMINI.read(message, 0)
    assert (result.kind, result.text, result.blocks) == (Kind.RESULT, "found", (0,))
    assert (words.kind, words.text, words.blocks) == (Kind.WORDS, "and then?", (1,))


@pytest.mark.parametrize(
    ("given", "text", "after"),
    [
        ({"output": "long"}, "long", {"output": "short"}),
        ({"error": "no file"}, '{"error": "no file"}', {"error": "short"}),
        ({"rows": [1, 2], "more": True}, '{"rows": [1, 2], "more": true}', {"result": "short"}),
        ({"error": "x", "code": 3}, '{"error": "x", "code": 3}', {"error": "short"}),
    ],
)
def test_a_shortened_result_stays_an_object_and_a_failure_stays_one(given: Any, text: str, after: Any) -> None:
    message = {"role": "user", "parts": [response(**given)]}
    (found,) = GEMINI.texts(message)
    assert (found.role, found.text) == (Role.RESULT, text)
    assert GEMINI.with_texts(message, {0: "short"})["parts"] == [response(**after)]


def test_both_spellings_pair() -> None:
    turn = {"role": "model", "parts": [{"function_call": {"name": "look", "args": {}}, "text": None}]}
    contents = [{"role": "user", "parts": [{"text": "go"}]}, turn, {"role": "user", "parts": [response(result="x")]}]
    (span,) = read_history(contents, FocusConfig(), len).spans
    assert not span.waiting
    assert span.observation == "x"


def test_calls_of_one_name_pair_in_their_order() -> None:
    turn = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"n": n}}} for n in range(2)]}
    results = {"role": "user", "parts": [response(result=f"result {n}") for n in range(2)]}
    assert GEMINI.read(turn, 0)[0].calls == GEMINI.read(results, 1)[0].answers == ("look", "look#2")
    assert GEMINI.can_lose_calls([turn, results])
    left = GEMINI.without_calls(turn, ["look"], "[1 more]")
    assert left is not None
    assert left["parts"] == [{"text": "[1 more]"}, turn["parts"][1]]


def test_calls_of_one_name_that_were_streamed_in_several_contents_pair_too() -> None:
    parts = [{"functionCall": {"name": "look", "args": {"n": n}}} for n in range(4)]
    streamed = [
        {"role": "model", "parts": piece} for piece in ([{"text": "I look."}], parts[:1], parts[1:3], parts[3:])
    ]
    results = {"role": "user", "parts": [response(result=f"result {n}") for n in range(4)]}
    contents = [{"role": "user", "parts": [{"text": "go"}]}, *streamed, results]
    (span,) = read_history(contents, FocusConfig(), len).spans
    assert not span.waiting
    assert [call.id for call in span.calls] == ["look", "look#2", "look#3", "look#4"]
    assert len(span.messages) == 5


def test_results_with_ids_in_another_order_keep_all_calls() -> None:
    turn = {"role": "model", "parts": [{"functionCall": {"name": "look", "id": f"id_{n}"}} for n in range(2)]}
    results = [{"functionResponse": {"name": "look", "id": f"id_{n}", "response": {}}} for n in (1, 0)]
    assert not GEMINI.can_lose_calls([turn, {"role": "user", "parts": results}])


@pytest.mark.parametrize("levels", [True, False])
def test_a_turn_with_a_signature_stays_as_the_model_wrote_it(levels: bool) -> None:
    contents = history(12, thoughtSignature="c2lnbmVk")
    before = copy.deepcopy(contents)
    result = Focus("offline", budget=2000, levels=levels).compress(contents)
    assert result.compressed
    assert contents == before
    turns = [message for message in result.messages if message["role"] == "model"]
    assert turns
    assert all(any(turn is original for original in contents) for turn in turns)


def test_results_are_shortened() -> None:
    result = Focus("offline", budget=2000).compress(history(12))
    assert result.shortened
    assert result.tokens_after <= 1000


def test_images_in_a_result_go_with_its_text() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    part = {"functionResponse": {"name": "look", "response": {"output": "a picture"}, "parts": [image]}}
    (text,) = GEMINI.texts({"role": "user", "parts": [part]})
    assert text.media == 1
    shorter = GEMINI.with_texts({"role": "user", "parts": [part]}, {0: "gone"})
    assert shorter["parts"] == [response(output="gone")]


def test_thoughts_and_signed_texts_are_never_cut() -> None:
    parts = [{"text": "thinking " * 200, "thought": True}, {"text": "said " * 200, "thoughtSignature": "c2ln"}, SIGNED]
    assert GEMINI.texts({"role": "model", "parts": parts}) == ()
    (turn,) = GEMINI.read({"role": "model", "parts": parts}, 0)
    assert turn.reasons
