"""How sketches are requested: one request, several at once, one after the other; over a real socket."""

import asyncio
from typing import Any

import pytest

from drafts.conftest import serve
from focusctx.baselines.drafts import SingleRequests, requesting
from focusctx.baselines.registry import MethodSettings, method_from
from focusctx.drafts.registry import draft_from, price_of_draft
from focusctx.errors import ConfigError
from helpers.histories import run

__all__ = ["serve"]

PLAN = "Step: go on | Depends on: [s_1]\nRescued Spans: [] | Reason: none"


@pytest.mark.parametrize(
    ("mode", "requests", "together"), [(None, 1, 1), ("n", 1, 1), ("parallel", 3, 3), ("sequential", 3, 1)]
)
async def test_requests_of_an_event(serve: Any, mode: str | None, requests: int, together: int) -> None:
    most = 0

    async def answer(body: dict[str, Any]) -> dict[str, Any]:
        nonlocal most
        most = max(most, server.open)
        await asyncio.sleep(0.05)
        choice = {"message": {"role": "assistant", "content": PLAN}, "finish_reason": "stop"}
        return {"choices": [choice] * body.get("n", 1), "usage": {"prompt_tokens": 900, "completion_tokens": 20}}

    server = await serve(answer)
    settings = MethodSettings(budget=0, draft=f"openai:some@{server.url}/v1", rollout_mode=mode)
    compressed = await method_from("focus-d", settings)().compress(run(6))
    assert compressed.failure is None
    assert compressed.usage.requests == len(server.bodies) == requests
    assert compressed.usage.input_tokens == 900 * requests
    assert most == together
    assert [body.get("n") for body in server.bodies] == ([3] if requests == 1 else [None] * 3)
    assert len({body["seed"] for body in server.bodies}) == requests  # one seed may get the same answer three times


def test_modes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown rollout mode 'twice'; known: n, parallel, sequential"):
        method_from("focus-o", MethodSettings(draft="offline", rollout_mode="twice"))


def test_the_price_is_that_of_the_draft() -> None:
    draft = draft_from("openai:some@http://127.0.0.1:1/v1")
    assert requesting(draft, "n") is draft
    wrapped = requesting(draft, "sequential")
    assert isinstance(wrapped, SingleRequests)
    assert price_of_draft(wrapped) == price_of_draft(draft)
    assert wrapped.name == draft.name
