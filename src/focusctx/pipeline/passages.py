"""Cut a text into passages by its structure, and show some of them with marks where others were left out.

JSON is cut between elements, never inside a value, and keeps its keys and brackets. Other text is cut between lines.
The same text is always cut in the same way, so a passage can be named by its number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

SHORT = 160
"""Characters up to which a text is not cut: a mark would save little."""
_PASSAGE = 160
"""Characters of a passage, unless one element or line is longer."""
_OBJECT = 240
"""Characters of a JSON object or array that is cut inside: what belongs together stays together."""
_SMALL = 80
"""Neighbouring elements are joined up to this length; a line that is longer is a passage of its own."""
_LONGEST = 1200
"""A line or JSON element that is longer is cut inside: at its own elements, else at blanks."""
_DEEPEST = 8
_LEAST = 24
"""Characters from which something is left out: a shorter stretch costs little more than its mark."""
_COUNTED = 400
"""Characters from which a mark says how much was left out."""
_OUTCOMES = 3
"""Most lines that tell how something ended."""
_OUTCOME = re.compile(
    r"<returncode>|^\W*(?:error|exception|failed|failure|fatal|traceback|warning|success|done|ok\b|created|deleted"
    r"|updated|saved|written|total)\b|^[\w.]*(?:Error|Exception)\b|\bexit(?:ed)? (?:code|status)|\bno (?:results"
    r"|matches|such)\b|\b\d+ (?:passed|failed|errors?|results?|rows?|matches|files?|items?|hits|more)\b",
    re.IGNORECASE | re.MULTILINE,
)
_NAMING = re.compile(
    r"(?:^|_)(?:id|ids|name|title|status|state|price|amount|total|count|error|message|code|type|ok|success)$"
)
"""Keys whose values say what an object is and how it is: they stay with whatever is shown of it."""
_SENTENCE_ENDS = re.compile(r"(?<=[.?!:])\s+(?=\S)|\n+")
_MARK = re.compile(r"\[…\]|\[… [\d,]+ (?:lines?|characters|more calls?|(?:later|earlier) steps?) left out")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a text: a passage, or a container with pieces inside."""

    start: int
    end: int
    number: int = 0
    """The passage's number; 0 for a container, and for text that is shown with its container."""
    inside: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Passages:
    """A text and its passages, numbered from 1."""

    text: str
    root: Piece
    count: int

    def of(self, number: int) -> str:
        """Return the text of one passage."""
        return next(self.text[piece.start : piece.end] for piece in _leaves(self.root) if piece.number == number)

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Yield every passage with its number, in order."""
        return ((piece.number, self.text[piece.start : piece.end]) for piece in _leaves(self.root) if piece.number)

    def shown(self, numbers: Collection[int]) -> str:
        """Return the text with only these passages, and what always stays, with marks for the rest."""
        return "".join(mark or words for words, mark in self.stretches(numbers))

    def head(self) -> str:
        """Return the lines that come with any passage, such as "page 1 of 3"; "" for a text of one passage."""
        return "".join(words for words, mark in self.stretches(()) if not mark) if self.count > 1 else ""

    def stretches(self, numbers: Collection[int]) -> Iterator[tuple[str, str]]:
        """Cut the whole text into what is shown and what is left out: each stretch, with the mark shown in its place
        if it is left out."""
        if len(numbers) >= self.count:
            yield self.text, ""
            return
        place = 0
        for start, end in (*_stays(self.root, frozenset(numbers), shown=True), (len(self.text), len(self.text))):
            if start > place:
                is_short = start - place < _LEAST
                yield self.text[place:start], "" if is_short else _mark(self.text, place, start)
            yield self.text[start:end], ""
            place = end


def is_shortened(text: str) -> bool:
    """True if a text holds a mark for something left out."""
    return _MARK.search(text) is not None


def cut(text: str, *, speech: bool = False, action: int | None = None) -> Passages:
    """Cut a text into passages. Of a tool's output, lines that tell how it ended are shown in any case; `speech` is cut
    between sentences. Where an agent acts in plain text, `action` is where that begins: its first lines are shown in
    any case, and the rest is cut between lines."""
    if is_short(text):
        return uncut(text, 0)
    if speech:
        inside: tuple[Piece, ...] = (*_sentences(text, 0, len(text) if action is None else action),)
        if action is not None:
            inside = (*inside, *_action_pieces(text, action))
    else:
        inside = _json_pieces(text) or _line_pieces(text)
    numbers = iter(range(1, len(text) + 1))
    root = Piece(0, len(text), inside=tuple(_numbered(piece, numbers) for piece in inside))
    return Passages(text, root, next(numbers) - 1)


def is_short(text: str) -> bool:
    """True if a text is not worth cutting."""
    return len(text) <= SHORT


def uncut(text: str, count: int) -> Passages:
    """Return a text that is shown whole in any case (`count` 0), or as its only passage (`count` 1)."""
    return Passages(text, Piece(0, len(text), count), count)


def _numbered(piece: Piece, numbers: Iterator[int]) -> Piece:
    if piece.inside:
        return replace(piece, inside=tuple(_numbered(one, numbers) for one in piece.inside))
    return replace(piece, number=next(numbers)) if piece.number else piece


def _leaves(piece: Piece) -> Iterator[Piece]:
    if not piece.inside:
        yield piece
    for one in piece.inside:
        yield from _leaves(one)


def _stays(piece: Piece, numbers: Collection[int], *, shown: bool) -> Iterator[tuple[int, int]]:
    """Yield the stretches that stay, in order. Unnumbered text stays if its container is shown."""
    if not piece.inside:
        if piece.number in numbers if piece.number else shown:
            yield piece.start, piece.end
    elif shown or any(leaf.number in numbers for leaf in _leaves(piece) if leaf.number):
        for one in piece.inside:
            yield from _stays(one, numbers, shown=not one.inside)


def _mark(text: str, start: int, end: int) -> str:
    """Return the mark for what was left out, on a line of its own where whole lines were.

    It says how much that is, unless it is a short part of the text.
    """
    left_out = text[start:end]
    ahead = "" if start == 0 or text[start - 1] in " [{(\n" else " "
    behind = "\n" if left_out.endswith("\n") else "" if end == len(text) else " "
    if len(left_out) < min(_COUNTED, len(text)):
        return f"{ahead}[…]{behind}"
    lines = left_out.strip("\n").count("\n") + 1
    if not ahead and behind != " " and text[start - 1 : start] in ("", "\n"):
        return f"[… {lines:,} {'line' if lines == 1 else 'lines'} left out]{behind}"
    return f"{ahead}[… {len(left_out.strip()):,} characters left out]{behind}"


def _sentences(text: str, first: int, stop: int) -> Iterator[Piece]:
    """Cut between sentences and lines; short ones stay together."""
    for end in _SENTENCE_ENDS.finditer(text, first, stop):
        if end.end() - first >= SHORT // 2:
            yield Piece(first, end.end(), 1)
            first = end.end()
    if first < stop:
        yield Piece(first, stop, 1)


def _action_pieces(text: str, start: int) -> Iterator[Piece]:
    """Cut an action in plain text between lines; its beginning is shown in any case."""
    shown = text.find("\n", min(start + SHORT, len(text))) + 1 or len(text)
    if shown - start > _LONGEST:  # one very long line
        shown = text.rfind(" ", start, start + _PASSAGE) + 1 or start + _PASSAGE
    yield Piece(start, shown)
    first = shown
    for begin, stop in _lines(text):
        if begin >= shown and stop - first > _PASSAGE and begin > first:
            yield Piece(first, begin, 1)
            first = begin
    if first < len(text):
        yield Piece(first, len(text), 1)


def _line_pieces(text: str) -> tuple[Piece, ...]:
    """Cut between lines: at blank lines first, before lines with little indentation next."""
    lines = [*_lines(text)]
    telling = _outcomes(text, lines)
    found: list[Piece] = []
    first = 0

    def close(at: int) -> None:
        nonlocal first
        if at > first:
            found.append(Piece(first, at, 1))
        first = at

    for begin, stop in lines:
        if begin in telling:
            close(begin)
            found.append(Piece(begin, stop))
            first = stop
            continue
        length = begin - first
        starts_block = not text[begin].isspace()
        is_long = stop - begin > _SMALL
        if length and (is_long or stop - first > _PASSAGE or (length > _PASSAGE // 2 and starts_block)):
            close(begin)
        if stop - begin > _LONGEST:
            found += _long_line(text, begin, stop)
            first = stop
        elif is_long or (not text[begin:stop].strip() and stop - first > _SMALL):
            close(stop)
    close(len(text))
    return tuple(found)


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each line begins and ends."""
    start = 0
    while start < len(text):
        stop = text.find("\n", start) + 1 or len(text)
        yield start, stop
        start = stop


def _outcomes(text: str, lines: Sequence[tuple[int, int]]) -> frozenset[int]:
    """Return where the lines begin that tell how it ended: the first line, and the last ones that do."""
    near = lines if len(lines) <= 60 else [*lines[:20], *lines[-40:]]
    short = [(begin, stop) for begin, stop in near if stop - begin <= _SMALL]
    found = [begin for begin, stop in short if begin == 0 or _OUTCOME.search(text, begin, stop)]
    return frozenset([*found[:1], *found[1:][-(_OUTCOMES - 1) :]])


def _long_line(text: str, start: int, end: int) -> list[Piece]:
    """Cut a very long line: at the elements of the JSON in it, else at blanks."""
    if pieces := _json_pieces(text, start, end):
        return [Piece(start, end, inside=pieces)]
    found = []
    while end - start > _PASSAGE * 3 // 2:
        at = text.rfind(" ", start + _PASSAGE // 2, start + _PASSAGE) + 1 or start + _PASSAGE
        found.append(Piece(start, at, 1))
        start = at
    return [*found, Piece(start, end, 1)]


def _json_pieces(text: str, start: int = 0, end: int | None = None) -> tuple[Piece, ...]:
    """Return the pieces of a text that is one JSON array or object; empty if it is not."""
    end = len(text) if end is None else end
    first = _after_blanks(text, start)
    if text[first : first + 1] not in ("{", "["):
        return ()
    try:
        value, stop = _DECODER.raw_decode(text, first)
    except (ValueError, RecursionError):
        return ()
    if not value or _after_blanks(text, stop) < end:
        return ()
    piece = _container(text, first, stop, 0)
    tail = (Piece(stop, end),) if end > stop else ()
    return (*((Piece(start, first),) if first > start else ()), *piece.inside, *tail)


_DECODER = json.JSONDecoder(strict=False)
_BLANKS = re.compile(r"[ \t\r\n]*")


def _after_blanks(text: str, place: int) -> int:
    return _BLANKS.match(text, place).end()  # type: ignore[union-attr]  # it matches the empty text


def _container(text: str, start: int, end: int, depth: int) -> Piece:
    """Return the pieces of an array or object whose brackets are at `start` and `end - 1`."""
    place = _after_blanks(text, start + 1)
    pieces = [Piece(start, place)]
    pending = place

    def flush(at: int) -> None:
        nonlocal pending
        if at > pending:
            pieces.append(Piece(pending, at, 1))
        pending = at

    is_object = text[start] == "{"
    while text[place] not in "]}":
        begin, key = place, ""
        if is_object:
            key, place = _DECODER.raw_decode(text, place)
            place = _after_blanks(text, _after_blanks(text, place) + 1)
        opened = place
        value, place = _DECODER.raw_decode(text, place)
        stop = place
        place = _after_blanks(text, place)
        if text[place] == ",":
            place = _after_blanks(text, place + 1)
        is_scalar = not isinstance(value, dict | list)
        if is_object and is_scalar and value not in (None, "") and _NAMING.search(key) and stop - opened <= _SMALL:
            flush(begin)
            pieces.append(Piece(begin, place))
            pending = place
        elif value and isinstance(value, dict | list) and stop - begin > _OBJECT and depth < _DEEPEST:
            flush(begin)
            inner = _container(text, opened, stop, depth + 1).inside
            pieces.append(Piece(begin, place, inside=(Piece(begin, opened), *inner, Piece(stop, place))))
            pending = place
        elif isinstance(value, dict | list) or place - pending > _SMALL:
            flush(begin)
            if isinstance(value, dict) or place - pending > _SMALL:
                flush(place)
    flush(place)
    pieces.append(Piece(place, end))
    return Piece(start, end, inside=tuple(pieces))
