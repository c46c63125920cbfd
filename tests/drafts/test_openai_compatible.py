import asyncio
from dataclasses import replace

import pytest
from aiohttp import web

from focusctx.drafts import OpenAICompatibleDraft
from focusctx.errors import ConfigError, DraftRefused, DraftUnavailable
from focusctx.types import Usage


def choice(text="plan", **fields):
    return {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"} | fields


def chat(*choices, **fields):
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return {
        "id": "c",
        "object": "chat.completion",
        "choices": list(choices) or [choice()],
        "usage": usage,
    } | fields


def refuse(message, param=None, code="unsupported_parameter", status=400):
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return web.json_response({"error": error}, status=status)


TEMPERATURE = (
    "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is supported."
)
MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)


async def test_one_request_for_all_where_the_server_can(serve, prompt, collect):
    server = await serve(lambda body: chat(*(choice(f"plan {k}") for k in range(body["n"]))))
    draft = OpenAICompatibleDraft("gpt", base_url=f"{server.url}/v1/", api_key="sk-key")
    replies, error = await collect(draft, prompt, 3)
    assert error is None
    assert [reply.text for reply in replies] == ["plan 0", "plan 1", "plan 2"]
    assert [reply.usage for reply in replies] == [Usage(1, 100, 10), Usage(), Usage()]
    assert server.bodies == [
        {
            "model": "gpt",
            "messages": [
                {"role": "system", "content": "You plan."},
                {"role": "user", "content": "Plan the rest."},
            ],
            "temperature": 0.7,
            "seed": 42,
            "max_tokens": 1024,
            "n": 3,
        }
    ]
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["Authorization"] == "Bearer sk-key"


async def test_a_single_sketch_needs_no_n(serve, prompt, collect):
    server = await serve(lambda body: chat())
    await collect(OpenAICompatibleDraft("gpt", base_url=server.url), prompt, 1)
    assert "n" not in server.bodies[0]


async def test_choices_nobody_asked_for_are_left(serve, prompt, collect):
    server = await serve(lambda body: chat(*(choice(f"plan {k}") for k in range(5))))
    replies, _ = await collect(OpenAICompatibleDraft("gpt", base_url=server.url), prompt, 3)
    assert len(replies) == 3


async def test_a_server_that_ignores_n_is_topped_up_and_remembered(serve, prompt, collect):
    server = await serve(lambda body: chat())
    draft = OpenAICompatibleDraft("gpt", base_url=server.url)
    replies, error = await collect(draft, prompt, 3)
    assert error is None
    assert sum((reply.usage for reply in replies), Usage()) == Usage(3, 300, 30)
    assert [body.get("n") for body in server.bodies] == [3, None, None]
    assert sorted(body["seed"] for body in server.bodies) == [42, 43, 44]
    server.bodies.clear()
    assert len((await collect(draft, prompt, 3))[0]) == 3
    assert [body.get("n") for body in server.bodies] == [None] * 3
    assert sorted(body["seed"] for body in server.bodies) == [42, 43, 44]


@pytest.mark.parametrize(
    "refusal",
    [
        lambda: refuse("'n' : number must be at most 1", param="n"),
        lambda: refuse("'n' : number must be at most 1"),
        lambda: web.json_response(
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "n"], "msg": "Extra inputs are not permitted"}]},
            status=422,
        ),
        lambda: web.Response(status=400, text="n > 1 is not supported"),
    ],
)
async def test_a_server_that_refuses_n_is_asked_in_parallel(refusal, serve, prompt, collect):
    async def behave(body):
        if "n" in body:
            return refusal()
        # None answers before all three are there: they were sent at the same time.
        while len(server.bodies) < 4:
            await asyncio.sleep(0.005)
        return chat()

    server = await serve(behave)
    draft = OpenAICompatibleDraft("gpt", base_url=server.url)
    replies, error = await collect(draft, prompt, 3)
    assert error is None
    assert len(replies) == 3
    await collect(draft, prompt, 3)
    assert [body.get("n") for body in server.bodies] == [3] + [None] * 6


async def test_n_can_be_switched_off(serve, prompt, collect):
    server = await serve(lambda body: chat())
    assert len((await collect(OpenAICompatibleDraft("m", base_url=server.url, sends_n=False), prompt, 3))[0]) == 3
    assert all("n" not in body for body in server.bodies)


async def test_a_refused_temperature_is_left_out_from_then_on(serve, prompt, collect):
    server = await serve(
        lambda body: refuse(TEMPERATURE, "temperature", "unsupported_value") if "temperature" in body else chat()
    )
    draft = OpenAICompatibleDraft("o", base_url=server.url)
    assert (await collect(draft, prompt, 1))[1] is None
    assert (await collect(draft, prompt, 1))[1] is None
    assert ["temperature" in body for body in server.bodies] == [True, False, False]


async def test_max_tokens_gets_its_new_name(serve, prompt, collect):
    server = await serve(lambda body: refuse(MAX_TOKENS, "max_tokens") if "max_tokens" in body else chat())
    draft = OpenAICompatibleDraft("o", base_url=server.url)
    for _ in range(2):
        assert (await collect(draft, prompt, 1))[1] is None
    assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 1024, 1024]


async def test_a_gateway_without_param_in_its_errors(serve, prompt, collect):
    server = await serve(lambda body: refuse(MAX_TOKENS) if "max_tokens" in body else chat())
    assert (await collect(OpenAICompatibleDraft("o", base_url=server.url), prompt, 1))[1] is None
    assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 1024]


async def test_the_first_parameter_named_is_the_one_left_out(serve, prompt, collect):
    text = "`seed` cannot be combined with `temperature` and `max_tokens`"
    server = await serve(lambda body: refuse(text) if "seed" in body else chat())
    assert (await collect(OpenAICompatibleDraft("o", base_url=server.url), prompt, 1))[1] is None
    assert server.bodies[0].keys() - server.bodies[1].keys() == {"seed"}


async def test_a_model_that_takes_next_to_nothing(serve, prompt, collect):
    known = {"model", "messages"}

    def strict(body):
        extra = [name for name in body if name not in known]
        return refuse(f"Unknown parameter: '{extra[0]}'.", extra[0], "unknown_parameter") if extra else chat()

    server = await serve(strict)
    replies, error = await collect(OpenAICompatibleDraft("o", base_url=server.url), prompt, 3)
    assert error is None
    assert len(replies) == 3
    assert set(server.bodies[-1]) == known


async def test_parallel_requests_that_learn_the_same_thing(serve, prompt, collect):
    server = await serve(lambda body: refuse(MAX_TOKENS, "max_tokens") if "max_tokens" in body else chat())
    draft = OpenAICompatibleDraft("o", base_url=server.url, sends_n=False)
    replies, error = await collect(draft, prompt, 3)
    assert error is None
    assert len(replies) == 3
    assert [body["max_completion_tokens"] for body in server.bodies[3:]] == [1024] * 3


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("The model `m` does not exist", "model"),
        ("Invalid 'messages[0].content': try another temperature", "messages[0].content"),
        ("'max_tokens' is too large: 1024. This model's maximum context length is 900 tokens", None),
        ("max_tokens: the request does not fit", "context_length"),
        ("Nothing in particular\\n'x'", None),
    ],
)
async def test_other_refusals_are_final(message, param, serve, prompt, collect):
    server = await serve(lambda body: refuse(message, param))
    _, error = await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 3)
    assert isinstance(error, DraftRefused)
    assert len(server.bodies) == 1


async def test_what_the_user_asks_for_is_sent_and_never_left_out(serve, prompt, collect):
    server = await serve(lambda body: refuse(TEMPERATURE, "temperature"))
    extra = {"temperature": 0.2, "max_completion_tokens": 4096, "reasoning_effort": "low"}
    _, error = await collect(OpenAICompatibleDraft("m", base_url=server.url, extra_body=extra), prompt, 1)
    assert isinstance(error, DraftRefused)
    (body,) = server.bodies
    assert {name: body[name] for name in extra} == extra
    assert "max_tokens" not in body


async def test_no_tools_are_ever_sent(serve, prompt, collect):
    server = await serve(lambda body: chat())
    await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 3)
    for body in server.bodies:
        assert not {"tools", "tool_choice", "functions", "function_call"} & body.keys()


async def test_one_of_three_fails(serve, prompt, collect):
    server = await serve(lambda body: refuse("no", "messages") if body["seed"] == 43 else chat())
    draft = OpenAICompatibleDraft("m", base_url=server.url, sends_n=False)
    replies, error = await collect(draft, prompt, 3)
    assert len(replies) == 2
    assert isinstance(error, DraftRefused)


async def test_replies_come_as_soon_as_they_are_there(serve, prompt):
    gate = asyncio.Event()

    async def behave(body):
        if body["seed"] != 44:
            await gate.wait()
        return chat(choice(f"seed {body['seed']}"))

    server = await serve(behave)
    sample = OpenAICompatibleDraft("m", base_url=server.url, sends_n=False).sample(prompt, 3)
    assert (await anext(sample)).text == "seed 44"
    gate.set()
    assert {reply.text async for reply in sample} == {"seed 42", "seed 43"}


@pytest.mark.parametrize(
    ("answer", "text", "truncated"),
    [
        (choice(None), "", False),
        (choice(None, finish_reason="length"), "", True),
        (choice("half a pl", finish_reason="length"), "half a pl", True),
        (choice("sorry", finish_reason="content_filter"), "sorry", False),
        (choice("", message={"content": "", "reasoning_content": "Depends on: [s_1]"}), "", False),
        (choice("", message={"role": "assistant", "refusal": "no"}), "", False),
        (
            choice(
                "",
                message={"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "plan"}]},
            ),
            "plan",
            False,
        ),
    ],
)
async def test_contents_of_every_kind(answer, text, truncated, serve, prompt, collect):
    server = await serve(lambda body: chat(answer))
    replies, error = await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 1)
    assert error is None
    assert (replies[0].text, replies[0].truncated) == (text, truncated)


@pytest.mark.parametrize("answer", [chat(choices=[]), chat(choices=None), {"error": {"message": "upstream"}}])
async def test_no_choices(answer, serve, prompt, collect):
    server = await serve(lambda body: answer)
    replies, error = await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 3)
    assert replies == []
    assert isinstance(error, DraftUnavailable)
    assert "sent no choices" in str(error)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage(1, cost=None)),
        ({"prompt_tokens": 5}, Usage(1, 5, 0)),
        ({"prompt_tokens": None, "completion_tokens": "7"}, Usage(1)),
    ],
)
async def test_usage(usage, expected, serve, prompt, collect):
    server = await serve(lambda body: chat(usage=usage))
    replies, _ = await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 1)
    assert replies[0].usage == expected


async def test_the_prompt_is_not_altered_on_its_way(serve, prompt, collect):
    text = 'ünï "quotes" \\ \u2028 \x00 😀\r\n'
    server = await serve(lambda body: chat())
    await collect(OpenAICompatibleDraft("m", base_url=server.url), replace(prompt, user=text), 1)
    assert server.bodies[0]["messages"][1]["content"] == text


def test_keys_and_urls_of_the_environment(monkeypatch):
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        OpenAICompatibleDraft("gpt")
    monkeypatch.setenv("OPENAI_API_KEY", " sk-env\n")
    draft = OpenAICompatibleDraft("gpt")
    assert draft.name == "openai:gpt"
    assert draft.endpoint.url == "https://api.openai.com/v1/chat/completions"
    assert draft.endpoint.headers == {"Authorization": "Bearer sk-env"}
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    draft = OpenAICompatibleDraft("gpt", api_key="sk-mine")
    assert draft.name == "openai:gpt@http://127.0.0.1:1/v1"
    assert draft.endpoint.headers == {"Authorization": "Bearer sk-mine"}
    assert OpenAICompatibleDraft("gpt", api_key="").endpoint.headers == {}


async def test_requests_are_legal_by_the_sdks_own_types(serve, prompt, collect):
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    legal = TypeAdapter(CompletionCreateParamsNonStreaming)
    refused = web.json_response({"error": {"message": "no max_tokens here", "param": "max_tokens"}}, status=400)
    server = await serve(lambda body: refused if "max_tokens" in body else chat())
    await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 1)
    assert ["max_tokens" in body for body in server.bodies] == [True, False]
    for body in server.bodies:
        legal.validate_python(body)
        assert body.keys() <= CompletionCreateParamsNonStreaming.__annotations__.keys()


@pytest.mark.parametrize("model", ["gpt-5-mini", "gpt-5.6-luna", "o4-mini", "openai/gpt-5-nano"])
async def test_a_reasoning_model_gets_room_to_think(model, serve, prompt, collect):
    server = await serve(lambda body: chat())
    _, error = await collect(OpenAICompatibleDraft(model, base_url=server.url), prompt, 1)
    (body,) = server.bodies
    assert error is None
    assert body["reasoning_effort"] == "low"
    assert body["max_completion_tokens"] == prompt.max_tokens + 3072
    assert "max_tokens" not in body


async def test_a_model_that_refuses_to_be_told_how_to_reason_is_not_told(serve, prompt, collect):
    server = await serve(
        lambda body: refuse("no such thing", "reasoning_effort") if "reasoning_effort" in body else chat()
    )
    replies, error = await collect(OpenAICompatibleDraft("gpt-5-chat", base_url=server.url), prompt, 1)
    assert (len(replies), error) == (1, None)


@pytest.mark.parametrize("model", ["qwen3-8b", "Qwen/Qwen3-14B", "qwen3.5-27b"])
async def test_qwen3_is_told_not_to_think_and_has_room_if_it_does(model, serve, prompt, collect):
    server = await serve(lambda body: chat())
    await collect(OpenAICompatibleDraft(model, base_url=server.url), prompt, 1)
    (body,) = server.bodies
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["max_tokens"] == prompt.max_tokens + 3072
    assert "reasoning_effort" not in body


async def test_qwen3_on_openrouter_is_told_in_openrouters_words(serve, prompt, collect):
    server = await serve(lambda body: chat())
    await collect(OpenAICompatibleDraft("qwen/qwen3-8b", base_url=f"{server.url}/openrouter.ai/api/v1"), prompt, 1)
    (body,) = server.bodies
    assert body["reasoning"] == {"effort": "none"}
    assert "chat_template_kwargs" not in body


async def test_a_server_that_refuses_the_switch_is_asked_without_it(serve, prompt, collect):
    server = await serve(
        lambda body: refuse("Unrecognized", "chat_template_kwargs") if "chat_template_kwargs" in body else chat()
    )
    replies, error = await collect(OpenAICompatibleDraft("qwen3-8b", base_url=server.url), prompt, 1)
    assert (len(replies), error) == (1, None)
    assert server.bodies[-1]["max_tokens"] == prompt.max_tokens + 3072


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "gpt-oss-20b", "qwen2.5-7b", "qwen-max", "olmo-2"])
async def test_other_models_are_asked_as_ever(model, serve, prompt, collect):
    server = await serve(lambda body: chat())
    await collect(OpenAICompatibleDraft(model, base_url=server.url), prompt, 1)
    assert "reasoning_effort" not in server.bodies[0]
    assert server.bodies[0]["max_tokens"] == prompt.max_tokens
