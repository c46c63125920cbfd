"""The OpenAI SDK: chat completions and responses, sync, async and streamed."""

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from focusctx import Focus
from helpers import task
from helpers.histories import run
from helpers.provider import Provider, Say
from helpers.session_parts import WHOLE_STEPS
from integrations.conformance import Conformance

openai = pytest.importorskip("openai", reason="scripts/test-integrations openai")

from focusctx.integrations.openai import focused
from focusctx.integrations.plug import Source


class TestOpenAI(Conformance):
    name = "openai"
    modes = ("chat", "chat async", "chat stream", "responses async stream")
    imports = ("openai",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        kind = openai.AsyncOpenAI if "async" in mode else openai.OpenAI
        client = kind(base_url=f"{url}/v1", api_key="none")
        client = client if focus is None else focused(client, focus)
        history: list[Any] = [{"role": "user", "content": task.TASK}]
        step = chat_step if "chat" in mode else responses_step
        with asyncio.Runner() as runner:
            ask = runner.run if "async" in mode else lambda done: done
            while (answer := step(client, history, ask, "stream" in mode)) is None:
                pass
            ask(client.close())
        return answer, history


def chat_step(client: Any, history: list[Any], ask: Any, streamed: bool) -> str | None:
    """One call of the model and of the tools it asks for; the answer when it asks for none."""
    request = {"model": "scripted", "messages": history, "tools": task.chat_tools()}
    message = asked(client.chat.completions, request, ask, streamed).choices[0].message
    history.append(message.model_dump(exclude_none=True, exclude={"parsed": True, "tool_calls": {"__all__": PARSED}}))
    for call in message.tool_calls or ():
        text = tool_text(call.function.name, json.loads(call.function.arguments))
        history.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return None if message.tool_calls else message.content


PARSED = {"function": {"parsed_arguments"}}


def responses_step(client: Any, history: list[Any], ask: Any, streamed: bool) -> str | None:
    request = {"model": "scripted", "input": history, "tools": task.responses_tools()}
    response = asked(client.responses, request, ask, streamed)
    history += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]
    calls = [item for item in response.output if item.type == "function_call"]
    for call in calls:
        text = tool_text(call.name, json.loads(call.arguments))
        history.append({"type": "function_call_output", "call_id": call.call_id, "output": text})
    return None if calls else response.output_text


def asked(api: Any, request: dict[str, Any], ask: Any, streamed: bool) -> Any:
    if not streamed:
        return ask(api.create(**request))
    if ask.__name__ == "run":
        return ask(streamed_async(api, request))
    with api.stream(**request) as stream:
        return (getattr(stream, "get_final_completion", None) or stream.get_final_response)()


async def streamed_async(api: Any, request: dict[str, Any]) -> Any:
    async with api.stream(**request) as stream:
        return await (getattr(stream, "get_final_completion", None) or stream.get_final_response)()


def tool_text(name: str, arguments: dict[str, Any]) -> str:
    try:
        return task.run_tool(name, arguments)
    except task.ToolFailure as failure:
        return f"Error: {failure}"


# ------------------------------------------------------------------------------------------ what else a client can do


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(lambda received: Say("Yes.")) as provider:
        yield provider


@pytest.fixture
def client(provider: Provider) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{provider.url}/v1", api_key="none") as client:
        yield client


LONG = run(40)
SHORT = Focus(lambda prompt: "Step: finish | Depends on: []", budget=20, **WHOLE_STEPS)


def test_a_history_the_server_holds_goes_through(client: Any, provider: Provider) -> None:
    items = [{"role": "user", "content": f"Question {number}?"} for number in range(40)]
    more = {"role": "assistant", "content": "An answer."}
    given = [item for question in items for item in (question, more)]
    focused(client, SHORT).responses.create(model="scripted", input=given, previous_response_id="resp_1")
    focused(client, SHORT).responses.create(model="scripted", input=given)
    focused(client, SHORT).responses.create(model="scripted", input="One question?")
    held, sent, text = provider.received
    assert held.messages == given
    assert len(sent.messages) < len(given)
    assert text.body["input"] == "One question?"


def test_copies_are_focused_and_the_client_itself_is_not(client: Any, provider: Provider) -> None:
    ours = focused(client, SHORT)
    for each in (client, ours, ours.with_options(timeout=5), ours.copy(max_retries=0).with_options(timeout=5)):
        each.chat.completions.create(model="scripted", messages=LONG)
    ours.chat.completions.with_raw_response.create(model="scripted", messages=LONG)
    lengths = [len(request.messages) for request in provider.received]
    assert lengths[0] == len(LONG)
    assert max(lengths[1:]) < 10


def test_azure_is_a_client_like_any_other(provider: Provider) -> None:
    with openai.AzureOpenAI(azure_endpoint=provider.url, api_key="none", api_version="2025-04-01-preview") as azure:
        focused(azure, SHORT).chat.completions.create(model="scripted", messages=LONG)
    assert "/deployments/scripted/" in provider.received[0].path
    assert len(provider.received[0].messages) < 10


def test_other_endpoints_go_through(client: Any) -> None:
    assert focused(client, SHORT).models.list().data[0].id == "scripted"


def test_sixty_conversations_in_turns(client: Any, provider: Provider) -> None:
    """With the same words at first: each request begins with the one before of its conversation, except at events."""
    ours = focused(client, Focus(lambda prompt: "Step: finish | Depends on: []", budget=1200, **WHOLE_STEPS))
    histories: list[list[Any]] = [[{"role": "user", "content": task.TASK}] for _ in range(60)]
    sent: list[list[Any]] = [[] for _ in histories]
    for turn in range(4):
        for number, history in enumerate(histories):
            words = f"{number}, {turn}: " + task.run_tool("trace_lot", {"page": 1 + turn, "lot": str(number)}) * 4
            answer = ours.chat.completions.create(model="scripted", messages=history).choices[0].message.content
            function = {"name": "trace_lot", "arguments": f'{{"page": {turn}, "lot": {number}}}'}
            call = {"id": f"call_{turn}", "type": "function", "function": function}
            history.append({"role": "assistant", "content": answer, "tool_calls": [call]})
            history.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": words})
            sent[number].append(provider.received[-1].messages)
    assert not provider.rejected
    moves = sum(before != after[: len(before)] for one in sent for before, after in pairwise(one))
    assert moves == sum(event.happened for event in ours.focusctx.events) >= 60
    assert len(ours.focusctx.conversations) == 60
    for number, history in enumerate(histories):
        assert all(message in history for message in sent[number][-1])


def test_copies_share_what_they_are_looked_at_by(client: Any) -> None:
    ours = focused(client, SHORT, tenant=lambda caller: "acme")
    ours.with_options(timeout=5).chat.completions.create(model="scripted", messages=LONG)
    assert [conversation.tenant for conversation in ours.focusctx.conversations] == ["acme"]
    assert ours.copy().focusctx is ours.focusctx
    assert ours.focusctx.savings.tokens_saved > 0
