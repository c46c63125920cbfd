"""A model server on loopback that does what a test tells it to, and remembers what it was sent."""

import asyncio
import inspect
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web

from focusctx.types import History, Prompt

VARIABLES = """
OPENAI_API_KEY OPENAI_BASE_URL ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL AZURE_OPENAI_ENDPOINT
AZURE_OPENAI_API_KEY OPENROUTER_API_KEY DEEPSEEK_API_KEY GEMINI_API_KEY GROQ_API_KEY MISTRAL_API_KEY
VLLM_API_KEY OLLAMA_HOST OLLAMA_API_KEY HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY NETRC
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in VARIABLES.split():
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def prompt():
    return Prompt("You plan.", "Plan the rest.", History(goal="goal", spans=()), seed=42)


@dataclass
class FakeServer:
    """`behave(body, number)` answers the `number`-th request (from 0) with JSON or a response."""

    behave: Any
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    requests: list[web.Request] = field(default_factory=list)
    open: int = 0
    cancelled: int = 0

    async def handle(self, request):
        body = await request.json()
        number = len(self.bodies)
        self.bodies.append(body)
        self.requests.append(request)
        self.open += 1
        try:
            arguments = (body, number, request)[: len(inspect.signature(self.behave).parameters)]
            answer = self.behave(*arguments)
            if inspect.isawaitable(answer):
                answer = await answer
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open -= 1
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)


@pytest.fixture
async def serve():
    async with AsyncExitStack() as stack:

        async def start(behave):
            server = FakeServer(behave)
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", server.handle)
            runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            return server

        yield start


@pytest.fixture
def impatient():
    """The draft with pauses before its retries that a test does not feel."""

    def hurry(draft):
        draft.endpoint = replace(draft.endpoint, backoff=0.001)
        return draft

    return hurry


@pytest.fixture
def collect():
    """All replies of a call, and the error it ended with (None for a good end)."""

    async def run(draft, prompt, n):
        replies = []
        try:
            async for reply in draft.sample(prompt, n):
                replies.append(reply)
        except Exception as error:
            return replies, error
        return replies, None

    return run
