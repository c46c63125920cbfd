"""Count, in live office runs with a planted rule, how often the rule is still shown, and how often it is broken.

    python benchmarks/live_rules.py full=runs/full focus=runs/focus ... [--out docs/results/live/rules-table.md]

The runs are made by `focusctx bench run --benchmark office --set rules=true`. The table has a row for each arm and
place of the rule:

- shown at the end: the rule's sentence, word for word, is in the last request of the run;
- shown when needed: the sentence, or at least its value, is in the request that the agent answered with the deed
  the rule is about. A summary may keep the value in other words;
- kept, broken, not reached: judged by the office from what was done. Not reached means that the deed was not done;
- read again: calls that opened the rule's note again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from focusctx.errors import BenchError
from focusctx.types import Message
from focusctx_bench.job import runs_below
from focusctx_bench.live import PastCall, calls_of
from focusctx_bench.record import Record
from focusctx_bench.report.document import markdown_table

HEAD = (
    "arm",
    "rule stands in",
    "runs",
    "shown at the end",
    "shown when needed",
    "its value shown when needed",
    "kept",
    "broken",
    "not reached",
    "read again",
    "tasks done",
)


@dataclass(frozen=True)
class Case:
    """One run in numbers."""

    arm: str
    task: str
    place: str
    outcome: str
    done: bool
    shown_at_end: bool
    shown_when_needed: bool
    value_when_needed: bool
    read_again: int


def case_of(record: Record, arm: str) -> Case:
    rule = record.score.details.get("rule")
    if rule is None:
        raise BenchError(f"{record.task} has no rule: make the runs with --benchmark office --set rules=true")
    if record.proxy:
        raise BenchError(f"{record.task} went through a proxy: its record does not hold what was sent")
    calls = calls_of(record.messages)
    deed = next((call.turn for call in calls if _is_deed(call, rule["kind"])), None)
    at_deed = next((_text(record.sent(step)) for step in record.steps if step.reply == deed), "")
    opened = [
        call for call in calls if call.name == "notes_read" and json.loads(call.arguments) == {"title": rule["note"]}
    ]
    return Case(
        arm=arm,
        task=record.task,
        place=rule["place"],
        outcome=rule["outcome"],
        done=record.score.success == 1,
        shown_at_end=rule["text"] in _text(record.sent(record.steps[-1])),
        shown_when_needed=rule["text"] in at_deed,
        value_when_needed=rule["value"] in at_deed,
        read_again=max(0, len(opened) - 1),
    )


def _is_deed(call: PastCall, kind: str) -> bool:
    """Return True for the call that the rule is about: writing the approval code, or paying the invoice."""
    if not call.succeeded:
        return False
    if kind == "file":
        return call.name == "files_write" and "-approval.txt" in call.arguments
    return call.name == "pay_send" and "N-" in str(json.loads(call.arguments).get("note"))


def _text(messages: Sequence[Message]) -> str:
    """Return all that a request says, arguments of calls included."""
    said = []
    for message in messages:
        said.append(str(message.get("content") or ""))
        said += [str(call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    return "\n".join(said)


def read_cases(folders: Iterable[str]) -> list[Case]:
    """Read the runs of `NAME=FOLDER`s."""
    cases = []
    for text in folders:
        name, equals, path = text.partition("=")
        if not equals:
            raise BenchError(f"give each folder the name of its arm, NAME=FOLDER, got {text!r}")
        cases += [case_of(record, name) for folder in runs_below(Path(path)) for record in folder.records]
    if not cases:
        raise BenchError("no finished run in these folders")
    return cases


def table(cases: Sequence[Case]) -> str:
    rows = []
    for arm in dict.fromkeys(case.arm for case in cases):
        for place in ("policy", "passing"):
            some = [case for case in cases if (case.arm, case.place) == (arm, place)]
            if some:
                rows.append(_row(arm, place, some))
    return markdown_table(HEAD, rows, left=2)


def _row(arm: str, place: str, cases: Sequence[Case]) -> tuple[str, ...]:
    outcomes = [case.outcome for case in cases]
    counts = (
        len(cases),
        sum(case.shown_at_end for case in cases),
        sum(case.shown_when_needed for case in cases),
        sum(case.value_when_needed for case in cases),
        *(outcomes.count(outcome) for outcome in ("kept", "broken", "not reached")),
        sum(case.read_again for case in cases),
        sum(case.done for case in cases),
    )
    return arm, {"policy": "a note read first", "passing": "another note, in passing"}[place], *map(str, counts)


def main() -> None:
    parser = argparse.ArgumentParser(description="Count planted rules that live runs still show, and break.")
    parser.add_argument("folders", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    try:
        found = table(read_cases(arguments.folders))
    except BenchError as error:
        parser.error(str(error))
    print(found)
    if arguments.out:
        arguments.out.write_text(f"{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
