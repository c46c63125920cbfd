"""The agent's browser: windows of one Chromium, what can be done in them, and pages as numbered lines of text.

Pages are not trusted. Whatever one does (dialogs, popups, downloads, endless scripts or redirects) ends within a
limit of time, and the agent is told in words. The newest page is shown; a popup that an action opened is a new one,
all others are closed at once, and so are dialogs and downloads. A page's text cannot pass for a number of ours:
brackets around digits become round in all that comes from it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urldefrag, urlsplit

from focusctx.errors import BenchError, MissingExtraError

try:
    from playwright.async_api import (
        Browser,
        BrowserContext,
        Dialog,
        Download,
        ElementHandle,
        Error,
        Frame,
        JSHandle,
        Page,
        async_playwright,
    )
    from playwright.async_api import TimeoutError as TookTooLong
except ImportError as missing:
    raise MissingExtraError("WebVoyager", "webvoyager", "focusctx-bench") from missing

_TRIES = 3
_SILENT = "it does not respond"
_MOST_TABS = 5
_MOST_NOTES = 5
_SECONDS_TO_CLOSE = 5
_SCRIPT = Path(__file__).with_name("read_page.js").read_text(encoding="utf-8")
_BOUNDS = {"mostNodes": 60_000, "mostCharacters": 150_000, "longestLine": 1000, "longestName": 300}
_MOST_FRAMES = 8
_SMALLEST_FRAME = 50
"""Pixels: smaller ones show nothing to anybody."""
VIEW = 8000
"""Characters in view at once, about 2,000 tokens."""
_LOOKS_LIKE_OURS = re.compile(r"\[(\s*\d+\s*)\]")
_HOW = "install your system's chromium, or run `playwright install chromium`, or name one with --set chromium=PATH"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PRIVATE = ("localhost", "*.localhost", "127.*", "0.*", "10.*", "192.168.*", "169.254.*", "*:*:*")
"""This machine and its neighbours, by name or number; the last one is any IPv6 number. No site is reached like that."""


class Refused(Exception):
    """Raised where what the agent asked for cannot be done; the page it saw last is still the one it acts on."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of time, in seconds."""

    navigation: float = 20
    action: float = 5
    script: float = 10
    """For a page to say what it shows."""
    settle: float = 0.5
    """Before a look whether an action led somewhere."""
    quiet: float = 2
    """For a page that is there to stop loading more."""


class Window:
    """One task's window: actions, and the text that it shows afterwards."""

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
                if len(self._tabs.pages) < 2:
                    raise Refused("there is no page before this one")
                await page.close()

        return await self._do(go_back)

    async def _element(self, number: int) -> ElementHandle:
        if self._reading is None:
            raise Refused("no page is open")
        if not 1 <= number <= len(self._reading.numbered):
            raise Refused(f"nothing on this page has the number {number}")
        reading, found = self._reading, None

        async def find(_: Page) -> None:
            nonlocal found
            found = await reading.element(number)

        problem = await self._try(find)
        if problem or found is None:
            raise Refused(f"[{number}] is gone from the page {problem}".strip())
        return found

    async def _beyond(self, before: Reading) -> str:
        """Scroll past the end: some pages load more there."""
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
        before, now = urldefrag(self._reading.url if self._reading else ""), urldefrag(reading.url)
        if before.url != now.url:  # a new page is shown from its top, the same page where it was,
            self._first = 0
        elif before.fragment != now.fragment:  # or where a link in it led
            self._first = reading.top
        self._first = max(min(self._first, len(reading.lines) - 1), 0)
        self._reading = reading
        return "\n".join([*([f"Error: {problem}."] if problem else []), *self._tabs.notes(), self.text])

    async def _try(self, action: Callable[[Page], Awaitable[None]]) -> str:
        """Return what went wrong, in words; empty if nothing."""
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
        """Read the page; again if it moves on while it is read, and stop one that loads for ever."""
        problem = ""
        for again in range(_TRIES):
            try:
                page, quiet = await self._page(), self._patience.quiet
                await asyncio.sleep(self._patience.settle)
                with suppress(TookTooLong):
                    seconds = quiet if again else self._patience.navigation
                    await page.wait_for_load_state("domcontentloaded", timeout=seconds * 1000)
                    await page.wait_for_load_state("networkidle", timeout=quiet * 1000)
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
        """Stop loading: while another page is on its way, the one that is there cannot be read."""
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
        try:
            return await self._tabs.current()
        except Error as error:
            raise Refused(self._told(error)) from error

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


class Tabs:
    """The pages of one browser context; what happened in them is noted for the agent."""

    def __init__(self, context: BrowserContext) -> None:
        self.follow = False
        """True if a page that opens now was asked for."""
        self._context = context
        self.pages: list[Page] = []
        """The newest last, which is the one that is shown."""
        self._notes: list[str] = []
        context.on("page", self._opened)
        context.on("dialog", self._dialog)

    async def current(self) -> Page:
        if not self.pages:
            followed, self.follow = self.follow, True
            await self._context.new_page()
            self.follow = followed
        return self.pages[-1]

    async def close(self) -> None:
        """Close all pages, also those that do not respond: pages that opened each other hang together."""
        tabs, self.pages, self._notes = self.pages, [], []
        for page in tabs:
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_CLOSE):
                    await page.close()

    def notes(self) -> list[str]:
        """Return the notes since they were last asked for."""
        notes, self._notes = self._notes, []
        return notes

    async def _opened(self, page: Page) -> None:
        if self.follow and len(self.pages) < _MOST_TABS:
            self.pages.append(page)
            page.on("close", self._closed)
            page.on("download", self._download)
            return
        self._note("The page opened another window, which was closed.")
        with suppress(Error):
            await page.close()

    def _closed(self, page: Page) -> None:
        if page in self.pages:
            self.pages.remove(page)

    async def _dialog(self, dialog: Dialog) -> None:
        is_leaving = dialog.type == "beforeunload"
        if not is_leaving:
            self._note(f'The page showed a dialog, which was dismissed: "{plain(dialog.message)[:300]}"')
        with suppress(Error):
            await (dialog.accept() if is_leaving else dialog.dismiss())

    def _download(self, download: Download) -> None:
        self._note(f"A download was refused: {plain(download.suggested_filename)[:100]}")

    def _note(self, text: str) -> None:
        if text not in self._notes and len(self._notes) < _MOST_NOTES:
            self._notes.append(text)


@dataclass(frozen=True, slots=True)
class PageLine:
    text: str
    document: JSHandle
    index: int
    """Among the document's lines."""

    async def scroll_to(self) -> None:
        """Move the real window too: pages load more when they are scrolled."""
        await self.document.evaluate("(it, i) => it.places[i]?.scrollIntoView({block: 'start'})", self.index)


@dataclass(frozen=True, slots=True)
class Reading:
    """A page at one moment."""

    title: str
    url: str
    lines: Sequence[PageLine]
    numbered: Sequence[PageLine]
    """Lines with a number, in the order of their numbers, from 1."""
    top: int
    """The first line that the real window shows."""
    cut: bool

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]

    async def element(self, number: int) -> ElementHandle | None:
        line = self.numbered[number - 1]
        return (await line.document.evaluate_handle("(it, i) => it.elements[i]", line.index)).as_element()

    def end_of_view(self, first: int) -> int:
        """Return the end of the view that begins with this line, which has at least one line."""
        size = 0
        for at in range(first, len(self.lines)):
            size += len(self.lines[at].text) + 1
            if size > VIEW and at > first:
                return at
        return len(self.lines)

    def start_of_view(self, end: int) -> int:
        """Return the first line of the view that ends before this line."""
        first = max(end - 1, 0)
        while first > 0 and self.end_of_view(first - 1) >= end:
            first -= 1
        return first

    def view(self, first: int) -> str:
        end = self.end_of_view(first)
        head = [f"Page: {self.title or '(no title)'}", f"URL: {self.url}"]
        if not self.lines:
            return "\n".join([*head, "(The page shows no text.)"])
        if first > 0 or end < len(self.lines):
            ways = " and ".join([*["up"] * (first > 0), *["down"] * (end < len(self.lines))])
            head.append(f"Lines {first + 1} to {end} of {len(self.lines)}: scroll {ways} for the others.")
        ending = (
            ["(The page goes on, but is too long to be read further.)"] if self.cut and end == len(self.lines) else []
        )
        return "\n".join([*head, "", *(line.text for line in self.lines[first:end]), *ending])


async def read_page(page: Page) -> Reading:
    lines: list[PageLine] = []
    numbered: list[PageLine] = []
    top = 0
    cut = False
    for frame in await _shown_frames(page):
        document = await frame.evaluate_handle(_SCRIPT, _BOUNDS)
        told: dict[str, Any] = await document.evaluate("({places, elements, ...told}) => told")
        if frame is page.main_frame:
            top = told["top"]
        elif told["texts"]:
            lines.append(PageLine("(A frame within the page:)", document, 0))
        for index, (kind, text) in enumerate(zip(told["kinds"], told["texts"], strict=True)):
            if kind in ("", "heading"):
                lines.append(PageLine(plain(text), document, index))
                continue
            numbered.append(PageLine(f"[{len(numbered) + 1}] {kind} {plain(text)}", document, index))
            lines.append(numbered[-1])
        cut = cut or told["cut"]
    return Reading(plain(await page.title()), page.url, lines, numbered, top, cut)


def plain(text: str) -> str:
    """Return words of a page on one line."""
    return _LOOKS_LIKE_OURS.sub(r"(\1)", " ".join(text.split()))


async def _shown_frames(page: Page) -> list[Frame]:
    shown = [page.main_frame]
    for frame in page.main_frame.child_frames[:50]:
        box = await (await frame.frame_element()).bounding_box()
        if box and min(box["width"], box["height"]) >= _SMALLEST_FRAME and len(shown) <= _MOST_FRAMES:
            shown.append(frame)
    return shown


class SharedBrowser:
    """One Chromium for all tasks under way; it starts with the first and ends with the last of them."""

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
        """Open a context of its own: no cookies, no downloads, English."""
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
