"""Asking again goes wrong in many ways; the agent gets an answer that its SDK understands in each."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from focusctx.proxy.recall import rounds
from focusctx.proxy.recall.rounds import LaterRefusal, turn_for
from focusctx.types import Message
from proxy.recall.harness import (
    FORMATS,
    OTHER,
    RECALL,
    TASK,
    Play,
    Sent,
    anthropic_client,
    openai_client,
    seen,
    stream_of,
    whole_of,
)
from spoken import Say

REFUSAL = {
    "chat_completions": {"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}},
    "responses": {"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}},
    "anthropic": {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}},
}

every_format = pytest.mark.parametrize("format", FORMATS)


def refused(format: str) -> Sent:
    return Sent(json.dumps(REFUSAL[format]).encode(), ok=False)


def check_error(format: str, body: bytes, message: str) -> None:
    """The SDK tells its agent of an error in the stream."""
    reply = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: reply))
    messages: Any = [TASK]
    if format == "anthropic":
        with (
            anthropic_client(http).messages.stream(model="m", max_tokens=9, messages=messages) as events,
            pytest.raises(anthropic.APIError, match=message),
        ):
            events.get_final_message()
    elif format == "chat_completions":
        with pytest.raises(openai.APIError, match=message):
            list(openai_client(http).chat.completions.create(model="m", messages=messages, stream=True))
    else:
        *_, last = openai_client(http).responses.create(model="m", input="x", stream=True)
        assert isinstance(last, openai.types.responses.ResponseFailedEvent)
        assert last.response.error is not None
        assert last.response.error.message == message


@every_format
async def test_a_refused_round_after_a_text_ends_as_the_provider_s_errors_do(format: str) -> None:
    rounds = [Sent(stream_of(Say("Let me see.", (RECALL,)), format)), refused(format)]
    played = await Play(format, rounds).stream()
    assert b"Let" in played.body
    check_error(format, played.body, "slow down")


@every_format
async def test_an_agent_that_was_shown_nothing_can_be_given_the_refusal_itself(format: str) -> None:
    silent = stream_of(Say("", (RECALL,)), format)
    if format == "chat_completions":  # as OpenAI does it: the first chunk has the first call
        head, role, rest = silent.partition(b'"delta":{"role":"assistant","content":null,"refusal":null}')
        assert role
        silent = rest.partition(b"\n\n")[2]
        assert head
    player = Play(format, [Sent(silent), refusal := refused(format)])
    with pytest.raises(LaterRefusal) as raised:
        await player.stream()
    assert raised.value.answer is refusal
    assert raised.value.body == refusal.body


@every_format
@pytest.mark.parametrize("text", ["Let me see.", ""])
async def test_a_provider_that_cannot_be_reached_again(format: str, text: str) -> None:
    player = Play(format, [Sent(stream_of(Say(text, (RECALL,)), format))])

    def unreachable(extra: list[Message], *, offer_tool: bool) -> AbstractAsyncContextManager[Sent]:
        raise ConnectionRefusedError("nobody there")

    pieces = [piece async for piece in rounds.stream(turn_for(format), first(player), unreachable, player.recall)]
    check_error(format, b"".join(pieces), "the provider broke off its answer")


@every_format
@pytest.mark.parametrize("sizes", [(1 << 20,), (7,)])
async def test_a_later_round_that_breaks_off(format: str, sizes: tuple[int, ...]) -> None:
    half = stream_of(Say("And now", (OTHER,)), format, 2)[:1500]
    rounds = [Sent(stream_of(Say("Let me see.", (RECALL,)), format)), Sent(half, sizes, breaks_off=True)]
    played = await Play(format, rounds).stream()
    check_error(format, played.body, "the provider broke off its answer")


@every_format
async def test_a_first_round_that_breaks_off_does_so_for_the_agent(format: str) -> None:
    sent = Sent(stream_of(Say("Let me see."), format)[:-20], breaks_off=True)
    player = Play(format, [sent])
    shown = rounds.stream(player.played.turn, sent, player.ask_again, player.recall)
    assert sent.body.startswith(await anext(shown))
    with pytest.raises(ConnectionResetError):
        await anext(shown)


@every_format
async def test_a_refused_round_of_an_answer_that_is_not_streamed(format: str) -> None:
    player = Play(format, [Sent(whole_of(Say("Hm.", (RECALL,)), format)), refusal := refused(format)])
    played = await player.whole()
    assert (played.answer, played.body) == (refusal, refusal.body)


@every_format
async def test_a_recall_that_fails_is_answered_all_the_same(format: str, caplog: pytest.LogCaptureFixture) -> None:
    player = Play(format, [Sent(stream_of(say, format)) for say in (Say("", (RECALL,)), Say("Done."))])

    async def forgetful(query: str) -> str:
        raise RuntimeError("no memory")

    pieces = [piece async for piece in rounds.stream(player.played.turn, first(player), player.ask_again, forgetful)]
    player.played.body = b"".join(pieces)
    assert seen(player.played).texts == ["Done."]
    assert "cannot be read at the moment" in str(player.played.asked)
    assert "recall failed" in caplog.text


@every_format
async def test_an_agent_that_is_shown_nothing_for_long_hears_of_us(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "_SILENCE", 0.0)
    say = Say("", (OTHER,), thinking="A long thought, and then a long call.")
    stream = stream_of(say, format)
    played = await Play(format, [Sent(stream, sizes=(200,))]).stream()
    assert len(played.pieces) > 5
    assert seen(played).calls == [("look", {"path": "a.py"})], "no SDK minds"
    assert stream[-40:] in played.body


@every_format
async def test_answers_of_later_rounds_are_let_go_of(format: str) -> None:
    """Also when the agent goes away in the middle of one."""
    open_now: set[int] = set()
    coming = iter([Sent(stream_of(Say("Later.", (RECALL,)), format, number), (20,)) for number in (1, 2, 3)])

    @asynccontextmanager
    async def ask_again(extra: list[Message], *, offer_tool: bool) -> AsyncIterator[Sent]:
        open_now.add(len(extra))
        try:
            yield next(coming)
        finally:
            open_now.discard(len(extra))

    async def recall(query: str) -> str:
        await asyncio.sleep(0)
        return "found"

    shown = rounds.stream(turn_for(format), next(coming), ask_again, recall)
    async for _ in shown:
        if open_now:
            break
    assert open_now
    await shown.aclose()
    assert not open_now


def first(player: Play) -> Sent:
    return next(player._rounds)
