"""Gemini's and Ollama's own APIs through the proxy: whose conversation it is, and which model; no recall there."""

import json
import logging
from typing import Any

import pytest

from focusctx import Focus
from focusctx.proxy.access import NamedCaller
from focusctx.proxy.settings import ModelBudget
from focusctx.proxy.upstream import Upstream
from focusctx.session.recall import TOOL
from helpers.raw_http import exchange, proxy, raw_upstream
from helpers.session_parts import Draft

pytestmark = pytest.mark.usefixtures("nothing_left")
PATH = "/v1beta/models/gemini-3.8-flash:generateContent"


def contents(steps: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Do the task."}]}]
    for number in range(1, steps + 1):
        result = {"functionResponse": {"name": "look", "response": {"output": f"result {number} " * 20}}}
        call = {"functionCall": {"name": "look", "args": {"page": number}}, "thoughtSignature": "c2ln"}
        found += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]
    return found


def body(steps: int) -> bytes:
    tools = [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": {"type": "object"}}]}]
    return json.dumps({"contents": contents(steps), "tools": tools}).encode()


async def test_the_path_names_the_model_and_keys_in_queries_tell_callers_apart() -> None:
    async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(), budget=100)) as (served, url):
        for key in ("sk-a", "sk-b"):
            for steps in (6, 7):
                await exchange(url, "POST", f"{PATH}?key={key}", [], body(steps))
        lives = list(served.conversations)
    assert {live.key.model for live in lives} == {"gemini-3.8-flash"}
    assert len({live.key.tenant for live in lives}) == 2
    assert all(len(live.steps) == 2 for live in lives)
    assert "sk-a" not in str([live.key for live in lives])
    assert up.connections == 2, "callers share no connection"
    assert all(len(json.loads(got.body)["contents"]) < 13 for got in up.got)


async def test_callers_and_budgets_by_model_hold_for_gemini() -> None:
    """The token is in the place of the key, as Google's clients send it, and the path names the model."""
    token = "the-token-of-alice"
    settings = {"callers": (NamedCaller("alice", token),), "model_budgets": (ModelBudget("gemini-3*", 100),)}
    async with raw_upstream() as up:
        upstream = Upstream("gemini", up.url, "sk-of-the-proxy")
        async with proxy(upstream, focus=Focus(Draft(), budget=100_000), **settings) as (served, url):
            assert (await exchange(url, "POST", PATH, [("x-goog-api-key", "of-nobody")], body(8))).status == 403
            by_header = await exchange(url, "POST", PATH, [("x-goog-api-key", token)], body(8))
            by_query = await exchange(url, "POST", f"{PATH}?key={token}&alt=sse", [], body(8))
            names = [(live.key.caller, live.session.focus.config.budget) for live in served.conversations]
    assert {*names} == {("alice", 100)}
    for answer in (by_header, by_query):
        report = {name.lower(): value for name, value in answer.headers}
        assert int(report["x-focusctx-tokens-sent"]) < int(report["x-focusctx-tokens-received"])
        assert int(report["x-focusctx-steps-left-out"]) > 0
    assert [got.target for got in up.got] == [PATH, f"{PATH}?alt=sse"]
    assert {got["x-goog-api-key"] for got in up.got} == {"sk-of-the-proxy"}
    assert all(len(json.loads(got.body)["contents"]) < len(contents(8)) for got in up.got)


async def test_a_bypass_leaves_contents_as_they_are() -> None:
    async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(), budget=100)) as (_, url):
        await exchange(url, "POST", PATH, [("x-focusctx-bypass", "1")], body(8))
    assert [got.body for got in up.got] == [body(8)]


async def test_messages_that_stay_go_up_in_the_agents_own_bytes() -> None:
    sent = body(8).replace(b'"role": "model"', b'"role" :  "model"')
    async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(), budget=100)) as (_, url):
        await exchange(url, "POST", PATH, [], sent)
    (got,) = up.got
    assert b'"role" :  "model"' in got.body
    assert got.body.startswith(sent[:60])
    assert got.body.endswith(sent[sent.index(b'], "tools"') :])
    assert len(got.body) < len(sent)


async def test_tokens_are_counted_of_what_would_go_up() -> None:
    count = PATH.replace("generateContent", "countTokens")
    async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(), budget=100)) as (_, url):
        for path in (PATH, count):
            await exchange(url, "POST", path, [], body(8))
    asked, counted = (json.loads(got.body)["contents"] for got in up.got)
    assert asked == counted
    assert len(asked) < len(contents(8))


@pytest.mark.parametrize(("path", "field"), [(PATH, "contents"), ("/api/chat", "messages")], ids=["gemini", "ollama"])
async def test_recall_is_not_offered_and_the_log_says_so_once(
    path: str, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    messages: list[dict[str, Any]] = contents(8)
    if field == "messages":
        messages = [{"role": "user", "content": "Do the task."}]
        for number in range(8):
            calls = [{"function": {"name": "look", "arguments": {"page": number}}}]
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
            messages.append({"role": "tool", "tool_name": "look", "content": f"result {number} " * 20})
    sent = json.dumps({"model": "m", field: messages, "tools": [{"type": "function"}]}).encode()
    caplog.set_level(logging.WARNING, "focusctx.proxy")
    async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(), budget=100), recall=True) as (_, url):
        for _ in range(3):
            await exchange(url, "POST", path, [], sent)
    assert all(len(json.loads(got.body)[field]) < len(messages) for got in up.got)
    assert not any(TOOL.encode() in got.body for got in up.got), "neither the tool nor a note on it"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "recall tool is not offered" in said[0]
