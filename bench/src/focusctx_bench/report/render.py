"""A document as Markdown, LaTeX (booktabs) or one HTML file, from the templates beside this file."""

from __future__ import annotations

from base64 import b64encode
from importlib.resources import files
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .document import Document
from .drawing import DARK, LIGHT, Figure, drawn
from .table import Number, Table

FORMS = {"markdown": "report.md", "latex": "report.tex", "html": "report.html"}
"""Each form, and the name of its file."""

_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "δ": r"$\delta$", "τ": r"$\tau$", "−": r"$-$", "–": "--", "“": "``", "”": "''", "…": r"\ldots{}", "≤": r"$\leq$",
}  # fmt: skip


def render(document: Document, form: str) -> str:
    """Return the document in one of `FORMS`."""
    environment = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=form == "html",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **(_TEX_MARKS if form == "latex" else {}),
    )
    environment.filters |= {"md": _markdown, "tex": _tex}
    environment.tests["number"] = lambda cell: isinstance(cell, Number)
    style = files("focusctx").joinpath("look.css").read_text("utf-8")
    own = files(__package__).joinpath("templates/page.css").read_text("utf-8")
    template = environment.get_template(f"{FORMS[form]}.j2")
    return template.render(document=document, groups=_groups, picture=_picture, style=Markup(f"{style}\n{own}"))


_TEX_MARKS: dict[str, Any] = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}
"""Braces belong to LaTeX."""


def _groups(table: Table) -> list[tuple[str, int, int]]:
    """Return the headings over several columns: name, number of the first column, and how many."""
    found, first = [], 0
    for name, some in groupby(table.columns, key=lambda column: column.group):
        width = len(list(some))
        found.append((name, first, width))
        first += width
    return found if any(name for name, *_ in found) else []


def _picture(figure: Figure, look: str) -> str:
    """Return a figure as a data URL, light or dark."""
    svg = drawn(figure, DARK if look == "dark" else LIGHT)
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"


def _markdown(text: str) -> str:
    """Escape a table cell: names come from users, and nothing in them may end it."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _tex(text: str) -> str:
    """Escape text for LaTeX; letters that the fonts lack become question marks, since names come from users."""
    return "".join(_TEX.get(letter) or (letter if letter < "\u0180" else "?") for letter in text)
