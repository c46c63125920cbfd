"""Asking a model through the drafts there are."""

import pytest
from aiohttp import web

from focusctx.baselines.drafts import patient
from focusctx.drafts import ScriptedDraft
from focusctx.errors import ConfigError, DraftError, DraftRefused
from focusctx.types import Reply, Usage
from focusctx_bench.baselines.summary import ask_from


class Priced(ScriptedDraft):
    name = "openai:gpt-4.1-mini"


async def test_one_question_one_answer_with_its_cost() -> None:
    draft = Priced([Reply("Yes.", Usage(1, 1000, 100))])
    reply = await ask_from(draft)("You answer.", "Is it so?")
    assert reply.text == "Yes."
    assert reply.usage == Usage(1, 1000, 100, pytest.approx(0.00056))
    assert [(prompt.system, prompt.user, prompt.temperature, prompt.seed) for prompt in draft.prompts] == [
        ("You answer.", "Is it so?", 0.0, 42)
    ]


async def test_a_model_without_a_price_has_an_unknown_cost() -> None:
    reply = await ask_from(ScriptedDraft([Reply("Yes.", Usage(1, 1000, 100))]))("", "?")
    assert reply.usage.cost is None


async def test_any_function_is_a_model() -> None:
    assert (await ask_from(lambda prompt: prompt.user.upper())("", "so?")).text == "SO?"


async def test_seeds_differ_only_where_they_matter() -> None:
    for temperature, seeds in ((0.0, [42, 42]), (1.0, [42, 43])):
        draft = ScriptedDraft(["Yes."])
        ask = ask_from(draft, temperature=temperature)
        await ask("", "?")
        await ask("", "?")
        assert [prompt.seed for prompt in draft.prompts] == seeds


async def test_a_failure_is_an_error() -> None:
    with pytest.raises(DraftError, match="bad key"):
        await ask_from(ScriptedDraft([DraftRefused("bad key")]))("", "?")
    with pytest.raises(DraftError, match=r"within 0\.01 s"):
        await ask_from(ScriptedDraft(["Yes."], delay=5), deadline=0.01)("", "?")


def test_the_offline_draft_writes_nothing() -> None:
    with pytest.raises(ConfigError, match="offline"):
        ask_from("offline")


async def test_a_busy_server_is_waited_for() -> None:
    asked = 0

    async def handle(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked < 6:  # a draft that an agent waits for gives up after the third
            return web.json_response({"error": {"message": "busy"}}, status=429, headers={"Retry-After": "0"})
        return web.json_response({"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        assert (await ask_from(f"openai:some-model@{url}")("You answer.", "?")).text == "Yes."
    finally:
        await runner.cleanup()


def test_a_model_that_was_given_as_an_object_is_left_as_it_is() -> None:
    given = ScriptedDraft(["Yes."])
    assert patient(given) is given
