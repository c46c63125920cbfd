"""`focus-note`: what focusctx does by default, and a note of the plan steps on which its sketches agree.

The note stands behind the task and stays as it is until the next event, so the prefix moves no more often. It is marked
as a program's guess. Live agents gained nothing by it (docs/results/live.md), so the product has no such note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from focusctx.baselines.focus import DefaultFocus
from focusctx.baselines.method import Compressed
from focusctx.types import Message, Sketch

HEADING = "[A program sketched what is left to do at some point. It may be wrong or out of date:"
_WORD = re.compile(r"[\w#@.-]{3,}")
_ALIKE = 0.4
"""Share of the shorter step's words from which two steps are taken for the same one."""


class PlanNote:
    name = "focus-note"

    def __init__(self, focus: DefaultFocus) -> None:
        self._focus = focus
        self._note = ""

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        compressed = await self._focus.compress(messages)
        if compressed.happened:
            results = [event.result for event in self._focus.session.events if event.happened and event.result]
            self._note = note_of(results[-1].sketches) if results else ""
        return replace(compressed, messages=with_note(compressed.messages, self._note))


def note_of(sketches: Sequence[Sketch]) -> str:
    """Return the note: the steps of one plan that at least half of the other plans have, too; "" for none."""
    plans = [[step.text for step in sketch.steps] for sketch in sketches if sketch.problem is None]
    agreed = [
        [step for step in plan if 2 * sum(_has(other, step) for other in others) >= len(others) > 0]
        for plan, others in ((plan, plans[:place] + plans[place + 1 :]) for place, plan in enumerate(plans))
    ]
    best = max(agreed, key=len, default=[])
    return "\n".join([HEADING, *(f"- {step}" for step in best), "]"]) if best else ""


def with_note(messages: Sequence[Message], note: str) -> Sequence[Message]:
    """Return the messages with the note behind the task, the first words of the user."""
    place = next((place for place, message in enumerate(messages) if message["role"] == "user"), None)
    if not note or place is None:
        return messages
    task = messages[place]
    if isinstance(task["content"], str):
        content: object = f"{task['content']}\n\n{note}"
    else:
        content = [*task["content"], {"type": "text", "text": note}]
    return [*messages[:place], {**task, "content": content}, *messages[place + 1 :]]


def _has(plan: Sequence[str], step: str) -> bool:
    """True if a plan has a step with much the same words."""
    words = _words(step)
    others = map(_words, plan)
    return any(len(words & other) >= _ALIKE * max(min(len(words), len(other)), 1) for other in others)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))
