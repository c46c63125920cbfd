"""How the histories in a row of requests hang together, byte for byte.

A provider's cache reads bytes, not meanings: a key in another order or a space too many is another prefix. Cache marks
are no part of it: agents move them at every step, and a text that carried one may lose its block with it.
"""

import json
import re
from collections.abc import Sequence
from itertools import pairwise

from helpers.provider import Received

_SHORTENED = re.compile(r"\[(?:…|\\+u2026)")
_MARK = re.compile(r',"cache_control":\{[^{}]*\}')
_LONE_TEXT = re.compile(r'"content":\[\{"type":"text","text":("(?:[^"\\]|\\.)*")\}\]')
_BETWEEN = re.compile(r"[\s,:]*")


def spelled(received: Received) -> list[str]:
    """The messages of a request as they are written in it."""
    text = received.raw.decode()
    place = _skip(text, text.index("{") + 1)
    while True:
        key, place = _READ(text, place)
        place = _skip(text, place)
        if key in ("messages", "input", "contents"):
            return _elements(text, place + 1)
        _, place = _READ(text, place)
        place = _skip(text, place)


def is_shortened(message: str) -> bool:
    """True if a message as it is written has a mark for something left out."""
    return _SHORTENED.search(message) is not None


def _elements(text: str, place: int) -> list[str]:
    found: list[str] = []
    place = _skip(text, place)
    while text[place] != "]":
        _, end = _READ(text, place)
        found.append(text[place:end])
        place = _skip(text, end)
    return found


_READ = json.JSONDecoder().raw_decode


def _skip(text: str, place: int) -> int:
    match = _BETWEEN.match(text, place)
    assert match is not None
    return match.end()


def moves(received: Sequence[Received]) -> list[int]:
    """The places of the requests that do not begin with the history of the request before."""
    histories = [[_unmarked(message) for message in spelled(request)] for request in received]
    pairs = enumerate(pairwise(histories), 1)
    return [place for place, (before, after) in pairs if after[: len(before)] != before]


def _unmarked(message: str) -> str:
    return _LONE_TEXT.sub(r'"content":\1', _MARK.sub("", message))
