"""Compress conversations one after the other, with progress on the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..types import Result
from .terminal import console_on, printable
from .trace_file import Conversation, SavedResult

if TYPE_CHECKING:
    from ..compressor import Focus


def results_of(
    focus: Focus, entries: Sequence[Conversation | SavedResult], arguments: argparse.Namespace
) -> list[Result]:
    """Return one result per entry. Progress is shown on standard error, and only on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = console_on(sys.stderr)
    several = (BarColumn(), MofNCompleteColumn()) if len(entries) > 1 else ()
    results: list[Result] = []
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *several,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal or getattr(arguments, "quiet", False),
    ) as progress:
        task = progress.add_task(f"sketching plans: {printable(focus.draft.name)}", total=len(entries))
        for entry in entries:
            if isinstance(entry, SavedResult):
                results.append(entry.result)
            else:
                results.append(focus.compress(entry.messages, goal=arguments.goal, format=arguments.format))
            progress.advance(task)
    return results


def warn(entries: Sequence[Conversation | SavedResult], results: Sequence[Result]) -> None:
    """Write the warnings of results that are not shown otherwise."""
    for entry, result in zip(entries, results, strict=True):
        for warning in result.warnings:
            sys.stderr.write(printable(f"focusctx: warning: {entry.name}: {warning}\n"))


def warn_of_failures(entries: Sequence[Conversation | SavedResult], results: Sequence[Result]) -> None:
    """Warn of failed drafts: they leave the history unchanged, which is not an error but must not be overlooked."""
    for entry, result in zip(entries, results, strict=True):
        if result.failure is not None:
            sys.stderr.write(printable(f"focusctx: warning: {entry.name} not compressed: {result.failure}\n"))
