"""Histories that make compression tear apart what a provider wants together: stored items given by reference, answers
as SDKs dump them, and mixtures of formats. What comes out is legal or is what came in."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from focusctx import Focus
from focusctx.invariants import violations
from helpers import task
from helpers.provider import Provider
from helpers.raw_http import exchange, proxy, raw_upstream
from helpers.session_parts import Draft, session_of
from spoken import Answer, Call, Say, whole

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "Do the task."}
STEPS = 10


def eager() -> Focus:
    """Drops whatever may go, as soon as it may."""
    return Focus(Draft(), budget=50)


# ------------------------------------------------------------------------------------------- references


def stored_run(*kinds: str) -> list[Json]:
    """A run whose items are given by references of these kinds; the call itself too, where `fc` is among them."""
    items = [USER]
    for number in range(1, STEPS + 1):
        items += [{"type": "item_reference", "id": f"{kind}_{number}"} for kind in kinds]
        if "fc" not in kinds:
            items.append({"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": f"c{number}", "output": f"result {number} " * 9})
    return items


def steps_shown(items: list[Json]) -> dict[str, set[int]]:
    """The numbers of the steps that outputs show, and of those that references show."""
    return {
        "outputs": {int(item["call_id"][1:]) for item in items if item.get("type") == "function_call_output"},
        "references": {int(item["id"].partition("_")[2]) for item in items if item.get("type") == "item_reference"},
    }


@pytest.mark.parametrize("kinds", [("rs",), ("rs", "msg"), ("msg",), ("rs", "fc"), ("rs", "msg", "fc"), ("fc",)])
async def test_references_go_up_with_their_step_or_not_at_all(kinds: tuple[str, ...]) -> None:
    items = stored_run(*kinds)
    body = json.dumps({"model": "m", "input": items}).encode()
    async with raw_upstream() as up, proxy(up.url, focus=eager()) as (_, url):
        await exchange(url, "POST", "/v1/responses", [], body)
    sent = json.loads(up.got[0].body)["input"]
    shown = steps_shown(sent)
    assert len(sent) < len(items)
    assert shown["references"] == shown["outputs"] < set(range(1, STEPS + 1))
    assert violations(sent, "responses") == []


@pytest.mark.parametrize(
    "kinds",
    [("item",), ("rs", "item"), ("prog",), ("x", "y", "z")],
    ids="+".join,
)
async def test_references_to_what_is_not_known_stay(kinds: tuple[str, ...]) -> None:
    body = json.dumps({"model": "m", "input": stored_run(*kinds)}).encode()
    async with raw_upstream() as up, proxy(up.url, focus=eager()) as (_, url):
        await exchange(url, "POST", "/v1/responses", [], body)
    assert up.got[0].body == body


async def test_orphans_that_came_in_go_up_as_they_came() -> None:
    items = [*stored_run("rs", "msg"), {"type": "item_reference", "id": "rs_99"}, USER]
    body = json.dumps({"model": "m", "input": items}).encode()
    async with raw_upstream() as up, proxy(up.url, focus=eager()) as (_, url):
        await exchange(url, "POST", "/v1/responses", [], body)
    assert up.got[0].body == body


# ------------------------------------------------------------------------------------------------ dumps


def dumped_run() -> list[Json]:
    """Answers of Anthropic's as `model_dump()` writes them, each with its tool results."""
    messages: list[Json] = [{"role": "user", "content": task.TASK}]
    for number in range(1, STEPS + 1):
        say = Say(f"Now {number}.", (Call("look", {"at": number}), Call("look", {"at": -number})))
        answer = anthropic.types.Message.model_validate(whole(Answer(say, number, {}, 1, 0, 16), "anthropic"))
        messages.append(answer.model_dump(mode="json"))
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": f"result {number} " * 20}
            for block in answer.content
            if block.type == "tool_use"
        ]
        messages.append({"role": "user", "content": results})
    return messages


def test_an_anthropic_dump_is_read_as_what_it_is() -> None:
    messages = dumped_run()
    result = eager().compress(messages)
    assert result.compressed
    assert result.history is not None
    assert result.history.format == "anthropic"
    assert violations(result.messages, "anthropic") == []


@pytest.mark.parametrize("format", ["responses", "chat_completions"])
def test_a_dump_said_to_be_something_else_comes_back_as_it_was(format: str) -> None:
    messages = dumped_run()
    focus = eager()
    result = focus.compress(messages, format=format)
    assert result.messages is messages
    assert result.failure == f"the messages are of the format anthropic, but were to be read as {format}"
    assert focus.draft.prompts == [], "nobody is asked for nothing"
    assert session_of(Draft(), budget=50).view(messages, format=format) == messages


def test_a_dump_without_its_fields_is_recognised_by_later_messages() -> None:
    """The first answer says nothing that only Anthropic says, but for its type."""
    first: Json = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Well."}]}
    messages = [USER, first, *dumped_run()]
    focus = eager()
    for length in range(1, len(messages) + 1):
        result = focus.compress(messages[:length])
        if result.compressed:
            assert violations(result.messages, "anthropic") == []
    assert result.compressed


@pytest.mark.parametrize("dumped", [True, False])
async def test_a_dump_over_the_proxy(dumped: bool) -> None:
    messages = dumped_run()
    if not dumped:
        messages = [{"role": message["role"], "content": message["content"]} for message in messages]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    with Provider(task.model) as provider:
        async with proxy(provider.url, focus=eager()) as (_, url):
            answer = await exchange(url, "POST", "/v1/messages", [], body)
    assert answer.status == 200
    assert provider.rejected == []
    assert len(provider.received[0].messages) < len(messages)


# --------------------------------------------------------------------------------------------- mixtures


def mixtures() -> Iterator[list[Json]]:
    chat = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "t", "function": {"name": "x", "arguments": ""}}]},
        {"role": "tool", "tool_call_id": "t", "content": "seen " * 50},
    ]
    claude = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "x", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "seen " * 50}]},
    ]
    items = [
        {"type": "function_call", "call_id": "t", "name": "x", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t", "output": "seen " * 50},
    ]
    yield [USER, *(claude + items) * 5, USER]
    yield [USER, *(items + claude) * 5, USER]
    yield [USER, *(chat + claude) * 5, USER]
    yield [USER, *(claude + chat) * 5, USER]
    yield [USER, *({**message, "type": "message"} for message in claude * 5), USER]


@pytest.mark.parametrize("messages", list(mixtures()))
@pytest.mark.parametrize("format", [None, "chat_completions", "responses", "anthropic"])
def test_a_mixture_comes_out_legal_or_as_it_was(messages: list[Json], format: str | None) -> None:
    try:
        result = eager().compress(messages, format=format)
    except ValueError:
        return
    if result.messages is messages:
        return
    for each in ("chat_completions", "responses", "anthropic"):
        assert violations(result.messages, each) == [] or violations(messages, each) != []
