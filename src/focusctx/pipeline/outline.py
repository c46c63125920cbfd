"""A step in short: its long texts cut into passages `s_7.1`, `s_7.2`, …, and what stays if none is kept.

A step shown without any passage is a record: what was done, in the call's own words, and the lines that tell how it
ended. Short texts belong to the record. The model's own turn is never altered beside hidden reasoning.

Where steps are gone altogether, a joint record says so behind a shortened one, with a line for each of their deeds.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from ..drafts.reading import (
    StepFacts,
    StepReading,
    details_in,
    facts_of,
    is_plain,
    is_shown_once,
    may_state_rules,
    rules_in,
    words_of,
)
from ..types import Call, Message, Span
from ..wire import Role, Text, Wire, wire_named
from ..wire.calls import arguments_of, calls_of, failed_calls, is_reading
from ..wire.part import MEDIA_TOKENS, MODEL_ROLES, block_numbers, join, without_blocks
from .deeds import ACCESS, Deed, deed_lines, deeds_of
from .passages import SHORT, Passages, cut, is_short, uncut

if TYPE_CHECKING:
    from .split import Count

Parts: TypeAlias = frozenset[int]
"""Parts that a shortened step shows: the numbers of its passages. Where some of its calls are left out, `-1` stands for
its first call, `-2` for its second, and so on: these stay, and so do calls with a passage that stays."""

NO_MEDIA = "[… image or file left out]"
_MOST_NAMES = 5
"""Most tools that a mark names."""
_FEW = 3
"""Most calls of steps that are gone that a mark names one by one."""
_MOST_VALUES = 8
"""Most arguments that a mark names for a tool."""
_PLAIN = re.compile(r"[\w@#./:+-][\w@#./:+ -]{0,39}")
"""An argument that a mark can name: short, without quotes and brackets."""
_LINE_ERROR = 2
"""Tokens that a line may count for beyond its own when it is put behind a text."""
_SIZES = 32
"""Most sizes that are remembered of one step."""
_HEAD_TOKENS = 10
"""Most tokens of the words around deeds in a joint record."""


def shown_passages(parts: Collection[int]) -> tuple[int, ...]:
    """Return the numbers of the passages among the parts that a shortened step shows."""
    return tuple(sorted(number for number in parts if number > 0))


@dataclass(frozen=True)
class Passage:
    """One passage of a step. It remembers its facts and rules, so that a later event reads only what is new."""

    number: int
    text: str
    tokens: int
    role: Role
    call: str
    """The id of the call that it belongs to; "" in speech and in text agents' observations."""
    extra: int = 0
    """Tokens of that call, if the record leaves it out."""

    @cached_property
    def facts(self) -> frozenset[str]:
        return facts_of(self.text)

    @cached_property
    def details(self) -> frozenset[str]:
        return details_in(self.text)

    @cached_property
    def words(self) -> frozenset[str]:
        return words_of(self.text)

    @cached_property
    def is_plain(self) -> bool:
        return is_plain(self.text)

    @cached_property
    def is_shown_once(self) -> bool:
        return is_shown_once(self.text)

    @cached_property
    def rules(self) -> frozenset[str]:
        """The lines of it that state rules."""
        return frozenset(rules_in(self.text))


@dataclass(frozen=True)
class Outline:
    """A step as a record and passages."""

    span: Span
    passages: tuple[Passage, ...]
    """The passages that can be shown: all of them, or what an earlier event left."""
    turn: str
    """The model's own words and calls, as a record shows them."""
    results: str
    """The results, as a record shows them."""
    record: Parts
    """The calls that a record shows; none for all of them."""
    record_tokens: int
    tokens: int
    """Tokens of the step with all its passages."""
    reading: StepReading
    """Facts, calls and failures of the whole step."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """For each call that the record leaves out, the lines that come with any passage of its result."""
    left: Parts | None = None
    """Parts that an earlier event left of it; None if it was not shortened."""

    @cached_property
    def facts_by_part(self) -> StepFacts:
        """The facts of its record and its passages."""
        return StepFacts(self.reading, self.span, self)

    @cached_property
    def may_state_rules(self) -> bool:
        """True if its results have words without which there is no rule."""
        return may_state_rules(self.span.observation)

    @property
    def is_turn_whole(self) -> bool:
        """True if a record shows all that the model said and did."""
        return all(passage.role is Role.RESULT for passage in self.passages)

    def text_of(self, number: int) -> str:
        """Return the text of a passage; of number 0, what a record shows."""
        if number == 0:
            return join([self.turn, self.results])
        return next(passage.text for passage in self.passages if passage.number == number)


@dataclass(slots=True)
class _Step:
    """Everything known of a step, for as long as it does not grow."""

    span: Span
    texts: StepTexts
    whole: Outline | None = None
    left: Outline | None = None
    """Its outline as an event left it, the latest."""
    deeds: tuple[tuple[Deed, ...], int] | None = None
    """Its deeds, and the tokens of their lines."""
    sizes: dict[tuple[Parts, str], int] = field(default_factory=dict)
    """Tokens of the step with certain parts and a certain ending."""


class Outlines:
    """The outlines of a history's steps: each is made once, and again when its step has grown.

    `left` holds the steps that an earlier event shortened, with the passages it left.
    """

    def __init__(
        self, format: str, count: Count, reads: Collection[str] = (), left: Mapping[int, Parts] | None = None
    ) -> None:
        self.format = format
        self.count = count
        self.left = left or {}
        self._reads = reads
        self._steps: dict[int, _Step] = {}

    def of(self, span: Span) -> Outline:
        step, parts = self._step(span), self.left.get(span.index)
        if step.whole is None or (parts is None and step.whole.span.tokens != span.tokens):
            step.whole = outline(span, self.format, self.count, self._reads, step.texts)
        if parts is None:
            return step.whole
        known = step.left
        if known is None or known.left != parts or known.span.tokens != span.tokens:
            step.left = known = self._as_left(step.whole, span, parts)
        return known

    def after(self, left: Mapping[int, Parts]) -> Outlines:
        """Return the outlines of what an event left; what is known of the steps is shared."""
        later = Outlines(self.format, self.count, self._reads, left)
        later._steps = self._steps
        return later

    def deeds(self, span: Span) -> tuple[Deed, ...]:
        """Return what a step did, as a joint record has it when the step is gone."""
        return self._deeds_with_tokens(span)[0]

    def deed_tokens(self, span: Span) -> int:
        """Tokens of the lines of its deeds."""
        return self._deeds_with_tokens(span)[1]

    def has_result(self, span: Span) -> bool:
        """True if a step has a result that a line can be put behind."""
        return self._step(span).texts.has_result

    def shortener(self, span: Span, parts: Parts, ending: str = "") -> Shortener:
        """Return what shortens the messages of a step."""
        return Shortener(span, wire_named(self.format), parts, ending, self._step(span).texts)

    def tokens(self, span: Span, parts: Parts, ending: str = "") -> int:
        """Tokens of a step with these passages, exactly; `ending` as for `Shortener`."""
        sizes = self._step(span).sizes
        tokens = sizes.get((parts, ending))
        if tokens is None:
            wire, left = wire_named(self.format), self.shortener(span, parts, ending).messages()
            tokens = sum(message_tokens(message, wire, self.count) for message in left)
            if len(sizes) >= _SIZES:
                sizes.clear()
            sizes[parts, ending] = tokens
        return tokens

    def _step(self, span: Span) -> _Step:
        """Return what is known of a step; nothing is known of one that has grown."""
        known = self._steps.get(span.index)
        if known is None or known.span.messages is not span.messages:
            self._steps[span.index] = known = _Step(span, StepTexts(span, self.format))
        return known

    def _deeds_with_tokens(self, span: Span) -> tuple[tuple[Deed, ...], int]:
        step = self._step(span)
        if step.deeds is None:
            deeds = deeds_of(span, self.format, self._reads)
            step.deeds = deeds, sum(self.count(f"{deed.line}\n") for deed in deeds)
        return step.deeds

    def _as_left(self, whole: Outline, span: Span, parts: Parts) -> Outline:
        """Return the outline of a step as an event left it; its span has the size that it has since."""
        return replace(
            whole,
            span=span,
            passages=tuple(passage for passage in whole.passages if passage.number in parts),
            record_tokens=whole.record_tokens if whole.passages or whole.record else span.tokens,
            tokens=self.tokens(span, parts),
            left=parts,
        )


def message_tokens(message: Message, wire: Wire, count: Count) -> int:
    """Tokens that a message adds to its history, independent of the messages before it."""
    parts = (part for part in wire.read(message, 0) if not part.static)
    return sum(sum(map(count, part.counted)) + part.extra_tokens for part in parts)


def outline(
    span: Span, format: str, count: Count, reads: Collection[str] = (), texts: StepTexts | None = None
) -> Outline:
    """Return the outline of a step; one without messages is its own record. `texts` are its texts if they are known."""
    turn = join([span.thought, span.action])
    reading = StepReading(span, format)
    undivided = Outline(span, (), turn, span.observation, frozenset(), span.tokens, span.tokens, reading)
    if format == "spans":
        return undivided
    wire = wire_named(format)
    stays = _record_calls(span, wire, reads)
    left_out = {call.id: call.text for number, call in enumerate(span.calls, 1) if stays and -number not in stays}
    passages: list[Passage] = []
    heads: dict[str, str] = {}
    texts = texts or StepTexts(span, format)
    for message in span.messages:
        for text, cut_text in texts.of(message):
            media = text.media * MEDIA_TOKENS
            is_free = is_short(text.text) and text.call not in left_out  # the record shows it
            extra = count(left_out[text.call]) if text.call in left_out else 0
            if text.call in left_out and text.role is Role.RESULT:
                heads[text.call] = join([heads.get(text.call, ""), cut_text.head()])
            passages += (
                Passage(len(passages) + 1, words, 0 if is_free else media + count(words), text.role, text.call, extra)
                for _, words in cut_text.numbered()
            )
    if not passages and not left_out:
        return undivided
    record = Shortener(span, wire, stays, texts=texts).messages()
    read = [part for message in record for part in wire.read(message, 0)]
    return Outline(
        span,
        tuple(passages),
        join([text for part in read for text in (part.thought, part.action)]),
        join([part.text for part in read]),
        stays,
        sum(message_tokens(message, wire, count) for message in record),
        span.tokens,
        reading,
        heads,
    )


def _record_calls(span: Span, wire: Wire, reads: Collection[str]) -> Parts:
    """Return the calls that a record of the step shows: those that changed something or failed, else the first one.

    Empty for all of them: there is only one, or the turn must stay as the model wrote it.
    """
    if not _may_lose_calls(span, wire):
        return frozenset()
    failed = failed_calls(span, wire.name)
    calls = enumerate(span.calls, 1)
    stay = frozenset(-number for number, call in calls if call.id in failed or not is_reading(call, reads))
    return stay or frozenset({-1})


def _may_lose_calls(span: Span, wire: Wire) -> bool:
    """True if calls of a step can be left out: it made several in one turn, and the turn need not stay as it is.

    A step of several turns is work that the provider goes on with, such as a program that calls tools.
    """
    return len(span.calls) > 1 and not (span.reasons or span.waiting) and wire.can_lose_calls(span.messages)


def shortened(span: Span, wire: Wire, parts: Parts, ending: str = "") -> tuple[Message, ...]:
    """Return the step's messages with only these passages and calls, and what a record shows."""
    return Shortener(span, wire, parts, ending).messages()


class Shortener:
    """Shortens the messages of one step, in order: its passages are numbered through all of them."""

    def __init__(self, span: Span, wire: Wire, parts: Parts, ending: str = "", texts: StepTexts | None = None) -> None:
        """`ending` is a mark to put behind the last result, for steps beside this one that are gone. `texts` are the
        step's texts if they are known."""
        self._span = span
        self._wire = wire
        self._parts = parts
        self._ending = ending
        self._texts = texts or StepTexts(span, wire.name)
        self._before = 0
        self.gone = self._calls_gone() if any(number < 0 for number in parts) else frozenset[str]()
        """The ids of the calls that are left out."""
        self._results = sum(self._is_result(text) for message in span.messages for text, _ in self._texts.of(message))

    def messages(self) -> tuple[Message, ...]:
        """Return the step's messages with what is wanted of them."""
        found = map(self.message, self._span.messages)
        return tuple(message for message in found if message is not None)

    def message(self, message: Message) -> Message | None:
        """Return the message with what is wanted of it; None if that is nothing."""
        changed, gone = self.in_place(message)
        return without_blocks(changed, gone) if gone else changed

    def in_place(self, message: Message, blocks: Collection[int] | None = None) -> tuple[Message, frozenset[int]]:
        """Shorten the message, or only these of its content blocks; return it with the numbers of blocks that go."""
        changed: dict[int, str] = {}
        gone: set[int] = set()
        for place, (text, cut_text) in enumerate(self._texts.of(message)):
            if blocks is not None and text.block is not None and text.block not in blocks:
                continue
            own = [number for number in range(1, cut_text.count + 1) if self._before + number in self._parts]
            self._before += cut_text.count
            if text.call in self.gone and text.role is Role.RESULT:
                gone.update(block_numbers(message) or [0] if text.block is None else [text.block])
                continue
            if len(own) < cut_text.count and (text.media or not is_short(text.text)):
                changed[place] = cut_text.shown(own) + (NO_MEDIA if text.media else "")
            self._results -= self._is_result(text)
            if self._ending and not self._results and self._is_result(text):
                changed[place] = f"{changed.get(place, text.text)}\n{self._ending}"
                self._ending = ""
        if changed:
            message = self._wire.with_texts(message, changed)
        if self.gone and message.get("role") in MODEL_ROLES:
            message = self._wire.without_calls(message, self.gone, self.mark()) or message
        return message, frozenset(gone)

    def _is_result(self, text: Text) -> bool:
        """True for a result that stays as text."""
        return text.role is Role.RESULT and not text.media and text.call not in self.gone

    def _calls_gone(self) -> frozenset[str]:
        """Return the ids of the calls that go: those that are not named and have no passage that stays."""
        passages = (one for message in self._span.messages for one in self._texts.of(message))
        needed, number = set(), 0
        for text, cut_text in passages:
            if any(number + own in self._parts for own in range(1, cut_text.count + 1)):
                needed.add(text.call)
            number += cut_text.count
        calls = enumerate(self._span.calls, 1)
        return frozenset(call.id for place, call in calls if -place not in self._parts and call.id not in needed)

    def mark(self) -> str:
        """Return the mark for calls that were left out: how many, of which tools, and what for."""
        left_out = [call for call in self._span.calls if call.id in self.gone]
        tools = Counter(call.name for call in left_out).most_common()
        named = [_named(name, [call for call in left_out if call.name == name]) for name, _ in tools[:_MOST_NAMES]]
        more = ["…"] if len(tools) > _MOST_NAMES else []
        calls = "call" if len(self.gone) == 1 else "calls"
        return f"[… {len(self.gone)} more {calls} left out: {', '.join([*named, *more])}]"


def joint_records(
    spans: Sequence[Span], kept: Collection[int], shortened: Mapping[int, Parts], outlines: Outlines
) -> dict[int, str]:
    """Return a line for each run of steps that are gone, by the shortened step it is put behind, with their deeds."""
    lines: dict[int, str] = {}
    for anchor, place, steps in _gone_runs(spans, kept, shortened, outlines):
        deeds = [deed for span in steps for deed in outlines.deeds(span)]
        line = _joint_record(steps, place, outlines)
        if deeds:
            line = "\n".join([f"{line[:-1]}. Done in them:", *deed_lines(deeds), "…]"])
        lines[anchor] = join([lines.get(anchor, ""), line])
    return lines


def joint_tokens(
    spans: Sequence[Span], kept: Collection[int], shortened: Mapping[int, Parts], outlines: Outlines
) -> int:
    """Most tokens of the joint records."""
    tokens = 0
    for _, place, steps in _gone_runs(spans, kept, shortened, outlines):
        tokens += outlines.count(f"\n{_joint_record(steps, place, outlines)}") + _LINE_ERROR
        if deeds := sum(map(outlines.deed_tokens, steps)):
            tokens += deeds + _HEAD_TOKENS
    return tokens


def _gone_runs(
    spans: Sequence[Span], kept: Collection[int], shortened: Mapping[int, Parts], outlines: Outlines
) -> list[tuple[int, str, list[Span]]]:
    """Return the runs of steps that are gone, each with the shortened step to say so and where it is from there.

    That is the step right before the run, or right after it, if it can take the line: it is shortened and has a result.
    Else it is the last one before the run that can, or the first one of all.
    """
    if not shortened or outlines.format == "spans":
        return []
    present = [span for span in spans if span.index in kept or span.index in shortened]
    places = [span.index for span in present]
    able = [span.index for span in present if span.index in shortened and outlines.has_result(span)]
    gone: dict[tuple[int, bool], list[Span]] = {}
    for span in spans if able else ():
        if span.index not in kept and span.index not in shortened:
            place, last = bisect(places, span.index), bisect(able, span.index)
            before, after = able[max(last - 1, 0)], able[min(last, len(able) - 1)]
            is_right_before_next = places[place : place + 1] == [after] and places[max(place - 1, 0)] != before
            anchor = after if is_right_before_next else before
            gone.setdefault((anchor, anchor < span.index), []).append(span)
    runs = sorted(gone.items(), key=lambda found: found[0])
    return [(anchor, "later" if later else "earlier", steps) for (anchor, later), steps in runs]


def _joint_record(steps: Sequence[Span], place: str, outlines: Outlines) -> str:
    silent = [call for span in steps if not outlines.deeds(span) for call in calls_of(span)]
    names = ", ".join(map(_alone, silent)) if len(silent) <= _FEW else _counted(call.name for call in silent)
    named = f": {names}" if names else ""
    return f"[… {len(steps)} {place} {'step' if len(steps) == 1 else 'steps'} left out{named}]"


def _alone(call: Call) -> str:
    """Return a tool's name, with the first thing that it was called for, if that is short and no access token."""
    asked = next((str(value) for key, value in arguments_of(call).items() if not ACCESS.search(key)), "")
    return f"{call.name} ({asked})" if _PLAIN.fullmatch(asked) else call.name


def _named(name: str, calls: Sequence[Call]) -> str:
    """Return a tool's name with the times it was called, and the arguments by which these calls differ."""
    if len(calls) == 1:
        return _alone(calls[0])
    given = [arguments_of(call) for call in calls]
    keys = [key for key in given[0] if len({str(one.get(key)) for one in given}) == len(calls)]
    values = [str(one[keys[0]]) for one in given] if keys else []
    times = f"{name} ×{len(calls)}"
    if not values or not all(map(_PLAIN.fullmatch, values)):
        return times
    return f"{times} ({', '.join([*values[:_MOST_VALUES], *(['…'] if len(values) > _MOST_VALUES else [])])})"


def _counted(names: Iterable[str]) -> str:
    """Return names with the times they occur, the most frequent first."""
    counts = Counter(names).most_common()
    found = [name if times == 1 else f"{name} ×{times}" for name, times in counts[:_MOST_NAMES]]
    return ", ".join([*found, "…"] if len(counts) > _MOST_NAMES else found)


def _action_in(text: Text, span: Span) -> int | None:
    """Return where the action begins in what an agent says that acts in plain text; None if there is none."""
    if text.role is not Role.SPEECH or span.calls or not span.action:
        return None
    place = text.text.find(span.action[:SHORT])
    return place if place >= 0 else None


class StepTexts:
    """The texts of a step's messages, each cut into passages once."""

    def __init__(self, span: Span, format: str) -> None:
        self._span = span
        self._format = format

    def of(self, message: Message) -> Sequence[tuple[Text, Passages]]:
        """Return the texts of a message that may be shown in part, with their passages.

        It is the step's own, or one that it shares with others, in the history.
        """
        own = self._own.get(id(message))
        return self._cut(message) if own is None else own

    @cached_property
    def has_result(self) -> bool:
        """True if there is a result that a line can be put behind."""
        texts = (text for message in self._span.messages for text, _ in self.of(message))
        return any(text.role is Role.RESULT and not text.media for text in texts)

    @cached_property
    def _own(self) -> dict[int, Sequence[tuple[Text, Passages]]]:
        """The texts of the step's own messages, by the identity of the message: the span holds them."""
        return {id(message): self._cut(message) for message in self._span.messages}

    def _cut(self, message: Message) -> Sequence[tuple[Text, Passages]]:
        return [(text, self._passages_of(text)) for text in wire_named(self._format).texts(message)]

    def _passages_of(self, text: Text) -> Passages:
        span = self._span
        if span.reasons and text.role is not Role.RESULT:
            return uncut(text.text, 0)
        if text.role is Role.RESULT and is_short(text.text) and _may_lose_calls(span, wire_named(self._format)):
            return uncut(text.text, 1)  # it may go with its call, so it can be asked for
        if text.media:  # images go with all of their text, since a shortened result is plain text
            return uncut(text.text, 1)
        return cut(text.text, speech=text.role is Role.SPEECH, action=_action_in(text, span))
