"""How far a pass over recorded events is, in the bars and lines that all of the bench has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeAlias

from focusctx.cli.progress import progress
from focusctx.cli.terminal import printable
from focusctx.replay.tally import Tally

Watch: TypeAlias = Callable[[int, int, str | None], None]
"""Told how many are over, of how many, and what went wrong with the last of them."""


@contextmanager
def counting(stream: TextIO, what: str) -> Iterator[Watch]:
    """A pass that is called `what`; at its end, what went wrong last."""
    tally = Tally(planned={what: 0}, before={what: 0}, done={what: 0}, failed={what: 0})
    with progress(stream) as show:

        def watch(over: int, total: int, problem: str | None) -> None:
            if not tally.planned[what]:
                tally.before[what] = over if problem is None else over - 1
            tally.planned[what] = total
            tally.failed[what] += problem is not None
            tally.done[what] = over - tally.before[what] - tally.failed[what]
            tally.last_problem = problem or tally.last_problem
            show(tally)

        yield watch
    if tally.last_problem:
        stream.write(f"{tally.failed[what]:,} failed; the last: {printable(tally.last_problem)}\n")
