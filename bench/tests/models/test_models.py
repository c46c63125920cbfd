"""Models behind the two APIs: through the whole loop against a scripted provider, and against a server with faults."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from bench_helpers.ledger import Ledger, Untouched
from focusctx.errors import ConfigError, ModelError
from focusctx.invariants import violations
from focusctx_bench.agent import Agent
from focusctx_bench.models.served import model_from
from focusctx_bench.protocols import ContextTooLong, Model
from focusctx_bench.record import Record
from helpers import task as ledger
from helpers.provider import Provider

TOOLS = ledger.chat_tools()
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}]
BOTH = pytest.mark.parametrize("name", ["openai:gpt-4.1@{}/v1", "anthropic:claude-sonnet-4-5@{}"])


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(ledger.model) as scripted:
        yield scripted


def audit(model: Model) -> Record:
    benchmark = Ledger()
    return asyncio.run(Agent(model, Untouched).run(benchmark, benchmark.tasks()[0]))


@BOTH
def test_a_whole_task(name: str, provider: Provider) -> None:
    record = audit(model_from(name.format(provider.url)))
    assert record.ended == "done", record.problem
    assert record.score.success == 1
    assert not provider.rejected
    assert not violations(record.messages, "chat_completions")
    assert len(provider.received) == len(record.steps) == ledger.STEPS + 1
    for step, received in zip(record.steps, provider.received, strict=True):
        assert step.usage.requests == 1
        assert step.usage.input_tokens == len(received.raw) // 4
        assert step.usage.output_tokens > 0
        assert step.cached_tokens <= step.usage.input_tokens
    assert sum(step.cached_tokens for step in record.steps) > 0


@BOTH
def test_settings_go_with_every_request(name: str, provider: Provider) -> None:
    audit(model_from(name.format(provider.url)))
    for received in provider.received:
        assert received.body["temperature"] == 0
        assert received.body["model"] in ("gpt-4.1", "claude-sonnet-4-5")
        assert len(received.body["tools"]) == len(TOOLS)
        assert received.body.get("seed", 42) == 42


def test_openai_gets_the_history_as_it_is(provider: Provider) -> None:
    record = audit(model_from(f"openai:gpt-4.1@{provider.url}/v1"))
    for step, received in zip(record.steps, provider.received, strict=True):
        assert received.messages == record.sent(step)


def test_anthropic_gets_the_same_history_in_its_words(provider: Provider) -> None:
    record = audit(model_from(f"anthropic:claude-sonnet-4-5@{provider.url}"))
    last = provider.received[-1].body
    assert last["system"][0]["text"] == record.messages[0]["content"]
    roles = [message["role"] for message in last["messages"]]
    assert roles == ["user", "assistant"] * ledger.STEPS + ["user"]
    sent = json.dumps(last["messages"], ensure_ascii=False)
    for message in record.messages[1:-1]:
        assert json.dumps(message.get("content") or "", ensure_ascii=False)[1:-1] in sent
    marks = [block for message in last["messages"] for block in message["content"] if "cache_control" in block]
    assert len(marks) == 1
    thinking = [block for message in last["messages"] for block in message["content"] if block["type"] == "thinking"]
    assert [block["signature"] for block in thinking] == [f"signed-{number:06d}" for number in range(1, 31)]


@pytest.mark.parametrize(
    ("name", "expected", "billed"),
    [
        ("openai:gpt-4.1@{}/v1", (1000 * 2.0 + 50 * 8.0) / 1e6, (400 * 2.0 + 600 * 0.5 + 50 * 8.0) / 1e6),
        (
            "anthropic:claude-sonnet-4-5@{}",
            (1000 * 3.0 + 50 * 15.0) / 1e6,
            (300 * 3.0 + 600 * 0.3 + 100 * 3.75 + 50 * 15.0) / 1e6,
        ),
    ],
)
async def test_what_a_request_costs(name: str, expected: float, billed: float, serve: Any, monkeypatch: Any) -> None:
    """At list prices as in the paper, and with the cache's prices as on the bill."""
    server = await serve(lambda body: ANSWERS["max_tokens" in body])
    turn = await priced(model_from(name.format(server.url))).answer(HELLO, [])
    assert turn.usage.input_tokens == 1000
    assert turn.cached_tokens == 600
    assert turn.usage.cost == pytest.approx(expected)
    assert turn.billed == pytest.approx(billed)


def priced(model: Any) -> Any:
    """A server of one's own has no price: its model is given the name that has one."""
    model.name = model.name.partition("@")[0]
    return model


CHAT = {
    "choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 600}},
}
MESSAGE = {
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 300,
        "cache_read_input_tokens": 600,
        "cache_creation_input_tokens": 100,
        "output_tokens": 50,
    },
}
ANSWERS = {False: CHAT, True: MESSAGE}


def impatient(model: Any) -> Any:
    model.endpoint = replace(model.endpoint, backoff=0.001)
    return model


def refusal(code: int, message: str, **details: Any) -> web.Response:
    return web.json_response({"error": {"message": message, **details}}, status=code)


@BOTH
@pytest.mark.parametrize("code", [429, 500, 529])
async def test_passing_failures_are_tried_again(name: str, code: int, serve: Any) -> None:
    server = await serve(lambda body, number: refusal(code, "busy") if number < 4 else ANSWERS["max_tokens" in body])
    turn = await impatient(model_from(name.format(server.url))).answer(HELLO, [])
    assert turn.text == "Hello."
    assert len(server.bodies) == 5


@BOTH
async def test_a_lasting_failure_is_a_model_error(name: str, serve: Any) -> None:
    server = await serve(lambda body: refusal(401, "no such key"))
    with pytest.raises(ModelError, match="401: no such key"):
        await model_from(name.format(server.url)).answer(HELLO, [])
    assert len(server.bodies) == 1


@BOTH
@pytest.mark.parametrize("answer", [{}, {"choices": [], "content": None}, {"choices": [{}], "content": [{}]}])
async def test_an_answer_that_is_none(name: str, answer: Any, serve: Any) -> None:
    server = await serve(lambda body: answer)
    with pytest.raises(ModelError, match="sent no"):
        await model_from(name.format(server.url)).answer(HELLO, [])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("openai:m@{}/v1", "This model's maximum context length is 128000 tokens. However, you requested 130002."),
        ("anthropic:m@{}", "prompt is too long: 210034 tokens > 200000 maximum"),
    ],
)
async def test_a_history_that_is_too_long_is_told_apart(name: str, message: str, serve: Any) -> None:
    server = await serve(lambda body: refusal(400, message))
    with pytest.raises(ContextTooLong, match=r"too long|context length"):
        await model_from(name.format(server.url)).answer(HELLO, [])


@BOTH
async def test_a_parameter_the_model_does_not_take_is_left_out_from_then_on(name: str, serve: Any) -> None:
    def behave(body: dict[str, Any]) -> Any:
        if "temperature" in body:
            return refusal(400, "temperature is not supported with this model", param="temperature")
        return ANSWERS["max_tokens" in body]

    server = await serve(behave)
    model = model_from(name.format(server.url))
    await model.answer(HELLO, [])
    await model.answer(HELLO, [])
    assert ["temperature" in body for body in server.bodies] == [True, False, False]


async def test_what_other_servers_write_differently_is_put_right(serve: Any) -> None:
    calls = [{"function": {"name": "read_page", "arguments": {"page": 1}}}, {"function": {"name": "read_page"}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls, "reasoning_content": "Hm."}
    server = await serve(lambda body: {"choices": [{"message": message}]})
    turn = await model_from(f"openai:m@{server.url}").answer(HELLO, TOOLS)
    assert turn.message["reasoning_content"] == "Hm."
    assert [call["id"] for call in turn.message["tool_calls"]] == ["call_0", "call_1"]
    assert [call["function"]["arguments"] for call in turn.message["tool_calls"]] == ['{"page": 1}', "{}"]
    assert turn.usage.cost is None


@pytest.mark.parametrize("name", ["offline", "nonsense", "openai:", "transformers:some/model"])
def test_names_that_are_no_model(name: str) -> None:
    with pytest.raises(ConfigError, match="model"):
        model_from(name)


def test_names_are_those_of_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-key")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-test-key")
    for name in ("openai:gpt-4.1", "anthropic:claude-sonnet-4-5", "deepseek:deepseek-chat", "vllm:qwen"):
        assert model_from(name).name == name
