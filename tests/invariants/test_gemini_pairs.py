"""Gemini refuses calls that do not follow a user's turn, and turns whose responses do not match their calls."""

from typing import Any

import pytest

from focusctx.invariants import violations

Content = dict[str, Any]
USER: Content = {"role": "user", "parts": [{"text": "go"}]}


def call(*names: str, ids: bool = False) -> Content:
    parts = [
        {"functionCall": {"name": name, "args": {}, **({"id": f"id_{n}"} if ids else {})}}
        for n, name in enumerate(names)
    ]
    return {"role": "model", "parts": parts}


def answer(*names: str, ids: tuple[str, ...] = ()) -> Content:
    parts: list[Content] = [{"functionResponse": {"name": name, "response": {"result": "x"}}} for name in names]
    for part, identity in zip(parts, ids, strict=False):
        part["functionResponse"]["id"] = identity
    return {"role": "user", "parts": parts}


@pytest.mark.parametrize(
    "contents",
    [
        [USER, call("look"), answer("look")],
        [USER, call("look", "look", "find"), answer("look", "find", "look"), call("find")],
        [USER, call("look"), call("find"), answer("look"), answer("find")],
        [USER, call("look", "look", ids=True), answer("look", "look", ids=("id_1", "id_0"))],
        [USER, call("look", ids=True), answer("look")],
        [USER, {"role": "model", "parts": [{"function_call": {"name": "look"}}]}, answer("look")],
        [USER, call("look"), {**answer("look"), "role": "function"}],
        [USER, call("look"), {**answer("look"), "parts": [*answer("look")["parts"], {"text": "and?"}]}],
        [{"role": "model", "parts": [{"text": "Hello."}]}, USER, call("look")],
    ],
)
def test_legal(contents: list[Content]) -> None:
    assert violations(contents, "gemini") == []


@pytest.mark.parametrize(
    ("contents", "position", "problem"),
    [
        ([call("look"), answer("look")], 0, "must come after a turn of the user"),
        ([USER, call("look", "look"), answer("look")], 1, "'look' has no functionResponse"),
        ([USER, call("look"), USER], 1, "'look' has no functionResponse"),
        ([USER, call("look"), answer("look", "look")], 2, "which the turn before did not call"),
        ([USER, call("look"), answer("find")], 2, "'find', which the turn before did not call"),
        ([USER, answer("look")], 1, "which the turn before did not call"),
        ([USER, call("look", ids=True), answer("look", ids=("id_7",))], 2, "'id_7', which no call"),
    ],
)
def test_illegal(contents: list[Content], position: int, problem: str) -> None:
    found = [violation for violation in violations(contents, "gemini") if problem in violation.problem]
    assert [violation.position for violation in found] == [position]
