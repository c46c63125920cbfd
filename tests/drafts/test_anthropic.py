import asyncio
from dataclasses import replace

import pytest
from aiohttp import web

from focusctx.drafts import AnthropicDraft
from focusctx.errors import ConfigError, DraftRefused, DraftUnavailable
from focusctx.types import Usage


def message(*blocks, **fields):
    content = list(blocks) or [{"type": "text", "text": "plan"}]
    usage = {"input_tokens": 100, "output_tokens": 10}
    return {"type": "message", "content": content, "stop_reason": "end_turn", "usage": usage} | fields


def refuse(text):
    error = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": text},
        "request_id": "req_1",
    }
    return web.json_response(error, status=400)


async def test_n_requests_at_once(serve, prompt, collect):
    async def behave(body):
        while len(server.bodies) < 3:
            await asyncio.sleep(0.005)
        return message()

    server = await serve(behave)
    draft = AnthropicDraft("claude", base_url=server.url, api_key="key")
    replies, error = await collect(draft, prompt, 3)
    assert error is None
    assert [(reply.text, reply.usage, reply.truncated) for reply in replies] == [("plan", Usage(1, 100, 10), False)] * 3
    assert server.bodies == 3 * [
        {
            "model": "claude",
            "max_tokens": 1024,
            "system": "You plan.",
            "messages": [{"role": "user", "content": "Plan the rest."}],
            "temperature": 0.7,
            "thinking": {"type": "disabled"},
        }
    ]
    request = server.requests[0]
    assert request.path == "/v1/messages"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.headers["x-api-key"] == "key"
    assert "Authorization" not in request.headers


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("`temperature` is deprecated for this model.", "temperature"),
        ("temperature: Extra inputs are not permitted", "temperature"),
        (
            '"thinking.type.disabled" is not supported for this model. Thinking defaults to adaptive mode '
            'when not specified; use "thinking.type.enabled" with "budget_tokens" for extended thinking.',
            "thinking",
        ),
    ],
)
async def test_what_a_model_refuses_is_left_out_from_then_on(text, name, serve, prompt, collect):
    server = await serve(lambda body: refuse(text) if name in body else message())
    draft = AnthropicDraft("claude", base_url=server.url)
    for _ in range(2):
        replies, error = await collect(draft, prompt, 2)
        assert (len(replies), error) == (2, None)
    assert [name in body for body in server.bodies] == [True, True, False, False, False, False]


@pytest.mark.parametrize("text", ["max_tokens: 1024 > 512, the maximum", "prompt is too long: 9 tokens > 8 maximum"])
async def test_other_refusals_are_final(text, serve, prompt, collect):
    server = await serve(lambda body: refuse(text))
    _, error = await collect(AnthropicDraft("claude", base_url=server.url), prompt, 1)
    assert isinstance(error, DraftRefused)
    assert text in str(error)
    assert len(server.bodies) == 1


async def test_the_text_is_that_of_the_text_blocks(serve, prompt, collect):
    blocks = [
        {"type": "thinking", "thinking": "Depends on: [s_9]", "signature": "x"},
        {"type": "text", "text": "Step: a"},
        {"type": "text", "text": "\nStep: b"},
    ]
    server = await serve(lambda body: message(*blocks, stop_reason="max_tokens"))
    replies, _ = await collect(AnthropicDraft("claude", base_url=server.url), prompt, 1)
    assert replies[0].text == "Step: a\nStep: b"
    assert replies[0].truncated


async def test_cached_input_is_input(serve, prompt, collect):
    usage = {
        "input_tokens": 1,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 300,
        "output_tokens": 4,
    }
    server = await serve(lambda body: message(usage=usage))
    replies, _ = await collect(AnthropicDraft("claude", base_url=server.url), prompt, 1)
    assert replies[0].usage == Usage(1, 321, 4)


async def test_an_answer_without_usage_has_no_known_cost(serve, prompt, collect):
    server = await serve(lambda body: message(usage=None))
    replies, _ = await collect(AnthropicDraft("claude", base_url=server.url), prompt, 1)
    assert replies[0].usage == Usage(1, cost=None)


async def test_one_of_three_fails(serve, prompt, collect):
    server = await serve(lambda body, number: {"odd": 1} if number == 1 else message())
    replies, error = await collect(AnthropicDraft("claude", base_url=server.url), prompt, 3)
    assert len(replies) == 2
    assert isinstance(error, DraftUnavailable)
    assert "sent no content" in str(error)


async def test_no_tools_and_no_more_heat_than_is_legal(serve, prompt, collect):
    server = await serve(lambda body: message())
    await collect(AnthropicDraft("claude", base_url=server.url), replace(prompt, temperature=1.4), 2)
    for body in server.bodies:
        assert body["temperature"] == 1.0
        assert not {"tools", "tool_choice"} & body.keys()


async def test_what_the_user_asks_for_is_sent_and_never_left_out(serve, prompt, collect):
    server = await serve(lambda body: refuse("thinking: not so"))
    extra = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}, "max_tokens": 4096}
    _, error = await collect(AnthropicDraft("claude", base_url=server.url, extra_body=extra), prompt, 1)
    assert isinstance(error, DraftRefused)
    (body,) = server.bodies
    assert {name: body[name] for name in extra} == extra


def test_keys_and_urls_of_the_environment(monkeypatch):
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        AnthropicDraft("claude")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    assert AnthropicDraft("claude").endpoint.headers["Authorization"] == "Bearer token"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    draft = AnthropicDraft("claude")
    assert draft.name == "anthropic:claude"
    assert draft.endpoint.url == "https://api.anthropic.com/v1/messages"
    assert draft.endpoint.headers == {"anthropic-version": "2023-06-01", "x-api-key": "key"}
    assert "x-api-key" not in AnthropicDraft("claude", base_url="http://127.0.0.1:1", api_key="").endpoint.headers
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/v1/")
    assert AnthropicDraft("claude").endpoint.url == "http://127.0.0.1:1/v1/messages"


async def test_requests_are_legal_by_the_sdks_own_types(serve, prompt, collect):
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
    from pydantic import TypeAdapter

    server = await serve(lambda body: message())
    await collect(AnthropicDraft("claude", base_url=server.url), prompt, 1)
    (body,) = server.bodies
    # The SDK speaks version 2026-10-21, which has no temperature any more; we ask for 2023-06-01, which has.
    assert body.keys() - {"temperature"} <= MessageCreateParamsNonStreaming.__annotations__.keys()
    TypeAdapter(MessageCreateParamsNonStreaming).validate_python(body)
