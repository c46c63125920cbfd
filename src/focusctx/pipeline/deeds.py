"""Deeds: calls that changed something, each told in a line once its step is gone.

A line has the call, the arguments that identify it, and how it ended. Every word of it is the call's or the result's
own, except "ok". Of long arguments it has the first line, of access tokens nothing: they say who asked, not what was
done.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..drafts.reading import Kind, facts_in, kind_of
from ..types import Call, Span
from ..wire import results_by_call
from ..wire.calls import arguments_of, calls_of, has_failed, is_reading, name_words
from .passages import cut

_LONG = 100
"""Characters up to which an argument of one line is shown whole."""
_SHORTENED = 60
"""Characters that are shown of a longer one."""
_MOST_IDS = 3
"""Most ids that are named of a result."""
ACCESS = re.compile(r"(?:^|_)(?:token|api_?key|auth|authorization)$", re.IGNORECASE)
_STATUS = re.compile(r'"(?:status|state)"\s*:\s*"[^"\n]{1,60}"')
_OBJECT = re.compile(r"(?:^|_)(?:path|file|filename|file_?path|id|key|app|url)$", re.IGNORECASE)
"""Names of arguments that say which object a call is about."""
_WHOLE = frozenset({"write", "set", "put", "save", "update", "overwrite", "create", "login"})
"""Words in the names of tools that give an object a new state, whatever it was before."""
_PARTLY = frozenset({"edit", "replace", "insert", "patch", "append"})
"""Words in the names of tools that change a part of an object."""


@dataclass(frozen=True, slots=True)
class Deed:
    """A call that changed something, in a line."""

    name: str
    text: str
    """The call with the arguments that identify it."""
    ending: str
    failed: bool
    about: str
    """The object that it is about; "" if its arguments do not say."""

    @property
    def line(self) -> str:
        return f"{self.text} → {self.ending}"

    def supersedes(self, earlier: Deed) -> bool:
        """True if an earlier call need not be named beside this one: it did the same, or what it did is undone.

        That is so if this one made the whole object anew, or succeeded where the earlier one had failed.
        """
        if earlier.line == self.line:
            return True
        if self.failed or not self.about or earlier.about != self.about:
            return False
        is_whole = not _WHOLE.isdisjoint(name_words(self.name))
        if earlier.name == self.name:
            return is_whole or earlier.failed
        return is_whole and not earlier.failed and not _PARTLY.isdisjoint(name_words(earlier.name))


def deeds_of(span: Span, format: str, reads: Collection[str] = ()) -> tuple[Deed, ...]:
    """Return what a step did; nothing if it changed nothing. Failed calls beside a deed count, too."""
    results = results_by_call(span.messages, format) if span.calls else {"": span.observation}
    found = [
        (is_reading(call, reads), _deed(span, call, results.get(call.id, "")))
        for call in calls_of(span)
        if not is_reading(call, reads) or has_failed(results.get(call.id, ""))
    ]
    has_changed = any(not reading and not deed.failed for reading, deed in found)
    return tuple(deed for _, deed in found) if has_changed else ()


def deed_lines(deeds: Iterable[Deed]) -> Iterator[str]:
    """Yield a line for each deed, in order; one that a later one supersedes is counted with that one."""
    current: list[tuple[Deed, int, Counter[str]]] = []
    for deed in deeds:
        times, before = 1, Counter[str]()
        for place in range(len(current) - 1, -1, -1):
            if deed.supersedes(current[place][0]):
                earlier, often, counted = current.pop(place)
                before += counted
                if earlier.line == deed.line:
                    times += often
                else:
                    before[earlier.name] += often
        current.append((deed, times, before))
    for deed, times, before in current:
        line = deed.line if times == 1 else f"{deed.line} ×{times}"
        names = (name if often == 1 else f"{name} ×{often}" for name, often in sorted(before.items()))
        yield f"{line}, after {', '.join(names)}" if before else line


def _deed(span: Span, call: Call, result: str) -> Deed:
    arguments = arguments_of(call)
    if span.calls or (call.name in span.action and "command" not in arguments):
        text = f"{call.name}({_brief_arguments(arguments, call)})"
    else:  # an agent that acts in plain text wrote a command, or something that names no tool
        text = _first_line(str(arguments.get("command", span.action)))
    failed = has_failed(result)
    about = [f"{key}={value}" for key, value in arguments.items() if _OBJECT.search(key)]
    return Deed(
        call.name,
        text,
        _first_line(result) if failed else _ending(call, result),
        failed,
        ", ".join(about),
    )


def _brief_arguments(arguments: Mapping[str, object], call: Call) -> str:
    if not arguments:
        return _first_line(call.text[len(call.name) + 1 : -1])
    given = {key: value for key, value in arguments.items() if value not in (None, "", [], {})}
    named = [f"{key}={_brief_value(value)}" for key, value in given.items() if not ACCESS.search(key)]
    return ", ".join(named if len(named) == len(given) else [*named, "…"])


def _brief_value(value: object) -> str:
    if isinstance(value, str):
        return f'"{_first_line(value)}"'
    return _first_line(json.dumps(value, ensure_ascii=False))


def _first_line(text: str) -> str:
    """Return a text if it is short, else the beginning of its first line that is not a comment, with a mark."""
    text = text.strip()
    if len(text) <= _LONG and "\n" not in text:
        return text
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    first = next((line for line in lines if not line.startswith("#")), lines[0])
    if len(first) > _LONG:
        first = first[:_SHORTENED].rstrip()
    return f"{first}…"


def _ending(call: Call, result: str) -> str:
    """Return "ok", with the status that a result reports and the ids that it made."""
    record = cut(result).shown(())
    ids = _new_ids(record, call) or _new_ids(result, call)
    news = [*dict.fromkeys(_STATUS.findall(record)), *ids]
    return f"ok: {', '.join(news)}" if news else "ok"


def _new_ids(text: str, call: Call) -> list[str]:
    """Return the first ids in a result that its call does not name."""
    found = [fact for fact in facts_in(text) if kind_of(fact) is Kind.ID and fact not in call.text]
    return sorted(found, key=lambda fact: (text.find(fact), fact))[:_MOST_IDS]
