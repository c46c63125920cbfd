"""Evidence: the facts that the actions of a recorded run needed of its past, and the failures that they repeated.

A *fact* is a string that an agent has to get right to the letter. One that an action uses is *evidence* when an earlier
span gave it (its thought, action or observation holds it) and nothing that always stays does: no system prompt, no word
the user had said by then.

The pattern for failures covers the common ways in which tools report them. It differs from the offline draft's pattern
on purpose: a measure must not be built from what it measures.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from ..types import History, Message, Span
from ..wire import Kind, Part, wire_named
from ..wire.gemini import calls_in
from .runs import Run, part_tokens

NEEDED = re.compile(
    r"""
      [\w.+-]+@[\w-]+(?:\.[\w-]+)+                     # e-mail addresses
    | (?:~|\.{1,2})?(?:/?[\w.-]+/)+[\w.-]*\w           # paths
    | \#?(?=[\w-]*\d)(?=[\w-]{4,})\w+(?:-\w+)*         # ids, dates, hex, numbers of four digits or more
    | [A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+                  # dotted names and file names
    | \w*[A-Za-z0-9]_\w+                               # snake_case
    | [A-Za-z]*[a-z][A-Z]\w*                           # CamelCase
    """,
    re.VERBOSE,
)
_SHELL = re.compile(r"```(?:bash|sh)\n(.*?)```", re.DOTALL)
"""The block that a text agent runs; other blocks in its turn are quotations."""
_ESCAPE = re.compile(r"\\[nrt]")
"""Escapes in a code string: `print("\\nTotal")` does not use a name `nTotal`."""
_GIVEN = ("arguments", "input", "action", "code", "query")
"""Fields in which items of the Responses format hold a call's arguments."""
_FAILED = re.compile(
    r"<returncode>\s*[^0\s<]"  # an exit status that is not 0
    r"|\bexit (?:code|status)\W{1,3}[1-9]"
    r"|^Traceback \(most recent call last\)"
    r"|\A\s*(?:Error|ERROR|Exception|Failed|Invalid)\b"
    r'|\A\s*\{\s*"error"\s*:\s*+(?!null|false|"")'
    r'|"(?:success|ok)"\s*:\s*false',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """One turn of the recorded agent."""

    span: int
    messages: int
    """The leading messages of the run it was made on."""
    uses: frozenset[str]
    """All facts in its arguments."""
    needs: frozenset[str]
    """The facts among them that only earlier spans gave: its evidence."""
    output_tokens: int
    """Tokens of the turn itself: `n_o`."""
    repeats: tuple[int, ...]
    """Earlier spans with the very same call that failed, as this one will; mostly none."""


class Evidence:
    """One run, its spans, and what each action needed."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.history: History = run.history()
        """The whole run."""
        self._texts = [text_of(span) for span in self.history.spans]
        self._used = [facts_in(arguments(span)) for span in self.history.spans]
        self._starts = _starts(self.history)

    @cached_property
    def facts(self) -> frozenset[str]:
        """All facts that some action uses."""
        return frozenset[str]().union(*self._used)

    @cached_property
    def actions(self) -> tuple[RecordedAction, ...]:
        """The turns made on a history: all but a greeting at the very beginning."""
        repeats = repeated_failures(self.history.spans)
        opening = next((place for place, fixed in enumerate(self._fixed) if not fixed.is_static), 0)
        found = []
        given: set[str] = set()
        for number, span in enumerate(self.history.spans):
            start, uses = self._starts[number], self._used[number]
            if start > opening:
                stays = self.always_there(start)
                needs = frozenset(fact for fact in uses & given if fact not in stays)
                output = sum(part_tokens(part) for part in self._parts(span) if part.kind is Kind.TURN)
                found.append(RecordedAction(span.index, start, uses, needs, output, repeats.get(span.index, ())))
            given |= {fact for fact in self.facts - given if fact in self._texts[number]}
        return tuple(found)

    def needed_after(self, messages: int) -> frozenset[str]:
        """Return the facts that later actions use and that only spans among the first `messages` messages gave."""
        past = sum(start < messages for start in self._starts)
        given = "\n".join(self._texts[:past])
        stays = self.always_there(messages)
        later = frozenset[str]().union(*self._used[past:])
        return frozenset(fact for fact in later if fact in given and fact not in stays)

    def tokens_before(self, messages: int) -> int:
        """Return the tokens of the first `messages` messages, system prompt excluded."""
        return self._sizes[messages]

    def span_tokens_before(self, span: int) -> int:
        """Return the tokens of the spans before this one."""
        return sum(one.tokens for one in self.history.spans[: span - 1])

    def results_of(self, span: int) -> frozenset[str]:
        """Return the texts that came back in a span."""
        parts = self._parts(self.history.spans[span - 1])
        return frozenset(part.text for part in parts if part.kind is not Kind.TURN and part.text)

    def words(self, messages: int) -> list[str]:
        """Return system prompts and the user's words among the first `messages` messages."""
        return [fixed.text for fixed in self._fixed[:messages] if fixed.text]

    def always_there(self, messages: int) -> str:
        return "\n".join(self.words(messages))

    def _parts(self, span: Span) -> list[Part]:
        wire = wire_named(self.history.format)
        return [part for message in span.messages for part in wire.read(message, 0)]

    @cached_property
    def _sizes(self) -> list[int]:
        wire = wire_named(self.history.format)
        parts = [wire.read(message, position) for position, message in enumerate(self.history.messages)]
        sizes = [sum(part_tokens(part) for part in some if not part.static) for some in parts]
        return [0, *accumulate(sizes)]

    @cached_property
    def _fixed(self) -> list[_Fixed]:
        """Words of each message that belong to no span."""
        wire = wire_named(self.history.format)
        found = []
        for position, (message, owner) in enumerate(zip(self.history.messages, self.history.owners, strict=True)):
            parts = wire.read(message, position)
            if isinstance(owner, int):
                parts = parts if owner == 0 else ()
            else:
                parts = tuple(part for part in parts if part.blocks and owner[part.blocks[0]] == 0)
            found.append(_Fixed("\n".join(part.text for part in parts), any(part.static for part in parts)))
        return found


@dataclass(frozen=True, slots=True)
class _Fixed:
    text: str
    is_static: bool
    """A system prompt."""


def _starts(history: History) -> list[int]:
    """Return the place of the first message of each span."""
    places: dict[int, int] = {}
    for place, owner in enumerate(history.owners):
        for index in (owner,) if isinstance(owner, int) else owner:
            places.setdefault(index, place)
    return [places[span.index] for span in history.spans]


def facts_in(text: str) -> frozenset[str]:
    found = {match.removeprefix("./") for match in NEEDED.findall(text)}
    # `250p` and `3rd` are not ids, but `4OG6T3` is one.
    return frozenset(
        one
        for one in found
        if len(one) >= 4 and (len(one) >= 6 or not one[0].isdigit() or one.replace("-", "").isdigit())
    )


def arguments(span: Span) -> str:
    """Return the arguments of an action. Tool and field names are left out: the agent has them from its tools."""
    given = [leaf for message in span.messages for value in _given(message) for leaf in _leaves(value)]
    return _ESCAPE.sub(" ", "\n".join(given or _SHELL.findall(span.action) or [span.action]))


def text_of(span: Span) -> str:
    return "\n".join((span.thought, span.action, span.observation))


def _given(message: Message) -> Iterator[Any]:
    """Yield the arguments of each tool call in a message of any format."""
    for call in message.get("tool_calls") or ():
        body = call.get("function") or call.get("custom") or {}
        yield _parsed(body.get("arguments", body.get("input")))
    if isinstance(legacy := message.get("function_call"), Mapping):
        yield _parsed(legacy.get("arguments"))
    if str(message.get("type")).endswith("_call"):
        yield from (_parsed(message[name]) for name in _GIVEN if message.get(name))
    content = message.get("content")
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, Mapping) and str(block.get("type")).endswith(("tool_use", "tool-call")):
            yield block.get("input")
    yield from (call.get("args") for call in calls_in(message))


def _parsed(value: Any) -> Any:
    """Parse arguments given as JSON text; anything else is returned as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield str(value)


def has_failed(span: Span) -> bool:
    return bool(span.action) and _FAILED.search(span.observation) is not None


def repeated_failures(spans: Sequence[Span]) -> dict[int, tuple[int, ...]]:
    """Return, for each repeated failing call, the earlier spans with the same call that failed."""
    failed: defaultdict[str, list[int]] = defaultdict(list)
    found: dict[int, tuple[int, ...]] = {}
    for span in spans:
        if has_failed(span):
            before = failed[" ".join(span.action.split())]
            if before:
                found[span.index] = tuple(before)
            before.append(span.index)
    return found
