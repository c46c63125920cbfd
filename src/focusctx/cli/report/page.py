"""The whole page: one event, or several with a table of contents."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from ... import __version__
from ...explain import levels_of
from ...types import Result
from ..options import Setup
from .headline import headline, percent, saved
from .markup import Markup, tag, together
from .picture import picture
from .sketches import certificate, sketches
from .spans import spans


@dataclass(frozen=True, slots=True)
class Entry:
    """One event and its source. A saved Result does not record its settings, so it has no setup."""

    name: str
    result: Result
    setup: Setup | None = None


def page(entries: Sequence[Entry]) -> str:
    """Return the whole document."""
    style, script = _asset("look.css", "focusctx"), _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    several = len(entries) > 1
    title = f"{len(entries)} conversations" if several else entries[0].name
    return Template(_asset("page.html")).substitute(
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'",
        title=tag("title", f"focusctx: {title}"),
        style=style,
        heading=tag("h1", title),
        contents=_contents(entries) if several else "",
        events=together(*(_event(entry, number, several) for number, entry in enumerate(entries, 1))),
        version=__version__,
        script=script,
    )


def _asset(name: str, package: str = __package__) -> str:
    return files(package).joinpath(name).read_text("utf-8").strip()


def _contents(entries: Sequence[Entry]) -> Markup:
    """Make a table of links to the conversations on the page."""
    names = ("conversation", "tokens before", "after", "saved", "steps kept whole", "excerpts", "records", "dropped")
    rows = [
        tag(
            "tr",
            tag("th", tag("a", entry.name, href=f"#c{number}"), scope="row"),
            *(tag("td", cell) for cell in _row(entry.result)),
        )
        for number, entry in enumerate(entries, 1)
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names))),
            tag("tbody", *rows),
        ),
        class_="contents",
    )


def _row(result: Result) -> tuple[str, ...]:
    levels = levels_of(result)
    return (
        f"{result.tokens_before:,}",
        f"{result.tokens_after:,}",
        percent(saved(result)),
        str(levels.whole),
        str(levels.excerpts),
        str(levels.records),
        str(levels.dropped),
    )


def _event(entry: Entry, number: int, several: bool) -> Markup:
    key = f"c{number}"
    return tag(
        "section",
        tag("h2", entry.name) if several else tag("h2", "The event", class_="unseen"),
        headline(entry.result, entry.setup),
        picture(entry.result, key),
        spans(entry.result, key),
        sketches(entry.result, key),
        certificate(entry.result),
        class_="event",
        id=key,
    )
