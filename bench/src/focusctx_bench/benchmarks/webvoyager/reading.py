"""A page as numbered lines of text, and the part of them that is in view.

What the page says cannot pass for a number of ours: brackets around digits become round in all that comes from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame, JSHandle, Page

_SCRIPT = Path(__file__).with_name("read_page.js").read_text(encoding="utf-8")
_BOUNDS = {"mostNodes": 60_000, "mostCharacters": 150_000, "longestLine": 1000, "longestName": 300}
_MOST_FRAMES = 8
_SMALLEST_FRAME = 50
"""Pixels: smaller ones show nothing to anybody."""
VIEW = 8000
"""Characters in view at once, about 2,000 tokens."""

_LOOKS_LIKE_OURS = re.compile(r"\[(\s*\d+\s*)\]")


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    document: JSHandle
    index: int
    """Among the document's lines."""

    async def scroll_to(self) -> None:
        """Move the real window too: pages load more when they are scrolled."""
        await self.document.evaluate("(it, i) => it.places[i]?.scrollIntoView({block: 'start'})", self.index)


@dataclass(frozen=True, slots=True)
class Reading:
    """All of a page at one moment."""

    title: str
    url: str
    lines: Sequence[Line]
    numbered: Sequence[Line]
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
        """Past the last line of the view that begins with this one; there is always one line in it."""
        size = 0
        for at in range(first, len(self.lines)):
            size += len(self.lines[at].text) + 1
            if size > VIEW and at > first:
                return at
        return len(self.lines)

    def start_of_view(self, end: int) -> int:
        """The first line of the view that ends before this one."""
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
    lines: list[Line] = []
    numbered: list[Line] = []
    top = 0
    cut = False
    for frame in await _shown_frames(page):
        document = await frame.evaluate_handle(_SCRIPT, _BOUNDS)
        told: dict[str, Any] = await document.evaluate("({places, elements, ...told}) => told")
        if frame is page.main_frame:
            top = told["top"]
        elif told["texts"]:
            lines.append(Line("(A frame within the page:)", document, 0))
        for index, (kind, text) in enumerate(zip(told["kinds"], told["texts"], strict=True)):
            if kind in ("", "heading"):
                lines.append(Line(plain(text), document, index))
                continue
            numbered.append(Line(f"[{len(numbered) + 1}] {kind} {plain(text)}", document, index))
            lines.append(numbered[-1])
        cut = cut or told["cut"]
    return Reading(plain(await page.title()), page.url, lines, numbered, top, cut)


def plain(text: str) -> str:
    """Words of a page, on one line."""
    return _LOOKS_LIKE_OURS.sub(r"(\1)", " ".join(text.split()))


async def _shown_frames(page: Page) -> list[Frame]:
    shown = [page.main_frame]
    for frame in page.main_frame.child_frames[:50]:
        box = await (await frame.frame_element()).bounding_box()
        if box and min(box["width"], box["height"]) >= _SMALLEST_FRAME and len(shown) <= _MOST_FRAMES:
            shown.append(frame)
    return shown
