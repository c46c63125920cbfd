"""Count tokens, exactly and offline.

tiktoken counts with the vocabularies shipped in this package; by itself it would download them. A long text is counted
in chunks, cut where both encodings begin a new piece anyway, so the sum is the exact count. Only if 2048 characters in
a row offer no such place (an endless `====`, a block of blanks) is a cut arbitrary; in the texts measured each such cut
changed the count by at most one token on average. In a text of more than four million characters, which no context
window holds, only those are counted, and the rest is extrapolated.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from math import ceil, inf
from numbers import Real
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from .errors import ConfigError, FocusError

if TYPE_CHECKING:
    import tiktoken

TokenCounter: TypeAlias = Callable[[str], int]
"""A function from a text to its number of tokens."""

_BLANKS = r"\s+(?!\S)|\s+"
"""Blanks, except the one that belongs to the next word."""


def _pattern(*easy: str) -> str:
    """Join patterns. Those in `easy` do not look ahead, so the regex engine runs them fast as one group."""
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
        # A word is capitals and then small letters, so camelCase is two words.
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
    ),
}
"""Patterns by which each encoding splits a text into pieces before merging; part of the encoding's definition."""

CHUNK = 2048
"""Characters given to tiktoken at once. It panics on a million blanks, and before 0.13 its time grows with the square
of the longest piece."""

_LONGEST = 4_000_000
"""Most characters of one text that are counted."""

# Places where a piece ends in both encodings, whatever is further left or right: before a blank that follows a sign or
# letter; at a line's start (but o200k attaches a slash to the line end before it); between a letter or digit and a sign
# (but an apostrophe may belong to the word); between a letter and a digit. Only long-established letters and signs are
# named, so that the version of Unicode does not matter.
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
    """Return the counter for an encoding's name, or the function itself."""
    if callable(tokens):
        return tokens
    if tokens not in tuple(PATTERNS):
        known = ", ".join(PATTERNS)
        raise ConfigError(f"unknown token encoding {tokens!r}; known: {known}, or any function from text to a number")
    return partial(_count, tokens)


def _count(name: str, text: str) -> int:
    # Ordinary encoding: the text of a special token, say in a tool's output, is counted like any other text.
    if len(text) > _LONGEST:
        return round(_count(name, text[:_LONGEST]) * len(text) / _LONGEST)
    encode = encoding(name).encode_ordinary
    return len(encode(text)) if len(text) <= CHUNK else sum(len(encode(chunk)) for chunk in _chunks(text))


def _checked(tokens: TokenCounter, text: str) -> int:
    """Return what a user's own function counts, rounded up; raise an error that names it if it fails."""
    name = getattr(tokens, "__name__", repr(tokens))
    try:
        count: Any = tokens(text)
    except Exception as error:
        raise FocusError(f"the function given as tokens ({name}) raised {type(error).__name__}: {error}") from error
    if isinstance(count, bool) or not isinstance(count, Real) or not 0 <= float(count) < inf:
        raise ConfigError(
            f"the function given as tokens ({name}) must return a number, 0 or more, and returned {count!r}"
        )
    return ceil(float(count))


def encoding(name: str) -> tiktoken.Encoding:
    """Return tiktoken's encoding over the shipped vocabulary, built once per process at first use."""
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
    """Counts each text once: an agent's history repeats the same texts at every step.

    The latest texts are remembered, up to `room` characters in all. Safe to share between threads.
    """

    def __init__(self, tokens: str | TokenCounter = "cl100k_base", *, room: int = 16_000_000) -> None:
        self._fresh = partial(_checked, tokens) if callable(tokens) else counter(tokens)
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
        tokens = self._fresh(text)  # outside the lock, so that threads count in parallel
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
    # A fixed cost per entry, so that very many short texts are bounded too.
    return len(text) + 200
