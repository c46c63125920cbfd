"""One limit, the user's: hosted drafts may take as long as `deadline` says, and no longer."""

import asyncio
import selectors
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from focusctx import Focus
from focusctx.drafts import AnthropicDraft, OpenAICompatibleDraft
from helpers.histories import run

PLAN = "Step: go on | Depends on: [s_2]\nRescued Spans: [] | Reason: none"
CHAT = {"choices": [{"message": {"role": "assistant", "content": PLAN}, "finish_reason": "stop"}]}
MESSAGE = {"content": [{"type": "text", "text": PLAN}], "stop_reason": "end_turn"}
BOTH = pytest.mark.parametrize(("make", "good"), [(OpenAICompatibleDraft, CHAT), (AnthropicDraft, MESSAGE)])
SPEED = 100.0


class FastSelector(selectors.DefaultSelector):
    def select(self, timeout=None):
        return super().select(timeout / SPEED if timeout else timeout)


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock runs a hundred times as fast: 25 s of it pass in a quarter of a second."""

    def __init__(self):
        super().__init__(FastSelector())

    def time(self):
        return super().time() * SPEED


@asynccontextmanager
async def server(answer, seconds):
    """A model server that thinks for `seconds` before each answer; the list is of the requests it got."""
    got = []

    async def handle(request):
        got.append(await request.json())
        await asyncio.sleep(seconds)
        return web.json_response(answer)

    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", got
    finally:
        await runner.cleanup()


@BOTH
def test_a_draft_may_take_as_long_as_the_deadline_says(make, good):
    async def compressed():
        async with server(good, seconds=45) as (url, _):
            focus = Focus(make("m", base_url=url, api_key="k"), budget=10, deadline=900, rollouts=1)
            return await focus.acompress(run(6))

    with asyncio.Runner(loop_factory=FastLoop) as runner:
        result = runner.run(compressed())
    assert result.failure is None
    assert result.compressed


@BOTH
async def test_a_hung_draft_costs_one_deadline_and_says_what_to_change(make, good, caplog):
    async with server(good, seconds=60) as (url, got):
        focus = Focus(make("m", base_url=url, api_key="k"), budget=10, deadline=0.3)
        first = await focus.acompress(run(6))
        assert "within 0.3 s; `deadline` (--deadline) allows more" in first.failure
        assert "(--deadline)" in caplog.text
        asked = len(got)
        second = await focus.acompress(run(7))
    assert len(got) == asked, "nobody waits for it a second time"
    assert "is left alone for 60 s more (breaker_pause)" in second.failure
    assert second.failure.endswith(first.failure), "and why it is left alone"
