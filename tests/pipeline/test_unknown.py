"""Messages of a kind that is not known: said once, and left where they are."""

import json
import logging

import pytest

from focusctx import Focus
from focusctx.errors import MessageError
from focusctx.integrations.plug import fail_open
from helpers.histories import Messages, run
from helpers.raw_http import exchange, proxy, raw_upstream
from helpers.session_parts import Draft, session_of

CRITIC = {"role": "critic", "content": "Not so fast."}
BEDROCK: Messages = [{"role": "user", "content": [{"text": "hello " * 500}]}]
UI_MESSAGES: Messages = [{"role": "user", "parts": [{"type": "text", "text": "hello " * 500}]}]


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "understood" in record.getMessage()]


@pytest.mark.parametrize("budget", [10, 10_000])
def test_some_of_them_are_a_warning(budget: int) -> None:
    history = run(6)
    history.insert(4, CRITIC)
    history.append({"role": "human", "content": "Go on."})
    result = Focus(Draft(), budget=budget).compress(history)
    assert result.warnings[0].startswith(
        "2 of 16 messages are not understood and stay where they are, the first of them message 4 with role 'critic'"
    )
    assert result.compressed == (budget == 10)
    assert CRITIC in result.messages
    assert history[-1] in result.messages
    assert ("within budget" in result.explain()) == (budget != 10)


def test_items_of_the_future_are_a_warning_too() -> None:
    items = [
        {"role": "user", "content": "Go."},
        {"type": "telepathy"},
        {"type": "function_call_output", "call_id": "a"},
    ]
    (warning,) = Focus("offline").compress(items).warnings
    assert "1 of 3 messages" in warning
    assert "message 1 with type 'telepathy'" in warning


def test_a_history_that_is_understood_has_no_warning() -> None:
    assert Focus("offline").compress(run(3)).warnings == ()


@pytest.mark.parametrize("frozen", [True, False])
def test_a_session_says_it_once_and_goes_on(caplog: pytest.LogCaptureFixture, frozen: bool) -> None:
    session = session_of(Draft(), budget=100, tokens=len, frozen=frozen)
    history = run(1)
    history.insert(2, CRITIC)
    for number in range(2, 12):
        history += run(number)[-2:]
        view = session.view(history)
        assert CRITIC in view
    assert len(view) < len(history)
    assert len(warned(caplog)) == 1


def test_a_session_passes_on_what_it_does_not_understand(caplog: pytest.LogCaptureFixture) -> None:
    session = session_of(Draft(), budget=50)
    for _ in range(3):
        assert session.view(UI_MESSAGES) == UI_MESSAGES
    (said,) = warned(caplog)
    assert "the only message is not understood: they look like UI messages of the AI SDK" in said


@pytest.mark.parametrize(
    ("history", "says"),
    [
        (UI_MESSAGES, "they look like UI messages of the AI SDK"),
        (BEDROCK, "they look like Bedrock Converse messages"),
    ],
)
async def test_the_proxy_passes_it_on_and_says_so_once(
    caplog: pytest.LogCaptureFixture, history: Messages, says: str
) -> None:
    body = json.dumps({"model": "m", "messages": history}).encode()
    async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(), budget=50)) as (_, url):
        for _ in range(3):
            await exchange(url, "POST", "/v1/chat/completions", [], body)
    assert [got.body for got in up.got] == [body] * 3
    assert sum(says in record.getMessage() for record in caplog.records) == 1


def test_an_integration_says_it_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        with fail_open():
            raise MessageError("an odd message of this test", 3)
    said = [record for record in caplog.records if "an odd message of this test" in record.getMessage()]
    assert [(record.levelno, record.exc_info) for record in said] == [(logging.WARNING, None)]
