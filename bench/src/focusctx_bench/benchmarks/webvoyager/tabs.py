"""The pages of one browser context. The newest is looked at; a popup that an action opened is a new one, all others
are closed at once, and so are dialogs and downloads. What happened is noted for the agent."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from .reading import plain

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Download, Page

_MOST_TABS = 5
_MOST_NOTES = 5
_SECONDS_TO_CLOSE = 5


class Tabs:
    def __init__(self, context: BrowserContext) -> None:
        self.follow = False
        """True if a page that opens now was asked for."""
        self._context = context
        self._tabs: list[Page] = []
        self._notes: list[str] = []
        context.on("page", self._opened)
        context.on("dialog", self._dialog)

    @property
    def has_opener(self) -> bool:
        return len(self._tabs) > 1

    async def current(self) -> Page:
        if not self._tabs:
            followed, self.follow = self.follow, True
            await self._context.new_page()
            self.follow = followed
        return self._tabs[-1]

    async def close(self) -> None:
        """All of them, also when they do not respond: pages that opened each other hang together."""
        from playwright.async_api import Error

        tabs, self._tabs, self._notes = self._tabs, [], []
        for page in tabs:
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_CLOSE):
                    await page.close()

    def notes(self) -> list[str]:
        """Return the notes since they were last asked for."""
        notes, self._notes = self._notes, []
        return notes

    async def _opened(self, page: Page) -> None:
        from playwright.async_api import Error

        if self.follow and len(self._tabs) < _MOST_TABS:
            self._tabs.append(page)
            page.on("close", self._closed)
            page.on("download", self._download)
            return
        self._note("The page opened another window, which was closed.")
        with suppress(Error):
            await page.close()

    def _closed(self, page: Page) -> None:
        if page in self._tabs:
            self._tabs.remove(page)

    async def _dialog(self, dialog: Dialog) -> None:
        from playwright.async_api import Error

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
