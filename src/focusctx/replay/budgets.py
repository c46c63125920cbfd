"""The default budget δ: 4096, or 1024 for files of short dialogues, which would never reach it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from ..types import History
from .runs import Run

LONG, SHORT = 4096, 1024


def budgets_for(runs: Sequence[Run], budget: int | None = None) -> dict[str, int]:
    """Return δ for each file: the given one, or 1024 if the user speaks again in most runs and the median run has fewer
    than 4096 tokens of spans, and 4096 otherwise."""
    files: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        files[run.file].append(run)
    if budget is not None:
        return dict.fromkeys(files, budget)
    return {file: _fitting([run.history() for run in some]) for file, some in files.items()}


def _fitting(histories: Sequence[History]) -> int:
    dialogues = sum(any(turn.after for turn in history.user_turns) for history in histories)
    size = median(sum(span.tokens for span in history.spans) for history in histories)
    return SHORT if 2 * dialogues > len(histories) and size < LONG else LONG
