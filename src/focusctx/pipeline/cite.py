"""Step 4, cite: parse a draft's reply into steps, the spans they cite, and rescues.

Models write the two line forms with numbers, bullets, bold type, code fences, other brackets or none; all of these are
accepted. Nothing is guessed: an id that names no span of this history is reported as unknown, and a reply without any
readable dependency list is not a plan and does not vote.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from ..types import Rescue, Sketch, Step

_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_UNFINISHED_THINKING = re.compile(r"<(?:think|thinking|reasoning)>.*", re.DOTALL | re.IGNORECASE)
_DECORATION = re.compile(r"^[\s>#*+•–—-]*(?:\(?\d+[.)]\s*)?[\s*_`]*")
_EMPHASIS = re.compile(r"\*+|__|`|\\(?=[_\[\]|])")
_DEPENDS = re.compile(r"[\s|,;.(–—-]*\bdepend(?:s|ing|ent|encies)?(?:\s+(?:up)?on)?\s*:\s*(?P<ids>.*)$", re.IGNORECASE)
_STEP = re.compile(r"^step\s*#?\s*\d*\s*[:.)–—-]\s*(?P<text>.*)$", re.IGNORECASE)
_RESCUE = re.compile(r"^rescued?\s*(?:spans?)?\s*:\s*(?P<ids>[^|]*)(?:\|\s*(?P<rest>.*))?$", re.IGNORECASE)
_REASON = re.compile(r"^\|?\s*reasons?\s*:\s*(?P<text>.*)$", re.IGNORECASE)

_ID = r"(?:\[?\s*(?:spans?\s*)?s[_\s-]?\{?(\d+)\}?\s*\]?)"
_ITEM = re.compile(rf"{_ID}(?:\s*(?:-|–|—|\.\.+|…|to|through)\s*(?:{_ID}|\[?(\d+)\]?))?", re.IGNORECASE)
_BARE_ITEM = re.compile(r"(\d+)(?:\s*(?:-|–|—|\.\.+|to|through)\s*(\d+))?")
_BETWEEN = re.compile(r"[\s,;&+/\[\]]*(?:and\b|\bor\b)?[\s,;&\[\]]*", re.IGNORECASE)
_BRACKETS = re.compile(r"[\[({<](?P<inside>.*?)[\])}>]")
_NOTHING = re.compile(
    r"^[\s\[\](){}<>]*(?:none|nothing|no(?:\s+\w+)?|n/?a|null|empty|∅|-|–|—)?[\s\[\](){}<>.]*$", re.IGNORECASE
)


def read_sketch(text: str, spans: int | Collection[int], *, truncated: bool = False) -> Sketch:
    """Parse the plan in a reply about a history of spans 1 to `spans`, or of exactly the spans listed."""
    known = range(1, spans + 1) if isinstance(spans, int) else spans
    steps: list[Step] = []
    rescues: list[Rescue] = []
    unknown: list[str] = []
    lists_read = 0
    for line in _lines(text, truncated):
        if (rescue := _RESCUE.match(line)) is not None:
            ids = _Ids(rescue["ids"], known)
            reason = _REASON.match(rescue["rest"] or "")
            rescues.append(Rescue(ids.known, reason["text"].strip() if reason else (rescue["rest"] or "").strip()))
        elif (depends := _DEPENDS.search(line)) is not None:
            ids = _Ids(depends["ids"], known)
            _add_step(steps, line[: depends.start()], ids.known)
        else:
            _add_plain(line, steps, rescues)
            continue
        unknown += ids.unknown
        lists_read += ids.readable
    sketch = Sketch(text, tuple(steps), tuple(rescues), tuple(dict.fromkeys(unknown)))
    if not lists_read:
        return _no_plan(sketch, "no line says what it depends on")
    if unknown and not (sketch.cited or sketch.rescued):
        return _no_plan(sketch, f"every span it names is unknown: {', '.join(sketch.unknown[:5])}")
    return sketch


def _no_plan(sketch: Sketch, problem: str) -> Sketch:
    return Sketch(sketch.text, sketch.steps, sketch.rescues, sketch.unknown, problem)


def _lines(text: str, truncated: bool) -> Iterator[str]:
    """Yield the reply's lines without a reasoning model's preamble and without decoration."""
    text = _THINKING.sub("", text)
    if "</think>" in text:  # some servers strip only the opening tag
        text = text.rsplit("</think>", 1)[1]
    text = _UNFINISHED_THINKING.sub("", text)
    lines = text.splitlines()
    if truncated and lines:
        lines.pop()  # may be cut anywhere, even between the digits of an id
    for line in lines:
        plain = _EMPHASIS.sub("", _DECORATION.sub("", line)).strip()
        if plain:
            yield plain


def _add_step(steps: list[Step], head: str, cites: tuple[int, ...]) -> None:
    """Add a line with dependencies: a new step, or the second half of the step line before it."""
    named = _STEP.match(head)
    text = (named["text"] if named else head).strip(" |")
    if text or not steps:
        steps.append(Step(text, cites))
    else:
        steps[-1] = Step(steps[-1].text, tuple(dict.fromkeys((*steps[-1].cites, *cites))))


def _add_plain(line: str, steps: list[Step], rescues: list[Rescue]) -> None:
    """Handle a line without a list: a step whose list comes next, a reason on its own line, or text to ignore."""
    reason = _REASON.match(line)
    if reason is not None and rescues and not rescues[-1].reason:
        rescues[-1] = Rescue(rescues[-1].spans, reason["text"].strip())
    elif (named := _STEP.match(line)) is not None:
        steps.append(Step(named["text"].strip(" |"), ()))


class _Ids:
    """The ids at the start of a list's text; anything after them is commentary."""

    def __init__(self, text: str, spans: Collection[int]) -> None:
        self.unknown: list[str] = []
        self._known: dict[int, None] = {}
        self._spans = spans
        named = self._read(text.lstrip(" ("), _ITEM)
        bracket = _BRACKETS.match(text.strip())
        if not named and bracket is not None:
            named = self._read(bracket["inside"], _BARE_ITEM)
        if not named and not _NOTHING.match(bracket["inside"] if bracket else text):
            self.unknown.append(text.strip()[:80])
            self.readable = False
        else:
            self.readable = True

    @property
    def known(self) -> tuple[int, ...]:
        return tuple(self._known)

    def _read(self, text: str, item: re.Pattern[str]) -> bool:
        position = _BETWEEN.match(text).end()  # type: ignore[union-attr]  # it matches the empty text
        found_any = False
        while (found := item.match(text, position)) is not None:
            found_any = True
            numbers = [int(number) for number in found.groups() if number is not None and len(number) < 10]
            self._take(found[0].strip(" []"), numbers)
            position = _BETWEEN.match(text, found.end()).end()  # type: ignore[union-attr]
        return found_any

    def _take(self, written: str, numbers: list[int]) -> None:
        if not numbers or not all(number in self._spans for number in numbers) or numbers[0] > numbers[-1]:
            self.unknown.append(written)
        else:
            self._known.update((index, None) for index in range(numbers[0], numbers[-1] + 1) if index in self._spans)
