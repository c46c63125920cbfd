"""A proxy with an agent behind it that takes one step at a time, and a browser to look at them with."""

import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

import task
from focusctx import Focus
from focusctx.drafts import ScriptedDraft
from focusctx.proxy.app import Proxy
from focusctx.proxy.serve import serving
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream
from provider import Provider

SKETCHES = [
    "Step: finish the audit | Depends on: [s_2, s_3]\nRescued Spans: [s_1] | Reason: it was the first try",
    "Step: finish the audit | Depends on: [s_2]\nRescued Spans: [s_1] | Reason: it was the first try",
    "Step: report the total | Depends on: [s_3]\nRescued Spans: none | Reason: no risk",
]
"""Plans that need the second and the third span, fear for the first and leave the rest."""


@dataclass(slots=True)
class Agent:
    """Does the long task through a proxy, a step at a time."""

    url: str
    http: aiohttp.ClientSession
    model: str = "scripted"
    headers: dict[str, str] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(
        default_factory=lambda: [{"role": "system", "content": "You audit."}, {"role": "user", "content": task.TASK}]
    )
    tool: Callable[[str, dict[str, Any]], str] = task.run_tool

    async def step(self, times: int = 1) -> None:
        for _ in range(times):
            await self._step()

    async def _step(self) -> None:
        asked = {"model": self.model, "messages": self.history, "tools": task.chat_tools()}
        url = f"{self.url}/v1/chat/completions"
        async with self.http.post(url, json=asked, headers=self.headers) as answer:
            assert answer.status == 200, await answer.text()
            message = (await answer.json())["choices"][0]["message"]
        self.history.append(message)
        for call in message.get("tool_calls", []):
            try:
                result = self.tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            except task.ToolFailure as failure:
                result = f"Error: {failure}"
            self.history.append({"role": "tool", "tool_call_id": call["id"], "content": result})


@dataclass(slots=True)
class Stage:
    """All that runs in a test."""

    proxy: Proxy
    url: str
    provider: Provider
    http: aiohttp.ClientSession

    def agent(self, name: str = "", **given: Any) -> Agent:
        """Agents of different names have sessions of their own."""
        headers = {"x-focusctx-session": name, **given.pop("headers", {})}
        return Agent(self.url, self.http, headers=headers, **given)

    @property
    def went_up(self) -> str:
        """The newest request, as the provider got it."""
        return self.provider.received[-1].raw.decode()


Staging = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(task.model) as provider:
        yield provider


@pytest.fixture
def staging(provider: Provider) -> Staging:
    """A proxy before the scripted provider; settings may be given."""

    @asynccontextmanager
    async def staged(*, sketches: list[str] | None = None, budget: int = 2500, **given: Any) -> AsyncIterator[Stage]:
        settings = Settings(**{"upstreams": (Upstream("local", provider.url),), "port": 0, "store": "memory", **given})
        focus = Focus(ScriptedDraft(sketches or SKETCHES), budget=budget)
        async with serving(focus, settings) as (proxy, url), aiohttp.ClientSession() as http:
            yield Stage(proxy, url, provider, http)

    return staged


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where the browser is."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium on PATH (scripts/browser installs it)")
    return found
