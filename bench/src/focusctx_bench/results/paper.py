"""The paper's own figures (`paper.toml`), for a study that has the paper's setting."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from ..baselines.llmlingua import MODEL as LLMLINGUA_MODEL
from .collect import Line, Study

_RELEASE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


_TOTALS = (
    "agent_in", "agent_out", "agent_requests", "draft_in", "draft_out", "draft_requests", "agent_cost", "draft_cost",
    "cost", "events",
)  # fmt: skip


def paper_figures(study: Study, line: Line, difficulty: str = "") -> dict[str, float]:
    """By the names of `paper.toml`, totals per task; empty where the paper has nothing or another setting."""
    found: dict[str, float] = {}
    for table in _tables():
        if line.method in table["rows"] and _is_that_of(table, study, line, difficulty):
            for name, figure in zip(table["columns"], table["rows"][line.method], strict=True):
                found.setdefault(name, figure / table["tasks"] if name in _TOTALS else float(figure))
    return found


def paper_tables(study: Study) -> list[str]:
    """The labels of the tables that figures for this study are taken from."""
    return sorted(
        {
            table["label"]
            for table in _tables()
            for line in study.lines
            for difficulty in ("", *line.classes)
            if line.method in table["rows"] and _is_that_of(table, study, line, difficulty)
        }
    )


def paper_tasks(study: Study) -> int | None:
    """Over how many tasks the paper's main figures for this study are."""
    counts = {table.get("tasks") for table in _tables() for line in study.lines if _is_that_of(table, study, line, "")}
    return max((count for count in counts if count), default=None)


def plain_name(model: str) -> str:
    """A model's name without its provider, server and release: `openai:gpt-4.1-2025-04-14` is `gpt-4.1`."""
    return _RELEASE.sub("", re.split(r"[:/]", model.partition("@")[0].lower())[-1])


def _is_that_of(table: Mapping[str, Any], study: Study, line: Line, difficulty: str) -> bool:
    return (
        study.benchmark == table["benchmark"]
        and (study.settings.get("split") or "") in table["splits"]
        and plain_name(study.model) == table["agent"]
        and difficulty.lower() == table.get("difficulty", "")
        and _has_its_settings(table, line.settings)
    )


def _has_its_settings(table: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """A method has the paper's setting when all that it looks at is as there."""
    writer = settings.get("draft") or settings.get("compressor")
    return (
        (writer is None or plain_name(writer) == table.get("compressor"))
        and settings.get("budget") in (None, table.get("budget"))
        and settings.get("rollouts", 3) == table.get("rollouts", 3)
        and settings.get("threshold", 0.3) == 0.3
        and settings.get("embedder", "openai:").startswith(
            "openai:"
        )  # whose they were is not said; all its models are OpenAI's
        and settings.get("llmlingua_model", LLMLINGUA_MODEL) == LLMLINGUA_MODEL
    )


@cache
def _tables() -> list[dict[str, Any]]:
    text = files(__package__).joinpath("paper.toml").read_text("utf-8")
    tables: list[dict[str, Any]] = tomllib.loads(text)["table"]
    return tables
