"""The paper's own figures (`paper.toml`), for a study that has the paper's setting."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from ..baselines.acon import SHIPPED
from ..baselines.llmlingua import MODEL as LLMLINGUA_MODEL
from .collect import Line, Study, plain_name

_TOTALS = (
    "agent_in", "agent_out", "agent_requests", "draft_in", "draft_out", "draft_requests", "agent_cost", "draft_cost",
    "cost", "events",
)  # fmt: skip


_TASKS = {"appworld": 168, "officebench": 95, "qa8": 100}
"""Tasks that the paper ran of each benchmark whose figures are here."""


def paper_figures(study: Study, line: Line, difficulty: str = "") -> dict[str, float]:
    """Return the figures by their names in `paper.toml`, totals per task; none where the paper has another setting."""
    found: dict[str, float] = {}
    for table in transcribed_tables():
        if line.method in table["rows"] and _is_that_of(table, study, line, difficulty):
            for name, figure in zip(table["columns"], table["rows"][line.method], strict=True):
                found.setdefault(name, figure / table["tasks"] if name in _TOTALS else float(figure))
    return found


def paper_tables(study: Study) -> list[str]:
    """Return the labels of the tables that figures for this study are taken from."""
    return sorted(
        {
            table["label"]
            for table in transcribed_tables()
            for line in study.lines
            for difficulty in ("", *line.classes)
            if line.method in table["rows"] and _is_that_of(table, study, line, difficulty)
        }
    )


def paper_tasks(study: Study) -> int | None:
    """Over how many tasks the paper's main figures for this study are."""
    counts = {
        table.get("tasks")
        for table in transcribed_tables()
        for line in study.lines
        if _is_that_of(table, study, line, "")
    }
    return max((count for count in counts if count), default=None)


def _is_that_of(table: Mapping[str, Any], study: Study, line: Line, difficulty: str) -> bool:
    return (
        study.benchmark == table["benchmark"]
        and (study.settings.get("split") or "") in table["splits"]
        and study.settings.get("seed", 42) == 42
        and study.settings.get("step_limit") in (None, 50)
        and _is_model(study.model, table["agent"])
        and difficulty.lower() == table.get("difficulty", "")
        and _has_its_tasks(table, study, line, difficulty)
        and _has_its_settings(table, line)
    )


def _is_model(name: str, wanted: str) -> bool:
    """True if this is the paper's model. OpenAI's are asked at OpenAI or Azure, open weights anywhere.

    A server of one's own may give any name to any model: `openai:gpt-4.1@http://localhost` is not the paper's.
    """
    if plain_name(name) != wanted:
        return False
    return not wanted.startswith("gpt-") or (name.partition(":")[0] in ("openai", "azure") and "@" not in name)


def _has_its_tasks(table: Mapping[str, Any], study: Study, line: Line, difficulty: str) -> bool:
    """True if the line has run as many tasks as the paper, from where the paper had them."""
    if len(line.tasks) != _TASKS[study.benchmark]:
        return False
    if difficulty and "tasks" in table and line.classes[difficulty].tasks != table["tasks"]:
        return False
    if study.benchmark == "officebench":  # its test split is a list that the user has to give
        return "splits" in study.options
    if study.benchmark == "qa8":  # prepared groups, which their own file says to be for testing
        limited = study.options.keys() & {"passages", "searches", "per_turn"}
        return (
            "retriever" in study.options
            and not limited
            and all(re.fullmatch(r"qa8-test-\d+", task) for task in line.tasks)
        )
    return True


def _has_its_settings(table: Mapping[str, Any], line: Line) -> bool:
    """True if everything that the method reads is as in the paper.

    Retrieval never is: the paper does not name its embedder. Nor is ACON with a guideline that this package carries: it
    was made with other agents.
    """
    settings = line.settings
    writer = settings.get("draft") or settings.get("compressor")
    guideline = settings.get("guideline_ut") or settings.get("guideline_utco") or ""
    return (
        line.method != "retrieval"
        and not guideline.startswith(SHIPPED)
        and (writer is None or _is_model(writer, table.get("compressor", "")))
        and settings.get("budget") in (None, table.get("budget"))
        and settings.get("rollouts", 3) == table.get("rollouts", 3)
        and settings.get("threshold", 0.3) == 0.3
        and (not line.is_focus or table.get("rollout_mode") in (None, settings.get("rollout_mode")))
        and settings.get("llmlingua_model", LLMLINGUA_MODEL) == LLMLINGUA_MODEL
    )


@cache
def transcribed_tables() -> list[dict[str, Any]]:
    """Return the tables of `paper.toml`."""
    text = files(__package__).joinpath("paper.toml").read_text("utf-8")
    tables: list[dict[str, Any]] = tomllib.loads(text)["table"]
    return tables
