"""A proxy with an agent behind it that takes one step at a time, and a browser to look at them with."""

import json
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from focusctx import Focus
from focusctx.drafts import ScriptedDraft
from focusctx.proxy.app import Proxy
from focusctx.proxy.serve import serving
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream
from helpers import task
from helpers.provider import Provider

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
    async def staged(
        *, sketches: list[str] | None = None, budget: int = 2500, levels: bool = False, **given: Any
    ) -> AsyncIterator[Stage]:
        settings = Settings(**{"upstreams": (Upstream("local", provider.url),), "port": 0, "store": "memory", **given})
        target = 0.5 if levels else None
        focus = Focus(ScriptedDraft(sketches or SKETCHES), budget=budget, levels=levels, target=target)
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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: str) -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    flags = ["--no-sandbox", "--headless=new", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        await browser.close()


class Window:
    """A page in the browser. Whatever it complains of, and every request it makes to elsewhere, is remembered."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.set_default_timeout(10_000)
        page.on("console", lambda line: line.type in ("error", "warning") and self.complaints.append(line.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        page.on("request", lambda request: self._heed(request.url))

    def _heed(self, url: str) -> None:
        if not re.match(r"http://127\.0\.0\.1:\d+/ui(/|$|#)", url):
            self.complaints.append(f"asked for {url}")

    def heading(self, text: str | re.Pattern[str]) -> Any:
        return self.page.get_by_role("heading", level=1, name=text)

    async def opened(self, stage: Stage, *, event: int | None = None) -> Any:
        """Shows the only session, or the event that dropped this span of it."""
        (live,) = stage.proxy.conversations
        place = f"#/sessions/{live.id}"
        if event is not None:
            dropped = [it.result.dropped if it.result else () for it in live.session.events]
            place += f"/events/{next(number for number, spans in enumerate(dropped, 1) if event in spans)}"
        await self.page.goto(f"{stage.url}/ui{place}")
        return self.page


@pytest_asyncio.fixture(loop_scope="module")
async def window(browser: Any) -> AsyncIterator[Window]:
    context = await browser.new_context(viewport={"width": 1200, "height": 900})
    window = Window(await context.new_page())
    yield window
    await context.close()
    assert window.complaints == []
