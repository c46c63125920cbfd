"""Headers of an answer that say what compression did, and the request header that switches it off."""

import json

import pytest

from focusctx import Focus
from helpers.histories import run
from helpers.raw_http import STREAM, Head, Line, Whole, exchange, proxy, raw_upstream
from helpers.served import CHAT, history

pytestmark = pytest.mark.usefixtures("bounded")

OURS = "x-focusctx-"


def reported(answer: Whole) -> dict[str, str]:
    return {name.removeprefix(OURS): value for name, value in answer.headers if name.startswith(OURS)}


async def test_an_answer_says_what_was_saved(nothing_left: None) -> None:
    async with raw_upstream() as up, proxy(up.url, focus=Focus("offline", budget=60)) as (served, url):
        small = reported(await exchange(url, "POST", CHAT, [], history(1)))
        large = reported(await exchange(url, "POST", CHAT, [], history(40)))
        again = reported(await exchange(url, "POST", CHAT, [], history(40)))
        live = served.conversations.with_id(next(iter(served.conversations)).id)
        assert live is not None
        assert live.conversation is not None
        left_out = live.conversation.left_out
        sizes = live.conversation.size
    assert small["tokens-received"] == small["tokens-sent"]
    assert (small["event"], small["steps-left-out"], small["steps-shortened"]) == ("none", "0", "0")
    assert large == {
        "tokens-received": str(sizes[0]),
        "tokens-sent": str(sizes[1]),
        "event": "compressed",
        "steps-left-out": str(len(left_out.gone)),
        "steps-shortened": str(len(left_out.shown)),
    }
    assert int(large["tokens-sent"]) < int(large["tokens-received"])
    assert left_out.spans
    assert again == {**large, "event": "none", "tokens-estimated": "1"}
    assert not any(name.startswith(OURS) for got in up.got for name, _ in got.headers)


async def test_tokens_that_were_not_counted_are_said_to_be_estimated(nothing_left: None) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        said = reported(await exchange(url, "POST", CHAT, [], history(1)))
    assert said["tokens-estimated"] == "1"
    assert said["tokens-received"] == said["tokens-sent"]


async def test_a_stream_says_it_too(nothing_left: None) -> None:
    async def answer(line: Line, head: Head) -> None:
        await line.body(head)
        await line.send(STREAM)
        await line.chunk(b"data: 1\n\n")
        await line.send(b"0\r\n\r\n")

    async with raw_upstream(answer) as up, proxy(up.url, focus=Focus("offline", budget=60)) as (_, url):
        got = await exchange(url, "POST", CHAT, [], history(40))
    assert got.body == b"data: 1\n\n"
    assert reported(got)["event"] == "compressed"


async def test_a_dry_run_claims_no_savings(nothing_left: None) -> None:
    async with raw_upstream() as up, proxy(up.url, focus=Focus("offline", budget=60), dry_run=True) as (_, url):
        said = reported(await exchange(url, "POST", CHAT, [], history(40)))
    assert "tokens-sent" not in said
    assert int(said["tokens-would-send"]) < int(said["tokens-received"])
    assert up.got[0].body == history(40)


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/v1/models", None),
        ("POST", "/v1/embeddings", b"{}"),
        ("POST", CHAT, b"not JSON"),
        ("POST", "/v1/responses", json.dumps({"input": "hello"}).encode()),
    ],
)
async def test_nothing_is_said_of_what_was_not_looked_at(method: str, target: str, body: bytes | None) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        assert reported(await exchange(url, method, target, [], body)) == {}


@pytest.mark.parametrize("value", ["1", "true", "yes"])
async def test_a_request_may_go_around_compression(value: str, nothing_left: None) -> None:
    async with raw_upstream() as up, proxy(up.url, focus=Focus("offline", budget=60), recall=True) as (served, url):
        got = await exchange(url, "POST", CHAT, [("X-Focusctx-Bypass", value)], history(40))
        assert reported(got) == {}
        assert len(served.conversations) == 0
        assert up.got[0].body == history(40)
        assert "x-focusctx-bypass" not in up.got[0]
        got = await exchange(url, "POST", CHAT, [("x-focusctx-bypass", "0")], history(40))
        assert reported(got)["event"] == "compressed"
        assert len(json.loads(up.got[1].body)["messages"]) < len(run(40))


async def test_a_conversation_goes_on_after_a_bypass(nothing_left: None) -> None:
    """The bypass is for one request: a step that was left out before it stays out after it."""
    async with raw_upstream() as up, proxy(up.url, focus=Focus("offline", budget=60)) as (_, url):
        await exchange(url, "POST", CHAT, [], history(40))
        await exchange(url, "POST", CHAT, [("x-focusctx-bypass", "1")], history(40))
        await exchange(url, "POST", CHAT, [], history(40))
    assert up.got[0].body == up.got[2].body != up.got[1].body


async def test_an_answer_that_recall_renamed_is_still_known_by_its_name_in_a_bypass(nothing_left: None) -> None:
    async with raw_upstream() as up, proxy(up.url, recall=True) as (served, url):
        served._compression.add_alias(("resp_agent", "resp_provider"))
        body = {"model": "m", "input": "go on", "previous_response_id": "resp_agent"}
        await exchange(url, "POST", "/v1/responses", [("x-focusctx-bypass", "1")], json.dumps(body).encode())
    assert json.loads(up.got[0].body)["previous_response_id"] == "resp_provider"
