"""The Anthropic SDK: messages, sync, async and streamed, with retries."""

import asyncio
from typing import Any

import httpx2
import pytest

from focusctx import Focus
from focusctx.integrations.plug import Plug, Source
from helpers import task
from helpers.provider import Provider, Say
from helpers.session_parts import WHOLE_STEPS
from integrations.conformance import Conformance, compressing, failing

anthropic = pytest.importorskip("anthropic", reason="scripts/test-integrations anthropic")

from focusctx.integrations.anthropic import FocusMiddleware


class TestAnthropic(Conformance):
    name = "anthropic"
    modes = ("sync", "async", "stream", "async stream")
    imports = ("anthropic",)
    page_calls = 30  # at the prices of the model on the page, fewer steps are not worth a moved prefix

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        kind = anthropic.AsyncAnthropic if "async" in mode else anthropic.Anthropic
        client = kind(base_url=url, api_key="none", middleware=[] if focus is None else [FocusMiddleware(focus)])
        history: list[Any] = [{"role": "user", "content": task.TASK}]
        with asyncio.Runner() as runner:
            while (answer := step(client, history, runner, mode)) is None:
                pass
            closing = client.close()
            if closing is not None:
                runner.run(closing)
        return answer, history


def step(client: Any, history: list[Any], runner: asyncio.Runner, mode: str) -> str | None:
    """One call of the model and of the tools it asks for; the answer when it asks for none."""
    request = {"model": "scripted", "max_tokens": 1000, "messages": history, "tools": task.anthropic_tools()}
    if mode == "sync":
        message = client.messages.create(**request)
    elif mode == "async":
        message = runner.run(client.messages.create(**request))
    elif mode == "stream":
        with client.messages.stream(**request) as stream:
            message = stream.get_final_message()
    else:
        message = runner.run(streamed(client, request))
    history.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
    calls = [block for block in message.content if block.type == "tool_use"]
    if calls:
        history.append({"role": "user", "content": [result(call) for call in calls]})
        return None
    return str(message.content[-1].text)


async def streamed(client: Any, request: dict[str, Any]) -> Any:
    async with client.messages.stream(**request) as stream:
        return await stream.get_final_message()


def result(call: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call.id}
    try:
        return {**block, "content": task.run_tool(call.name, call.input)}
    except task.ToolFailure as failure:
        return {**block, "content": str(failure), "is_error": True}


class Overloaded(httpx2.HTTPTransport):
    """Answers every other request with a 529, which the SDK tries again."""

    tries = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.tries += 1
        if self.tries % 2:
            return httpx2.Response(529, headers={"retry-after-ms": "1"}, json={"type": "error"})
        return super().handle_request(request)


def test_a_retry_sends_what_was_sent() -> None:
    """The middleware runs once per attempt; a draft that fails is asked once per call all the same."""
    focus = failing()
    middleware = [FocusMiddleware(focus.session(ahead=1))]
    history: list[Any] = [{"role": "user", "content": task.TASK}]
    transport = Overloaded()
    with Provider(task.model) as provider, asyncio.Runner() as runner, httpx2.Client(transport=transport) as http:
        client = anthropic.Anthropic(base_url=provider.url, api_key="none", http_client=http, middleware=middleware)
        while not focus.draft.prompts:
            step(client, history, runner, "sync")
        assert transport.tries == 2 * len(provider.received)
    assert len(focus.draft.prompts) == 1


def test_beta_messages_carry_views_and_counts_do_not() -> None:
    focus = Focus(lambda prompt: "Step: finish | Depends on: []", budget=20, **WHOLE_STEPS)
    long = [{"role": role, "content": "Yes."} for _ in range(20) for role in ("user", "assistant")]
    long.append({"role": "user", "content": "And now?"})
    with Provider(lambda received: Say("Yes.")) as provider:
        with anthropic.Anthropic(base_url=provider.url, api_key="none", middleware=[FocusMiddleware(focus)]) as client:
            client.beta.messages.create(model="scripted", max_tokens=9, messages=long)
            client.messages.count_tokens(model="scripted", messages=long)
        beta, count = provider.received
    assert len(beta.messages) < len(long)
    assert count.messages == long


def test_a_thread_that_the_server_holds_goes_through() -> None:
    """The tool runner uses one unless it is told `thread=False`."""
    focus = Focus(lambda prompt: "Step: finish | Depends on: []", budget=20, **WHOLE_STEPS)
    long = [{"role": role, "content": "Yes."} for _ in range(20) for role in ("user", "assistant")]
    long.append({"role": "user", "content": "And now?"})
    with Provider(lambda received: Say("Yes.")) as provider:
        with anthropic.Anthropic(base_url=provider.url, api_key="none", middleware=[FocusMiddleware(focus)]) as client:
            for options in ({}, {"thread": False}):
                runner = client.beta.messages.tool_runner(
                    model="scripted", max_tokens=9, messages=long, tools=[], **options
                )
                assert runner.until_done().content[-1].text == "Yes."
        held, whole = provider.received
    assert held.body["thread"] == {"type": "create"}
    assert held.messages == long
    assert len(whole.messages) < len(long)


def test_it_can_be_looked_at() -> None:
    plug = Plug(compressing())
    assert FocusMiddleware(plug).focusctx is plug
