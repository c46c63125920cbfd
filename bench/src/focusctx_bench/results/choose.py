"""Which lines of a study a table compares: one setting for all methods, or one setting varied with the rest fixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..job import BUDGETS
from .collect import Line, Study
from .paper import plain_name

VARIED = ("budget", "draft", "rollouts", "threshold")


def main_lines(study: Study) -> list[Line]:
    """Every method at the reference setting."""
    return [line for line in study.lines if _is_at_reference(line, study, but="")]


def varied_lines(study: Study, setting: str) -> list[Line]:
    """Methods that were run at several values of one setting, the others as in the main table."""
    found = [line for line in study.lines if value_of(line, setting) is not None]
    found = [line for line in found if _is_at_reference(line, study, but=setting)]
    methods = [line.method for line in found]
    return sorted(
        (line for line in found if methods.count(line.method) > 1),
        key=lambda line: (study.lines.index(_first(study, line.method)), value_of(line, setting)),
    )


def value_of(line: Line, setting: str) -> Any:
    return line.writer if setting == "draft" else line.settings.get(setting)


def reference(study: Study, setting: str) -> Any:
    """The paper's value if it was run, else the one that most methods were run at."""
    values = [value for line in study.lines if (value := value_of(line, setting)) is not None]
    wanted = {"budget": BUDGETS.get(study.benchmark, 4096), "rollouts": 3, "threshold": 0.3, "draft": study.model}[
        setting
    ]
    for value in values:
        if value == wanted or (setting == "draft" and plain_name(value) == plain_name(study.model)):
            return value
    return max(sorted(set(values)), key=values.count, default=None)


def _is_at_reference(line: Line, study: Study, but: str) -> bool:
    return all(
        value_of(line, setting) in (None, _reference_for(line, study, setting))
        for setting in VARIED
        if setting != but and value_of(line, setting) is not None
    )


def _reference_for(line: Line, study: Study, setting: str) -> Any:
    """A method that was never run at the study's reference (a compressor of its own) has its own."""
    wanted = reference(study, setting)
    own = sorted({value_of(other, setting) for other in study.lines if other.method == line.method})
    return wanted if wanted in own else own[0]


def _first(study: Study, method: str) -> Line:
    return next(line for line in study.lines if line.method == method)


def same_for_all(lines: Sequence[Line], setting: str) -> Any:
    """The value that all lines which have the setting share; None if they differ or none has it."""
    values = {value for line in lines if (value := value_of(line, setting)) is not None}
    return values.pop() if len(values) == 1 else None
