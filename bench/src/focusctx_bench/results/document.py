"""The report of bench runs: a section for every study."""

from __future__ import annotations

from pathlib import Path

from focusctx import __version__
from focusctx.errors import BenchError

from ..folder import runs_below
from ..report.document import Document, Section, slug
from .collect import Study, collect
from .figures import figures
from .paper import paper_tables, paper_tasks
from .tables import tables


def document(folder: Path) -> Document:
    studies = collect(folder)
    if not studies:
        raise BenchError(f"{folder} contains no finished task yet: continue with `focusctx bench run --out {folder}`")
    notices = []
    if left := sum(run.unfinished() for run in runs_below(folder)):
        notices.append(f"Not finished: {left:,} tasks have no record yet. Means are over those that have.")
    sections: list[Section] = []
    for study in studies:
        sections.append(_section(study, {section.key for section in sections}))
    return Document("focusctx bench", [*notices, f"Made by focusctx {__version__}."], sections)


def _section(study: Study, taken: set[str]) -> Section:
    facts = f"Agent: {study.model}. Seed {study.settings['seed']}. {study.planned:,} tasks."
    if study.model.startswith("scripted:"):
        facts += " A scripted agent: a testbed for methods, which says nothing about language models."
    if labels := paper_tables(study):
        tasks = paper_tasks(study)
        over = f" over {tasks} tasks" if tasks else ""
        facts += f" “Paper”: the FOCUS paper's figures for the same setting{over} ({', '.join(labels)})."
        facts += " Its agent had another prompt."
    else:
        facts += " The paper has no figures for this setting."
    title = f"{study.title}, agent {study.model}"
    key = plain = slug(title)
    number = 2
    while key in taken:
        key, number = f"{plain}-{number}", number + 1
    return Section(key, title, facts, tables(study), figures(study))
