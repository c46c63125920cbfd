"""A report before it has a form: sections of tables and figures, and what to know about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .drawing import Figure
from .table import Table


@dataclass(frozen=True, slots=True)
class Section:
    key: str
    """For file names and labels."""
    title: str
    facts: str
    tables: Sequence[Table]
    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    notices: Sequence[str]
    sections: Sequence[Section]
    commands: Sequence[str] = ()
    """The commands that made the records."""

    def figure_name(self, section: Section, figure: Figure, form: str) -> str:
        return f"figures/{section.key}-{figure.key}.{form}"
