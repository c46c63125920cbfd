"""The scripted provider is read by the real SDKs, and the long task runs to its end against it."""

import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import ClientSession

from helpers import sdk_agents, task
from helpers.provider import Call, Provider, Received, Say
from helpers.sdk_types import sdk_errors

EXPECTED = [(call.name, call.arguments) for step in range(1, task.STEPS + 1) for call in task.turn(step).calls]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(task.model) as provider:
        yield provider


def check(run: sdk_agents.Run, provider: Provider, format: str) -> None:
    assert run.calls == EXPECTED
    assert run.final == [task.FINAL]
    assert provider.rejected == []
    assert [received.format for received in provider.received] == [format] * (task.STEPS + 1)
    assert provider.received[-1].messages == run.history[:-1]
    assert sdk_errors(run.history, format) == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("format", sdk_agents.FORMATS)
def test_an_sdk_does_the_long_task(provider: Provider, format: str, stream: bool) -> None:
    check(sdk_agents.run_sync(format, provider.url, stream=stream), provider, format)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("format", sdk_agents.FORMATS)
async def test_an_async_sdk_does_the_long_task(provider: Provider, format: str, stream: bool) -> None:
    check(await sdk_agents.run_async(format, provider.url, stream=stream), provider, format)


TALK = Say(
    "Both at once: naïve ☃ text.", (Call("look", {"at": "the “left”"}), Call("look", {"at": ""}, id="mine")), "Hm."
)


def talk(received: Received) -> Say:
    return TALK


def test_a_chat_stream_tells_usage_only_when_asked() -> None:
    with Provider(talk) as provider, openai.OpenAI(base_url=f"{provider.url}/v1", api_key="key") as client:
        said: Any = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
        plain = list(client.chat.completions.create(**said, stream=True))
        counted = list(client.chat.completions.create(**said, stream=True, stream_options={"include_usage": True}))
        answer = client.chat.completions.create(**said)
    assert {chunk.usage for chunk in plain} == {None}
    assert counted[-1].choices == []
    assert counted[-1].usage is not None
    assert answer.usage is not None
    assert counted[-1].usage.completion_tokens == answer.usage.completion_tokens
    assert "".join(chunk.choices[0].delta.content or "" for chunk in plain) == TALK.text
    calls: list[Any] = answer.choices[0].message.tool_calls or []
    assert [json.loads(call.function.arguments) for call in calls] == [call.arguments for call in TALK.calls]
    assert calls[1].id == "mine"
    assert calls[0].id


def test_a_responses_stream_numbers_its_events_and_items() -> None:
    with Provider(talk, chunk=3) as provider, openai.OpenAI(base_url=f"{provider.url}/v1", api_key="key") as client:
        events = list(client.responses.create(model="m", input="go", stream=True))
        response = client.responses.create(model="m", input="go")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    last = events[-1]
    assert last.type == "response.completed"
    assert [item.type for item in last.response.output] == ["reasoning", "message", "function_call", "function_call"]
    done = [event for event in events if event.type == "response.output_item.done"]
    assert [event.output_index for event in done] == [0, 1, 2, 3]
    assert [event.item for event in done] == last.response.output
    assert response.output_text == TALK.text
    deltas = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    assert deltas == "".join(json.dumps(call.arguments) for call in TALK.calls)


def test_an_anthropic_stream_opens_and_closes_every_block() -> None:
    with Provider(talk, chunk=3) as provider, anthropic.Anthropic(base_url=provider.url, api_key="key") as client:
        said: Any = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "go"}]}
        events = list(client.messages.create(**said, stream=True))
        message = client.messages.create(**said)
        with client.messages.stream(**said) as stream:
            streamed = stream.get_final_message()
        counted = client.messages.count_tokens(model="m", messages=said["messages"])
        models = client.models.list()
    assert [event.type for event in events if event.type.startswith("message")] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    for kind in ("content_block_start", "content_block_stop"):
        assert [event.index for event in events if event.type == kind] == [0, 1, 2, 3]
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    blocks = [block.model_dump(exclude={"id", "signature", "parsed_output"}) for block in message.content]
    assert blocks == [block.model_dump(exclude={"id", "signature", "parsed_output"}) for block in streamed.content]
    assert streamed.stop_reason == "tool_use"
    assert counted.input_tokens > 0
    assert [model.id for model in models] == ["scripted"]


ORPHANS = {
    "chat_completions": {"role": "tool", "tool_call_id": "gone", "content": "lost"},
    "responses": {"type": "function_call_output", "call_id": "gone", "output": "lost"},
    "anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "gone", "content": "lost"}]},
}


@pytest.mark.parametrize("format", sdk_agents.FORMATS)
def test_a_history_that_breaks_a_rule_is_refused(format: str) -> None:
    history: Any = [{"role": "user", "content": "go"}, ORPHANS[format]]
    with Provider(talk) as provider:
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as refusal:
            ask(provider, format, history)
        assert len(provider.rejected) == 1
        assert provider.rejected[0] in str(refusal.value)


def ask(provider: Provider, format: str, history: Any, **more: Any) -> None:
    openai_client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="key")
    with openai_client, anthropic.Anthropic(base_url=provider.url, api_key="key") as anthropic_client:
        if format == "chat_completions":
            openai_client.chat.completions.create(model="m", messages=history, **more)
        elif format == "responses":
            openai_client.responses.create(model="m", input=history, **more)
        else:
            anthropic_client.messages.create(model="m", max_tokens=9, messages=history, **more)


def test_the_calls_of_a_response_before_need_not_be_shown() -> None:
    with Provider(talk) as provider:
        ask(provider, "responses", [ORPHANS["responses"]], previous_response_id="resp_1")
        assert provider.rejected == []


async def test_responses_are_spoken_over_a_websocket_too() -> None:
    def ask(**more: Any) -> dict[str, Any]:
        return {"type": "response.create", "model": "m", "input": [{"role": "user", "content": "go"}], **more}

    with Provider(talk) as provider:
        async with ClientSession() as client, client.ws_connect(f"{provider.url}/v1/responses") as socket:
            for request in (ask(generate=False), ask()):
                await socket.send_json(request)
                events = [await socket.receive_json()]
                while events[-1]["type"] != "response.completed":
                    events.append(await socket.receive_json())
            await socket.send_json(ask(input=[ORPHANS["responses"]]))
            refusal = await socket.receive_json()
        assert [received.format for received in provider.received] == ["responses"] * 3
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "function_call"]
    assert refusal["type"] == "error"


def test_a_custom_tool_is_given_plain_text() -> None:
    def custom(received: Received) -> Say:
        return Say(calls=(Call("exec", {}, custom="text('a \"b\"')"),))

    with Provider(custom) as provider, openai.OpenAI(base_url=f"{provider.url}/v1", api_key="key") as client:
        with client.responses.stream(model="m", input="go") as events:
            streamed = events.get_final_response().output[0]
        said = client.responses.create(model="m", input="go").output[0]
    assert streamed.type == said.type == "custom_tool_call"
    assert streamed.input == said.input == "text('a \"b\"')"


async def test_other_paths_come_back_as_they_were_and_bodies_are_decoded() -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "go"}]}).encode()
    with Provider(talk) as provider:
        async with ClientSession() as client:
            async with client.put(f"{provider.url}/v1/files/7?x=1", data=b"as it is", headers={"X-A": "b"}) as echo:
                said = await echo.json()
            for encoding, packed in {"gzip": gzip.compress(body), "deflate": zlib.compress(body)}.items():
                url = f"{provider.url}/v1/chat/completions"
                async with client.post(url, data=packed, headers={"Content-Encoding": encoding}) as answer:
                    assert answer.status == 200
                    assert "x-ratelimit-limit-requests" in answer.headers
                    assert "x-request-id" in answer.headers
        assert [received.raw for received in provider.received] == [body, body]
    assert (said["method"], said["path"], said["body"]) == ("PUT", "/v1/files/7?x=1", "as it is")
    assert said["headers"]["x-a"] == "b"


def test_an_error_in_the_model_is_not_lost() -> None:
    def lost(received: Received) -> Say:
        raise LookupError("no such step")

    with (
        pytest.raises(LookupError),
        Provider(lost) as provider,
        openai.OpenAI(base_url=f"{provider.url}/v1", api_key="key", max_retries=0) as client,
        pytest.raises(openai.InternalServerError),
    ):
        client.responses.create(model="m", input="go")


def test_the_task_goes_on_from_the_newest_step_alone() -> None:
    def shown(*texts: str) -> Received:
        messages = [{"role": "user", "content": task.TASK}, *({"role": "tool", "content": text} for text in texts)]
        return Received("POST", "/v1/chat/completions", {}, b"", {"messages": messages})

    assert task.model(shown()) == task.turn(1)
    assert task.model(shown("Page 3 of 30.", "Page 11 of 30.")) == task.turn(12)
    with pytest.raises(task.ToolFailure) as failure:
        task.run_tool("read_page", {"page": task.FAILING})
    assert task.model(shown(f"Tool error: {failure.value}")) == task.turn(task.FAILING + 1)
    assert task.model(shown("Page 30 of 30.")) == Say(task.FINAL)
