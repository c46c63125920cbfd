"""`POST /v1/compress`: messages in every format, with and without a conversation, and what is refused."""

import asyncio
import gzip
import json
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from focusctx import Focus, Result
from focusctx.errors import DraftError
from focusctx.invariants import violations
from focusctx.proxy.compress_endpoint import PATH
from focusctx.types import Prompt, Reply
from focusctx.wire import WIRES
from helpers.histories import Messages, run
from helpers.raw_http import Whole, exchange, proxy
from helpers.session_parts import Draft

pytestmark = pytest.mark.usefixtures("nothing_left")

UPSTREAM = "http://127.0.0.1:9"
"""Nothing listens there: these requests must not be forwarded."""
LONG = 12
DOCS = Path(__file__).parents[2] / "docs" / "proxy.md"


def eager(**settings: Any) -> Focus:
    """Drops whatever may go, as soon as it may."""
    return Focus(Draft(), **{"budget": 50, **settings})


def anthropic(steps: int) -> Messages:
    messages: Messages = [{"role": "user", "content": "Do the task."}]
    for number in range(1, steps + 1):
        use = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"result {number}"}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return messages


def responses(steps: int) -> Messages:
    messages: Messages = [{"role": "user", "content": "Do the task."}]
    for number in range(1, steps + 1):
        messages.append({"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}"})
        messages.append({"type": "function_call_output", "call_id": f"c{number}", "output": f"result {number}"})
    return messages


def ai_sdk(steps: int) -> Messages:
    messages: Messages = [{"role": "user", "content": [{"type": "text", "text": "Do the task."}]}]
    for number in range(1, steps + 1):
        named = {"toolCallId": f"c{number}", "toolName": "look"}
        output = {"type": "text", "value": f"result {number}"}
        messages.append({"role": "assistant", "content": [{"type": "tool-call", **named, "input": {}}]})
        messages.append({"role": "tool", "content": [{"type": "tool-result", **named, "output": output}]})
    return messages


def gemini(steps: int) -> Messages:
    messages: Messages = [{"role": "user", "parts": [{"text": "Do the task."}]}]
    for number in range(1, steps + 1):
        response = {"name": "look", "response": {"result": f"result {number}"}}
        messages.append({"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]})
        messages.append({"role": "user", "parts": [{"functionResponse": response}]})
    return messages


def ollama(steps: int) -> Messages:
    messages: Messages = [{"role": "user", "content": "Do the task."}]
    for number in range(1, steps + 1):
        call = {"function": {"name": "look", "arguments": {}}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_name": "look", "content": f"result {number}"})
    return messages


HISTORIES = {
    "chat_completions": run,
    "responses": responses,
    "anthropic": anthropic,
    "ai_sdk": ai_sdk,
    "gemini": gemini,
    "ollama": ollama,
}


async def post(url: str, content: Any, headers: list[tuple[str, str]] | None = None) -> Whole:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return await exchange(url, "POST", PATH, headers or [], body)


async def compressed(url: str, **content: Any) -> tuple[Messages, dict[str, Any]]:
    answer = await post(url, content)
    assert answer.status == 200, answer.body
    told = json.loads(answer.body)
    assert told.keys() == {"messages", "result"}
    return told["messages"], told["result"]


def why(answer: Whole) -> str:
    message: str = json.loads(answer.body)["error"]["message"]
    return message


def test_every_format_is_tried() -> None:
    assert HISTORIES.keys() == WIRES.keys()


@pytest.mark.parametrize("format", HISTORIES)
@pytest.mark.parametrize("named", [True, False])
async def test_each_format_comes_back_as_the_library_compresses_it(format: str, named: bool) -> None:
    messages = HISTORIES[format](LONG)
    async with proxy(UPSTREAM, focus=eager()) as (_, url):
        sent = {"messages": messages, **({"format": format} if named else {})}
        got, told = await compressed(url, **sent)
    expected = await eager().acompress(messages, format=format)
    assert expected.compressed
    assert got == list(expected.messages)
    result = Result.from_json(json.dumps(told))
    assert (result.kept, result.dropped, result.tokens_after) == (
        expected.kept,
        expected.dropped,
        expected.tokens_after,
    )
    assert result.messages == got
    assert list(result.decisions) == list(expected.decisions)


@pytest.mark.parametrize("format", HISTORIES)
@pytest.mark.parametrize("conversation", ["run 1", True])
async def test_decisions_last_in_a_conversation(format: str, conversation: str | bool) -> None:
    """Between two events the prefix stays, and few steps bring an event."""
    whole = HISTORIES[format](40)
    views: list[Messages] = []
    moved = 0
    async with proxy(UPSTREAM, focus=eager(budget=200)) as (_, url):
        for end in range(3, len(whole) + 1, 2):
            got, told = await compressed(url, messages=whole[:end], format=format, conversation=conversation)
            assert violations(got, format) == []
            assert got[-1] == whole[end - 1]
            assert told["tokens_after"] <= told["tokens_before"]
            assert told["compressed"] == (got != whole[:end])
            moved += bool(views) and got[: len(views[-1])] != views[-1]
            views.append(got)
    assert 1 <= moved <= 10
    assert len(views[-1]) < len(whole)


async def test_conversations_and_callers_share_nothing_but_equal_histories() -> None:
    messages = run(LONG)
    other = [{"role": "user", "content": "Something else."}, *messages[2:]]
    async with proxy(UPSTREAM, focus=eager()) as (_, url):
        first, _ = await compressed(url, messages=messages, conversation="a")
        assert len(first) < len(messages)
        short, told = await compressed(url, messages=other[:3], conversation="b")
        assert short == other[:3]
        assert not told["compressed"]


async def test_budget_and_target_of_a_request() -> None:
    messages = run(LONG)
    async with proxy(UPSTREAM, focus=eager(budget=100_000)) as (_, url):
        assert (await compressed(url, messages=messages))[0] == messages
        for more in ({}, {"conversation": "c"}):
            got, told = await compressed(url, messages=messages, budget=60, target=0.9, **more)
            assert len(got) < len(messages)
            assert told["target"] == 54
        got, told = await compressed(url, messages=messages, budget=60, target=None)
        assert told["target"] is None
        again, _ = await compressed(url, messages=messages, conversation="c")
        assert again[-1] == messages[-1]


async def test_fields_of_a_request_may_come_along() -> None:
    async with proxy(UPSTREAM, focus=eager()) as (_, url):
        got, _ = await compressed(url, messages=run(LONG), system="You help.", tools=[{"name": "look"}], model="m")
    assert len(got) < len(run(LONG))


async def test_details_can_be_left_out() -> None:
    async with proxy(UPSTREAM, focus=eager()) as (_, url):
        _, whole = await compressed(url, messages=run(LONG))
        _, told = await compressed(url, messages=run(LONG), details=False)
    assert whole.keys() - told.keys() == {"messages", "history", "sketches", "decisions"}
    assert told["dropped"] == whole["dropped"]


class Failing:
    name = "failing"

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        raise DraftError("no key")
        yield


@pytest.mark.parametrize("conversation", [None, "c"])
async def test_a_failing_draft_changes_nothing_and_is_told(conversation: str | None) -> None:
    messages = run(LONG)
    async with proxy(UPSTREAM, focus=Focus(Failing(), budget=50)) as (_, url):
        got, told = await compressed(url, messages=messages, conversation=conversation)
    assert got == messages
    assert not told["compressed"]
    assert "no key" in told["failure"]


@pytest.mark.parametrize("conversation", [None, "c"])
async def test_an_error_of_our_own_changes_nothing(conversation: str | None) -> None:
    def broken(text: str) -> int:
        raise RuntimeError("oops")

    async with proxy(UPSTREAM, focus=Focus(Draft(), budget=50, tokens=broken)) as (_, url):
        got, told = await compressed(url, messages=run(LONG), conversation=conversation)
    assert got == run(LONG)
    assert "oops" in told["failure"]


async def test_a_dry_run_returns_the_messages_unchanged() -> None:
    async with proxy(UPSTREAM, focus=eager(), dry_run=True) as (_, url):
        got, told = await compressed(url, messages=run(LONG))
    assert got == run(LONG)
    assert told["dropped"]
    assert "dry run" in told["warnings"][-1]


async def test_half_a_character_and_packed_bodies() -> None:
    messages = [*run(LONG), {"role": "user", "content": "cut \ud83d"}]
    body = json.dumps({"messages": messages}).encode()
    async with proxy(UPSTREAM, focus=eager()) as (_, url):
        answer = await post(url, gzip.compress(body), [("content-encoding", "gzip")])
        assert json.loads(answer.body)["messages"][-1] == messages[-1]
        answer = await post(url, body, [("content-encoding", "gzip")])
        assert answer.status == 400
        assert "unpacked" in why(answer)


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"{", 400, "not JSON"),
        (b"[1]", 400, "must be a JSON object"),
        ({}, 400, "messages"),
        ({"messages": "x"}, 400, "messages"),
        ({"messages": [3]}, 400, "message 0: expected a dict"),
        ({"messages": run(1), "buget": 3}, 400, "unknown field `buget` (known fields: messages, format, budget"),
        ({"messages": run(1), "budget": "many"}, 400, "budget"),
        ({"messages": run(1), "budget": -1}, 400, "budget"),
        ({"messages": run(1), "target": -2}, 400, "target"),
        ({"messages": run(1), "format": "morse"}, 400, "unknown format 'morse'; known: chat_completions"),
        ({"messages": [{"from": "human", "value": "x"}]}, 400, "ShareGPT"),
        ({"messages": [{"from": "human", "value": "x"}], "conversation": "c"}, 400, "ShareGPT"),
        ({"messages": [{"role": "user", "content": 3}]}, 400, "message 0"),
        ({"messages": [{}] * 10_001}, 413, "10,000 messages"),
        (b'{"messages": [{"role": "user", "content": [' + b"1," * 300_000 + b"1]}]}", 413, "too many JSON values"),
        (b'{"messages": [{"role": "user", "content": "x", "n": 1e999}]}', 400, "number"),
        (b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400, "JSON"),
    ],
)
async def test_malformed_requests_are_told_why(content: Any, status: int, words: str) -> None:
    async with proxy(UPSTREAM, focus=eager()) as (_, url):
        answer = await post(url, content)
    assert (answer.status, words in why(answer)) == (status, True), why(answer)


async def test_long_bodies_and_other_methods() -> None:
    async with proxy(UPSTREAM, focus=eager(), body_limit=1000) as (_, url):
        answer = await post(url, {"messages": run(LONG)})
        assert answer.status == 413
        assert "1,000 bytes (body_limit)" in why(answer)
        answer = await exchange(url, "GET", PATH)
        assert (answer.status, "POST" in why(answer)) == (405, True)


async def test_access_is_that_of_other_requests() -> None:
    token = "a token of sixteen"
    body = {"messages": run(1)}
    async with proxy(UPSTREAM, focus=eager(), token=token) as (_, url):
        assert (await post(url, body)).status == 403
        assert (await post(url, body, [("x-focusctx-token", "wrong")])).status == 403
        assert (await post(url, body, [("x-focusctx-token", token)])).status == 200
        assert (await post(url, body, [("authorization", f"Bearer {token}")])).status == 200
        page = [("x-focusctx-token", token), ("origin", "https://elsewhere.example")]
        assert (await post(url, body, page)).status == 403
    async with proxy(UPSTREAM, focus=eager()) as (_, url):
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(b"POST /v1/compress HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}")
            assert b" 403 " in await reader.readline()
            writer.close()


async def test_requests_are_counted() -> None:
    async with proxy(UPSTREAM, focus=eager()) as (_, url):
        await compressed(url, messages=run(1))
        await post(url, b"{")
        metrics = (await exchange(url, "GET", "/metrics")).body.decode()
    assert 'focusctx_requests_total{status="200",upstream="compress"} 1.0' in metrics
    assert 'focusctx_requests_total{status="400",upstream="compress"} 1.0' in metrics


async def test_the_command_in_the_docs(tmp_path: Path) -> None:
    commands = re.findall(r"```sh\n(curl [^`]*v1/compress[^`]*)```", DOCS.read_text("utf-8"))
    assert commands
    async with proxy(UPSTREAM, focus=Focus("offline")) as (_, url):
        for command in commands:
            here = command.replace("http://127.0.0.1:8400", url)
            (tmp_path / "request.json").write_text(json.dumps({"messages": run(200), "budget": 500}))
            done = await asyncio.to_thread(
                subprocess.run, ["bash", "-c", here], cwd=tmp_path, capture_output=True, check=True
            )
            told = json.loads(done.stdout)
            assert told["result"]["failure"] is None
            assert told["messages"]
