"""Writing the report's files: each form, and the figures once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.util import find_spec
from pathlib import Path

from .document import Document
from .figures import drawn
from .latex import latex
from .markdown import markdown
from .page import page

FORMS: dict[str, tuple[str, Callable[..., str]]] = {
    "markdown": ("report.md", markdown),
    "latex": ("report.tex", latex),
    "html": ("report.html", page),
}


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def write_report(document: Document, folder: Path, forms: Collection[str] = tuple(FORMS)) -> list[Path]:
    """The files that were written. Without matplotlib there are tables only."""
    pictures = can_draw()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for form in forms:
        name, render = FORMS[form]
        path = folder / name
        path.write_text(render(document, pictures=pictures), encoding="utf-8")
        written.append(path)
    if pictures:
        for section in document.sections:
            for figure in section.figures:
                for kind in ("png", "svg"):
                    path = folder / document.figure_name(section, figure, kind)
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(drawn(figure, form=kind))
                    written.append(path)
    return written
