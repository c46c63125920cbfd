"""One Chromium for all tasks under way; it starts with the first and ends with the last of them."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from focusctx.errors import BenchError, MissingExtraError

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext

_HOW = "install your system's chromium, or run `playwright install chromium`, or name one with --set chromium=PATH"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PRIVATE = ("localhost", "*.localhost", "127.*", "0.*", "10.*", "192.168.*", "169.254.*", "*:*:*")
"""This machine and its neighbours, by name or number; the last one is any IPv6 number. No site is reached like that."""


class SharedBrowser:
    def __init__(self, executable: str | None, *, sandbox: bool, hosts: Iterable[str]) -> None:
        """`hosts` are reached even if they are on this machine: those that the tasks name."""
        self._executable = executable
        self._sandbox = sandbox and os.geteuid() != 0  # Chromium has none for root
        self._arguments = ["--disable-gpu", "--no-first-run", f"--host-resolver-rules={_rules(hosts)}"]
        self._browser: Browser | None = None
        self._running = AsyncExitStack()
        self._users = 0
        self._changing = asyncio.Lock()

    async def open(self) -> BrowserContext:
        """A context of its own: no cookies, no downloads, English."""
        async with self._changing:
            if self._browser is None or not self._browser.is_connected():
                await self._stop()
                self._browser = await self._start()
            context = await self._browser.new_context(
                accept_downloads=False, locale="en-US", viewport={"width": 1280, "height": 1000}
            )
            self._users += 1
        return context

    async def close(self, context: BrowserContext) -> None:
        from playwright.async_api import Error

        try:
            await context.close()
        except Error:  # the browser has ended, and the context with it
            pass
        finally:
            async with self._changing:
                self._users -= 1
                if not self._users:
                    await self._stop()

    async def _start(self) -> Browser:
        try:
            from playwright.async_api import Error, async_playwright
        except ImportError as error:
            raise MissingExtraError("WebVoyager", "webvoyager", "focusctx-bench") from error
        playwright = await self._running.enter_async_context(async_playwright())
        executable = self._executable or next(filter(None, map(shutil.which, _NAMES)), None)
        executable = executable or playwright.chromium.executable_path
        try:
            if not Path(executable).is_file():
                raise BenchError(f"WebVoyager needs Chromium, there is none at {executable}: {_HOW}")
            browser = await playwright.chromium.launch(
                executable_path=executable, args=self._arguments, chromium_sandbox=self._sandbox
            )
        except Error as error:
            await self._stop()
            raise BenchError(f"{executable} does not start (in a container, try --set sandbox=off): {error}") from error
        except BaseException:
            await self._stop()
            raise
        self._running.push_async_callback(browser.close)
        return browser

    async def _stop(self) -> None:
        self._browser = None
        await self._running.aclose()


def host_of(url: str) -> str:
    return urlsplit(url).hostname or ""


def _rules(hosts: Iterable[str]) -> str:
    private = [*_PRIVATE, *(f"172.{number}.*" for number in range(16, 32))]
    excluded = [f"EXCLUDE {host}" for host in sorted(set(hosts))]
    return ", ".join([*(f"MAP {pattern} ~NOTFOUND" for pattern in private), *excluded])
