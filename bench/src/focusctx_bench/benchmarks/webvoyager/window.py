"""The agent's browser window: what can be done in it, and what it shows afterwards.

Pages are not trusted: whatever one does (dialogs, popups, downloads, endless scripts or redirects) ends within a
limit of time and is told to the agent in words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urldefrag, urlsplit

from focusctx.errors import BenchError

from .reading import Reading, read_page
from .tabs import Tabs

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, ElementHandle, Error, Page

_TRIES = 3
_SILENT = "it does not respond"


class Refused(Exception):
    """Raised where what the agent asked for cannot be done; the page it saw last is still the one it acts on."""


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds."""

    navigation: float = 20
    action: float = 5
    script: float = 10
    """For a page to say what it shows."""
    settle: float = 0.5
    """Before a look whether an action led somewhere."""
    quiet: float = 2
    """For a page that is there to stop loading more."""


class Window:
    def __init__(self, context: BrowserContext, patience: Patience | None = None) -> None:
        self._context = context
        self._patience = patience or Patience()
        self._tabs = Tabs(context)
        self._reading: Reading | None = None
        self._first = 0
        """The first line in view."""
        context.set_default_timeout(self._patience.action * 1000)
        context.set_default_navigation_timeout(self._patience.navigation * 1000)

    @property
    def text(self) -> str:
        """The text in view, as of the last action."""
        return self._reading.view(self._first) if self._reading else ""

    async def goto(self, url: str) -> str:
        address = url if "://" in url else f"https://{url}"
        if not is_web(address):
            raise Refused(f"only http and https addresses can be opened, not {url!r}")

        async def go(page: Page) -> None:
            await page.goto(address, wait_until="domcontentloaded")

        return await self._do(go)

    async def click(self, number: int) -> str:
        element = await self._element(number)
        return await self._do(lambda _: element.click(), follow=True)

    async def type(self, number: int, text: str, *, submit: bool) -> str:
        element = await self._element(number)

        async def enter(_: Page) -> None:
            if await element.evaluate("it => it.tagName === 'SELECT'"):
                await element.select_option(label=text)
            else:
                await element.fill(text)
            if submit:
                await element.press("Enter")

        return await self._do(enter, follow=True)

    async def scroll(self, direction: str) -> str:
        if self._reading is None:
            raise Refused("no page is open")
        if direction == "up":
            if self._first == 0:
                raise Refused("this is the top of the page")
            self._first = self._reading.start_of_view(self._first)
        else:
            end = self._reading.end_of_view(self._first)
            if end == len(self._reading.lines):
                return await self._beyond(self._reading)
            self._first = end
        line = self._reading.lines[self._first]
        return await self._do(lambda _: line.scroll_to())

    async def back(self) -> str:
        async def go_back(page: Page) -> None:
            before = page.url
            if await page.go_back(wait_until="domcontentloaded") is None and page.url == before:
                if not self._tabs.has_opener:
                    raise Refused("there is no page before this one")
                await page.close()

        return await self._do(go_back)

    async def _element(self, number: int) -> ElementHandle:
        if self._reading is None:
            raise Refused("no page is open")
        if not 1 <= number <= len(self._reading.numbered):
            raise Refused(f"nothing on this page has the number {number}")
        reading = self._reading
        found: list[ElementHandle | None] = []

        async def find(_: Page) -> None:
            found.append(await reading.element(number))

        if (problem := await self._try(find)) or found[0] is None:
            raise Refused(f"[{number}] is gone from the page {problem}".strip())
        return found[0]

    async def _beyond(self, before: Reading) -> str:
        """Some pages load more when their end is reached."""
        shown = await self._do(lambda page: page.evaluate("scrollTo(0, document.documentElement.scrollHeight)"))
        assert self._reading is not None
        if len(self._reading.lines) > len(before.lines):
            self._first = len(before.lines)
            return self.text
        if self._reading.texts == before.texts:
            raise Refused("this is the end of the page")
        return shown

    async def _do(self, action: Callable[[Page], Awaitable[None]], *, follow: bool = False) -> str:
        self._tabs.follow = follow
        try:
            problem = await self._try(action)
            reading = await self._read()
        finally:
            self._tabs.follow = False
        self._show(reading)
        return "\n".join([*([f"Error: {problem}."] if problem else []), *self._tabs.notes(), self.text])

    def _show(self, reading: Reading) -> None:
        """A new page from its top, one that was jumped in from there, the same where it was."""
        before = urldefrag(self._reading.url if self._reading else "")
        now = urldefrag(reading.url)
        if before.url != now.url:
            self._first = 0
        elif before.fragment != now.fragment:
            self._first = reading.top
        self._first = max(min(self._first, len(reading.lines) - 1), 0)
        self._reading = reading

    async def _try(self, action: Callable[[Page], Awaitable[None]]) -> str:
        """Return what went wrong, in words; empty if nothing."""
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as TookTooLong

        page = await self._page()
        try:
            async with asyncio.timeout(self._patience.navigation + 2 * self._patience.action):
                await action(page)
        except TimeoutError:
            await self._give_up(_SILENT)
        except Error as error:
            if isinstance(error, TookTooLong):
                await self._stop_loading(page)
            return self._told(error)
        return ""

    async def _read(self) -> Reading:
        """A page that moves on while it is read is read again; one that loads for ever is stopped."""
        from playwright.async_api import Error

        problem = ""
        for again in range(_TRIES):
            try:
                await self._settle(await self._page(), self._patience.quiet if again else self._patience.navigation)
                page = await self._page()  # another one may have opened
                async with asyncio.timeout(self._patience.script):
                    return await read_page(page)
            except TimeoutError:
                if problem == _SILENT:
                    break
                problem = _SILENT
                await self._stop_loading(page)
            except Error as error:
                problem = self._told(error)
        return await self._give_up(problem)

    async def _stop_loading(self, page: Page) -> None:
        """While another page is on its way, the one that is there cannot be read."""
        from playwright.async_api import Error

        with suppress(Error, TimeoutError):
            async with asyncio.timeout(self._patience.action):
                session = await self._context.new_cdp_session(page)
                await session.send("Page.stopLoading")
                await session.detach()

    async def _give_up(self, problem: str) -> NoReturn:
        self._reading, self._first = None, 0
        await self._tabs.close()
        raise Refused(f"the page was closed: {problem}")

    async def _page(self) -> Page:
        from playwright.async_api import Error

        try:
            return await self._tabs.current()
        except Error as error:
            raise Refused(self._told(error)) from error

    async def _settle(self, page: Page, seconds: float) -> None:
        from playwright.async_api import TimeoutError as TookTooLong

        await asyncio.sleep(self._patience.settle)
        with suppress(TookTooLong):
            await page.wait_for_load_state("domcontentloaded", timeout=seconds * 1000)
            await page.wait_for_load_state("networkidle", timeout=self._patience.quiet * 1000)

    def _told(self, error: Error) -> str:
        browser = self._context.browser
        if browser is None or not browser.is_connected():
            raise BenchError(f"the browser has ended: {error.message}") from error
        if "intercepts pointer events" in error.message:
            return "something else on the page covers it"
        first = error.message.partition("\n")[0].rstrip(".")
        return first.partition(": ")[2] or first  # without the name of the function


def is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
