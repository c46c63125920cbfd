"""Counting tokens, exactly and offline.

tiktoken does the counting with the vocabularies this package carries; left alone it would download them. A long
text is counted in chunks, cut where both encodings begin a new piece anyway, so the sum is the exact count.
Only where 2048 characters in a row offer no such place (an endless `====`, a block of blanks) is a cut
arbitrary; in the texts measured that put the count off by at most one token per such cut, on average.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from .errors import ConfigError

if TYPE_CHECKING:
    import tiktoken

TokenCounter: TypeAlias = Callable[[str], int]
"""A function from a text to its number of tokens."""

_BLANKS = r"\s+(?!\S)|\s+"
"""Blanks, except the one that belongs to the next word."""


def _pattern(*easy: str) -> str:
    """Join patterns; those of `easy` do not look ahead, so as one group the regex engine runs them fast."""
    return f"(?:{'|'.join(easy)})|{_BLANKS}"


PATTERNS = {
    "cl100k_base": _pattern(
        r"'(?i:[sdmt]|ll|ve|re)",  # a contraction's end
        r"[^\r\n\p{L}\p{N}]?\p{L}+",  # a word, with one sign or blank before it
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",  # signs, with the line's end
        r"\s+$",
        r"\s*[\r\n]",  # blank lines, up to the last line end
    ),
    "o200k_base": _pattern(
        # A word is capitals and then small letters, so camelCase is two.
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
    ),
}
"""How each encoding cuts a text into the pieces it then merges; part of the encoding's definition."""

CHUNK = 2048
"""Characters given to tiktoken at once. It panics on a million blanks, and before 0.13 its time grows with
the square of the longest piece."""

# Places where a piece ends in both encodings, whatever stands further left or right: before a blank that
# follows a sign or letter; at a line's start (but o200k draws a slash to the line end before it); between a
# letter or digit and a sign (but an apostrophe may belong to the word); between a letter and a digit. Only
# letters and signs of old standing are named, so that no version of Unicode matters.
_LETTER = "A-Za-zぁ-ゖァ-ヺ一-龥"
_SIGN = r"!-&(-/:-@\[-`{-~、。，：；！？"
_EDGES = (
    r"(?<=\S)(?=[ \t])",
    r"(?<=\n)(?=[^\s/])",
    rf"(?<=[{_LETTER}0-9])(?=[{_SIGN}])",
    rf"(?<=[{_LETTER}])(?=[0-9])",
)
_LAST_EDGE = re.compile(f".+(?:{'|'.join(_EDGES)})", re.DOTALL)

_building = Lock()
_built: dict[str, tiktoken.Encoding] = {}


def counter(tokens: str | TokenCounter) -> TokenCounter:
    """A counter by the name of its encoding, or the function itself."""
    if callable(tokens):
        return tokens
    if tokens not in tuple(PATTERNS):
        known = ", ".join(PATTERNS)
        raise ConfigError(f"unknown token encoding {tokens!r}; known: {known}, or any function from text to a number")
    return partial(_count, tokens)


def _count(name: str, text: str) -> int:
    # Ordinary encoding: a special token's text, say in a tool's output, is text like any other.
    encode = encoding(name).encode_ordinary
    return len(encode(text)) if len(text) <= CHUNK else sum(len(encode(chunk)) for chunk in _chunks(text))


def encoding(name: str) -> tiktoken.Encoding:
    """tiktoken's encoding over the carried vocabulary, built at first use and once per process."""
    return _built.get(name) or _build(name)


def _build(name: str) -> tiktoken.Encoding:
    import tiktoken

    from .vocabulary import ranks

    with _building:
        if name not in _built:
            _built[name] = tiktoken.Encoding(
                name, pat_str=PATTERNS[name], mergeable_ranks=ranks(name), special_tokens={}
            )
        return _built[name]


def _chunks(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > CHUNK:
        edge = _LAST_EDGE.match(text, start, start + CHUNK)
        end = edge.end() if edge else start + CHUNK
        yield text[start:end]
        start = end
    yield text[start:]


class Counter:
    """Counts each text once: an agent's history is the same texts again at every step.

    The latest texts are remembered, up to `room` characters in all. Safe to share between threads.
    """

    def __init__(self, tokens: str | TokenCounter = "cl100k_base", *, room: int = 16_000_000) -> None:
        self._fresh = counter(tokens)
        self._known: OrderedDict[str, int] = OrderedDict()
        self._room = room
        self._used = 0
        self._lock = Lock()

    def count(self, text: str) -> int:
        with self._lock:
            known = self._known.get(text)
            if known is not None:
                self._known.move_to_end(text)
                return known
        tokens = self._fresh(text)  # outside the lock: threads count side by side
        self._remember(text, tokens)
        return tokens

    def _remember(self, text: str, tokens: int) -> None:
        size = _size(text)
        with self._lock:
            if size > self._room or text in self._known:  # too long, or another thread was faster
                return
            self._known[text] = tokens
            self._used += size
            while self._used > self._room:
                oldest, _ = self._known.popitem(last=False)
                self._used -= _size(oldest)


def _size(text: str) -> int:
    # An entry has a price beside its characters, so that very many short texts are bounded too.
    return len(text) + 200
