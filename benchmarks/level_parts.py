"""Measure what each part of the selection is worth, with no model: the figures of docs/results/level-parts.md.

    python benchmarks/level_parts.py [--out docs/results/level-parts.md]

One part at a time is switched off by setting its constant to a value without effect. Events, recall and the share of
span tokens that is left are those of `levels.py`; runs are of the reporting half, the target is half of the span
tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import levels
from focusctx import FocusConfig
from focusctx.replay.runs import Run, half_of, read_runs
from focusctx_bench.replay.ablations.settings import Variant
from page import SHARED, options, publish, table

TEXT = """\
# What each part of the selection is worth

Made by `python benchmarks/level_parts.py --out docs/results/level-parts.md`, on the reporting half, with the offline
draft and a target of half of the span tokens (see [levels](levels.md) for events and measures). Each row switches one
part off. A cell is recall, with the share of span tokens left in brackets.

Recall counts strings that recorded actions use. Parts that are there for live agents' sake, such as records of deeds,
rules and questions, cost recall here, and are not in the table: [the walks](levels.md) count what is lost without them.
The same holds for answers in plain words, lists, amounts, times and names of one word, which readers of live runs
missed: these are not among the strings that are counted.
"""


@dataclass(frozen=True)
class Part:
    """A part of the selection, and the constants that switch it off."""

    name: str
    off: tuple[tuple[str, object], ...] = ()
    """Full names of constants, with values without effect."""
    levels: bool = True


PARTS = (
    Part("everything on"),
    Part("passages: whole steps instead", levels=False),
    Part("fine passages: cut at 640 characters instead of 160", (("focusctx.pipeline.passages._PASSAGE", 640),)),
    Part("facts looked up for what the user named", (("focusctx.drafts.dataflow._TOPIC", 0.0),)),
    Part("ids beside the user's words", (("focusctx.drafts.dataflow._NEAR", 0.0),)),
    Part("facts that several results show", (("focusctx.drafts.dataflow._SHOWN", 0.0),)),
    Part("next member of a set", (("focusctx.drafts.dataflow._OPEN", 0.0),)),
    Part("answers to the user's questions", (("focusctx.drafts.dataflow._ANSWER", 0.0),)),
    Part("lists looked up for what the user named", (("focusctx.drafts.dataflow._LIST", 0.0),)),
    Part("amounts, times and names in recent results", (("focusctx.drafts.dataflow._DETAILS", (0.0, 0.0)),)),
    Part("rules in any result", (("focusctx.pipeline.keep._RULES", 0.0),)),
    Part("leaving out what is hardly needed", (("focusctx.pipeline.keep._LEAST", 0.0001),)),
    Part("room beside required text above the target", (("focusctx.pipeline.keep._FLOOR", 0.0),)),
    Part("nearly whole steps shown whole", (("focusctx.pipeline.keep._NEARLY_WHOLE", 1.0),)),
)


def events_without(run: Run, part: Part, budget: int) -> list[levels.Kept]:
    with ExitStack() as stack:
        for name, value in part.off:
            stack.enter_context(patch(name, value))
        return levels.events_of(run, budget, {"": Variant("", "", FocusConfig(levels=part.levels), 0.5)})[""]


def rows(pool: ProcessPoolExecutor) -> Iterator[Sequence[str]]:
    runs = {name: list(_reporting(SHARED / folder / f"{name}.jsonl")) for name, (folder, _) in levels.FILES.items()}
    for number, part in enumerate(PARTS):
        yield part.name if number == 0 else f"without {part.name}", *_cells(part, runs, pool)


def _cells(part: Part, runs: Mapping[str, Sequence[Run]], pool: ProcessPoolExecutor) -> Iterator[str]:
    for name, own in runs.items():
        budget = levels.FILES[name][1]
        found = pool.map(partial(events_without, part=part, budget=budget), own)
        _, recall, left, *_ = levels.figures([kept for events in found for kept in events])
        yield f"{recall} ({left})"


def _reporting(file: Path) -> Iterator[Run]:
    return (run for run in read_runs([file]) if half_of(run.id) == "reporting")


def main() -> int:
    out = options("What each part of the selection is worth, with no model.").parse_args().out
    with ProcessPoolExecutor(2) as pool:
        return publish(lambda: "\n".join([TEXT, *table(["", *levels.FILES], rows(pool)), ""]), out)


if __name__ == "__main__":
    sys.exit(main())
