"""The report of a replay before it has a form: everything that a folder holds, walks, points and answers."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from focusctx import __version__
from focusctx.errors import BenchError
from focusctx.replay.lines import Line, R, by_file, lines_of
from focusctx.replay.record import ReplayFolder, RunRecord, run_records
from focusctx.replay.runs import half_of

from ...report.document import Document, Section
from ..agreement.views import Answer, answer_file
from ..judge import PointRecord, point_records
from .agreement import agreement_against, agreement_figure, agreement_table, recorded_table
from .figures import differences, events_by_step, trade_off
from .pairs import verdicts
from .reference import others_table, paper_table, prototype_table
from .tables import against_by_file, against_table, points_table, sizes_table, walks_table


def document(folder: Path) -> Document:
    walks = list(run_records(folder).latest().values())
    points = list(point_records(folder).latest().values())
    sections = [*_walks(walks), *_points(points), *_answers(answer_file(folder))]
    if not sections:
        raise BenchError(f"{folder} contains no records of a replay: make some with `focusctx replay run`")
    runs = {(record.file, record.run) for record in walks} | {(record.file, record.run) for record in points}
    made = f"Made by focusctx {__version__}.{_halves([run for _, run in runs])}"
    return Document("focusctx replay", [made], sections, _commands(folder))


def _halves(runs: Sequence[str]) -> str:
    """Say which half the runs are of: constants are chosen on the tuning half, figures published from the other."""
    count = Counter(map(half_of, runs))
    if len(count) == 1:
        (half,) = count
        return f" All runs are of the {half} half."
    return f" Of {len(runs)} runs {count['tuning']} are of the tuning half." if runs else ""


def _walks(records: Sequence[RunRecord]) -> list[Section]:
    files = by_file(records)
    found = {file: lines_of(some) for file, some in files.items()}
    if not found:
        return []
    together = lines_of(records, budgets=False)
    sections = []
    if len(found) > 1:
        tables = [against_by_file(found), walks_table(together), sizes_table(together), paper_table(found)]
        pictures = [trade_off(together), differences(found, "steps")]
        facts = f"{_counted(together)} In what is over all files, every run counts once."
        sections.append(Section("walks", "Walks, all files", facts, _there(tables), _there(pictures)))
    for file, lines in found.items():
        tables = [against_table(lines, "steps"), walks_table(lines), sizes_table(lines), others_table(file, lines)]
        if len(found) == 1:
            tables.append(paper_table(found))
        pictures = [trade_off(lines), events_by_step(lines)]
        facts = " ".join([_counted(lines), _budgets(lines), *verdicts(lines)])
        sections.append(Section(_key("walks", file), f"Walks, {file}", facts, _there(tables), _there(pictures)))
    return sections


def _points(records: Sequence[PointRecord]) -> list[Section]:
    files = by_file(records)
    found = {file: lines_of(some) for file, some in files.items()}
    if not found:
        return []
    together = lines_of(records, budgets=False)
    tables = [against_table(together, "points"), points_table(together), prototype_table(together)]
    pictures = [trade_off(together), differences(found, "points")]
    facts = " ".join([_counted(together), *verdicts(together)])
    sections = [Section("points", "Points, all files", facts, _there(tables), _there(pictures))]
    for file, lines in found.items() if len(found) > 1 else ():
        facts = " ".join([_counted(lines), _budgets(lines), *verdicts(lines)])
        own = _there([against_table(lines, "points"), points_table(lines)])
        sections.append(Section(_key("points", file), f"Points, {file}", facts, own, _there([trade_off(lines)])))
    return sections


def _answers(answers: Iterable[Answer]) -> list[Section]:
    models: defaultdict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        models[answer.model].append(answer)
    sections = []
    for model, some in models.items():
        files: dict[str, list[Answer]] = {"all files": some}
        names = sorted({answer.file for answer in some})
        for name in names if len(names) > 1 else ():
            files[name] = [answer for answer in some if answer.file == name]
        for name, own in files.items():
            tables = _there([agreement_table(own), agreement_against(own), recorded_table(own)])
            if tables:
                title = f"Next actions of {model}, {name}"
                facts = f"Points of {_listed_files(own)}."
                sections.append(
                    Section(_key("agreement", f"{model} {name}"), title, facts, tables, _there([agreement_figure(own)]))
                )
    return sections


def _commands(folder: Path) -> list[str]:
    """Return the commands that made the records."""
    commands = ReplayFolder(folder).read_about().get("commands", [])
    return [f"focusctx {shlex.join(command['arguments'])}" for command in commands]


def _counted(lines: Sequence[Line[R]]) -> str:
    most = max(lines, key=lambda line: len(line.records))
    drafts = sorted({line.draft for line in lines if line.draft})
    points = sum(isinstance(record, PointRecord) for record in most.records.values())
    counted = f"{points:,} points of {most.runs:,} runs." if points else f"{most.runs:,} runs."
    return f"{counted} Draft: {', '.join(drafts)}." if drafts else counted


def _budgets(lines: Sequence[Line[R]]) -> str:
    budgets = sorted({line.budget for line in lines})
    return f"δ = {', '.join(f'{budget:,}' for budget in budgets)}."


def _listed_files(answers: Sequence[Answer]) -> str:
    return ", ".join(sorted({answer.file for answer in answers}))


def _key(kind: str, name: str) -> str:
    return f"{kind}-{re.sub(r'[^a-z0-9]+', '-', name.lower().removesuffix('.jsonl'))}"[:80].strip("-")


T = TypeVar("T")


def _there(parts: Iterable[T | None]) -> list[T]:
    return [part for part in parts if part is not None]
