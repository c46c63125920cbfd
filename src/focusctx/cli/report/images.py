"""The images of a trace. Only those that the trace itself holds are shown: the page never fetches anything."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...types import History, Message
from .markup import Markup, tag

_DATA_URL = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_LONGEST = 20_000_000
"""Characters of an image beyond which it is only named: a browser would choke on the page."""


def images(messages: Iterable[Message], whose: str) -> Markup | None:
    """Show the images in these messages; one given by a URL or a file id is only named."""
    found = [url for message in messages for url in _urls(message)]
    if not found:
        return None
    shown = [_image(url, f"image {number} of {whose}") for number, url in enumerate(found, 1)]
    return tag("div", *shown, class_="images")


def unowned(history: History) -> dict[int, list[Message]]:
    """Return the messages, or blocks of them, that belong to no span, by the span they come after: the user's own."""
    found: defaultdict[int, list[Message]] = defaultdict(list)
    latest = 0
    for message, owner in zip(history.messages, history.owners, strict=True):
        if isinstance(owner, int):
            own, latest = (message if owner == 0 else {}), max(latest, owner)
        else:
            blocks = zip(message["content"], owner, strict=True)
            own, latest = {"content": [block for block, of in blocks if of == 0]}, max(latest, *owner)
        found[latest].append(own)
    return found


def _image(url: str, name: str) -> Markup:
    if len(url) <= _LONGEST and _DATA_URL.fullmatch(url):
        return tag("img", src=url, alt=name)
    return tag("p", f"{name}: not in the trace, so not shown")


def _urls(value: Any) -> Iterator[str]:
    """Yield the URL of every image in a message's content, at any depth, in the three formats."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _urls(inner)
    elif isinstance(value, Mapping):
        kind = value.get("type")
        if kind == "image_url":  # Chat Completions
            given = value.get("image_url")
            yield str(given.get("url") if isinstance(given, Mapping) else given)
        elif kind in ("input_image", "computer_screenshot"):  # Responses
            yield str(value.get("image_url") or value.get("file_id"))
        elif kind == "image":  # Anthropic
            source = value.get("source")
            source = source if isinstance(source, Mapping) else {}
            held = source.get("type") == "base64"
            yield f"data:{source.get('media_type')};base64,{source.get('data')}" if held else str(source.get("url"))
        else:
            yield from _urls(value.get("content"))
            yield from _urls(value.get("output"))
