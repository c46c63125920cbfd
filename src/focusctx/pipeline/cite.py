"""Step 4, cite: parse a draft's reply into steps, the spans they cite, and rescues.

Models write the two line forms with numbers, bullets, bold type, code fences, other brackets or none; all of these are
accepted. Nothing is guessed: an id that names no span of this history is reported as unknown, and a reply without any
readable dependency list is not a plan and does not vote.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ..types import Rescue, Sketch, Step, Unit

_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_UNFINISHED_THINKING = re.compile(r"<(?:think|thinking|reasoning)>.*", re.DOTALL | re.IGNORECASE)
_DECORATION = re.compile(r"^[\s>#*+•–—-]*(?:\(?\d+[.)]\s*)?[\s*_`]*")
_EMPHASIS = re.compile(r"\*+|__|`|\\(?=[_\[\]|])")
_DEPENDS = re.compile(r"[\s|,;.(–—-]*\bdepend(?:s|ing|ent|encies)?(?:\s+(?:up)?on)?\s*:\s*(?P<ids>.*)$", re.IGNORECASE)
_STEP = re.compile(r"^step\s*#?\s*\d*\s*[:.)–—-]\s*(?P<text>.*)$", re.IGNORECASE)
_RESCUE = re.compile(r"^rescued?\s*(?:spans?)?\s*:\s*(?P<ids>[^|]*)(?:\|\s*(?P<rest>.*))?$", re.IGNORECASE)
_REASON = re.compile(r"^\|?\s*reasons?\s*:\s*(?P<text>.*)$", re.IGNORECASE)

_ID = r"(?:\[?\s*(?:spans?\s*)?s[_\s-]?\{?(\d+)\}?(?:\.(\d+))?(?:\.[a-z]\b)?\s*\]?)"
_ITEM = re.compile(rf"{_ID}(?:\s*(?:-|–|—|\.\.+|…|to|through)\s*(?:{_ID}|\[?(\d+)\]?))?", re.IGNORECASE)
_BARE_ITEM = re.compile(r"(\d+)(?:\.(\d+))?(?:\s*(?:-|–|—|\.\.+|to|through)\s*(\d+)(?:\.(\d+))?())?")
_BETWEEN = re.compile(r"[\s,;&+/\[\]]*(?:and\b|\bor\b)?[\s,;&\[\]]*", re.IGNORECASE)
_BRACKETS = re.compile(r"[\[({<](?P<inside>.*?)[\])}>]")
_NOTHING = re.compile(
    r"^[\s\[\](){}<>]*(?:none|nothing|no(?:\s+\w+)?|n/?a|null|empty|∅|-|–|—)?[\s\[\](){}<>.]*$", re.IGNORECASE
)


def read_sketch(text: str, spans: int | Mapping[int, int] | Collection[int], *, truncated: bool = False) -> Sketch:
    """Parse the plan in a reply about a history of spans 1 to `spans`, or of exactly the spans listed.

    A mapping says how many passages each span has.
    """
    known = range(1, spans + 1) if isinstance(spans, int) else spans
    known = known if isinstance(known, Mapping) else dict.fromkeys(known, 0)
    steps: list[Step] = []
    rescues: list[Rescue] = []
    unknown: list[str] = []
    lists_read = 0
    for line in _lines(text, truncated):
        if (rescue := _RESCUE.match(line)) is not None:
            ids = _Ids(rescue["ids"], known)
            reason = _REASON.match(rescue["rest"] or "")
            said = reason["text"].strip() if reason else (rescue["rest"] or "").strip()
            rescues.append(Rescue(ids.known, said, ids.parts))
        elif (depends := _DEPENDS.search(line)) is not None:
            ids = _Ids(depends["ids"], known)
            _add_step(steps, line[: depends.start()], ids)
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


def _add_step(steps: list[Step], head: str, ids: _Ids) -> None:
    """Add a line with dependencies: a new step, or the second half of the step line before it."""
    named = _STEP.match(head)
    text = (named["text"] if named else head).strip(" |")
    if text or not steps:
        steps.append(Step(text, ids.known, ids.parts))
    else:
        last = steps[-1]
        whole = tuple(dict.fromkeys((*last.cites, *ids.known)))
        steps[-1] = Step(last.text, whole, tuple(dict.fromkeys((*last.parts, *ids.parts))))


def _add_plain(line: str, steps: list[Step], rescues: list[Rescue]) -> None:
    """Handle a line without a list: a step whose list comes next, a reason on its own line, or text to ignore."""
    reason = _REASON.match(line)
    if reason is not None and rescues and not rescues[-1].reason:
        rescues[-1] = replace(rescues[-1], reason=reason["text"].strip())
    elif (named := _STEP.match(line)) is not None:
        steps.append(Step(named["text"].strip(" |"), ()))


class _Ids:
    """The ids at the start of a list's text; anything after them is commentary."""

    def __init__(self, text: str, spans: Mapping[int, int]) -> None:
        self.unknown: list[str] = []
        self._whole: dict[int, None] = {}
        self._parts: dict[Unit, None] = {}
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
        return tuple(self._whole)

    @property
    def parts(self) -> tuple[Unit, ...]:
        return tuple(unit for unit in self._parts if unit[0] not in self._whole)

    def _read(self, text: str, item: re.Pattern[str]) -> bool:
        position = _BETWEEN.match(text).end()  # type: ignore[union-attr]  # it matches the empty text
        found_any = False
        while (found := item.match(text, position)) is not None:
            found_any = True
            self._take(found[0].strip(" []"), [int(n) if n and len(n) < 10 else None for n in found.groups()])
            position = _BETWEEN.match(text, found.end()).end()  # type: ignore[union-attr]
        return found_any

    def _take(self, written: str, numbers: list[int | None]) -> None:
        """Take one id, or a range of them: `s_3`, `s_3.2`, `s_3-s_5`, `s_3-5`, `s_3.1-s_3.4`, `s_3.1-4`."""
        first, part, last, to, bare = numbers
        if part is not None and bare is not None:
            last, to, bare = first, bare, None
        last = last if last is not None else bare if bare is not None else first
        if first is None or last is None or not (first in self._spans and last in self._spans and first <= last):
            self.unknown.append(written)
        elif part is None or (first != last and to is None) or not self._spans[first]:
            # A step that is not divided is meant as a whole, whatever part of it is named.
            self._whole.update((index, None) for index in range(first, last + 1) if index in self._spans)
        elif first == last and 0 <= part <= (stop := part if to is None else to) <= self._spans[first]:
            self._parts.update(((first, number), None) for number in range(part, stop + 1))
        else:
            self.unknown.append(written)
