"""The report as a LaTeX document whose tables (booktabs) can be taken out one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from .document import Document, Section
from .figures import Figure
from .table import Cell, Column, Number, Table

_ARROWS = {"more": r" $\uparrow$", "less": r" $\downarrow$"}
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "δ": r"$\delta$", "τ": r"$\tau$", "−": r"$-$", "–": "--", "“": "``", "”": "''", "…": r"\ldots{}", "≤": r"$\leq$",
}  # fmt: skip
_PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[utf8]{inputenc}
\usepackage[a4paper,margin=2cm]{geometry}
\usepackage{booktabs,graphicx}
% A table is made smaller only when it is wider than the text.
\newsavebox{\benchbox}
\newenvironment{benchtable}{\begin{lrbox}{\benchbox}}{\end{lrbox}%
  \ifdim\wd\benchbox>\linewidth\resizebox{\linewidth}{!}{\usebox{\benchbox}}\else\usebox{\benchbox}\fi}
\newcommand{\interval}[1]{{\scriptsize\,[#1]}}
\newcommand{\papers}[1]{{\scriptsize\itshape #1}}
\begin{document}"""


def latex(document: Document, *, pictures: bool) -> str:
    parts = [_PREAMBLE, rf"\title{{{_text(document.title)}}}\date{{}}\maketitle"]
    parts += [rf"\texttt{{{_text(command)}}}" for command in document.commands]
    parts += [_text(notice) for notice in document.notices]
    for section in document.sections:
        parts += [rf"\section{{{_text(section.title)}}}", _text(section.facts)]
        parts += [_table(section, table) for table in section.tables]
        if pictures:
            parts += [_picture(document, section, figure) for figure in section.figures]
        parts.append(r"\clearpage")
    return "\n\n".join([*parts, r"\end{document}"]) + "\n"


def _table(section: Section, table: Table) -> str:
    best = table.best()
    lines = [
        r"\begin{table}[htbp]",
        r"\centering\footnotesize",
        r"\begin{benchtable}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        *_groups(table.columns),
        _row([_text(table.stub), *(_head(column) for column in table.columns)]),
        r"\midrule",
    ]
    for at, row in enumerate(table.rows):
        cells = [_cell(cell, (at, place) in best) for place, cell in enumerate(row.cells)]
        lines.append(_row([_text(row.name), *cells]))
        if any(isinstance(cell, Number) and cell.in_paper for cell in row.cells):
            lines.append(_row([r"\quad\papers{paper}", *(_paper(cell) for cell in row.cells)]))
        if row.baseline:
            lines.append(r"\midrule")
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{benchtable}",
        rf"\caption{{{_text(table.title)}: {_text(section.title)}. {_text(table.note)}}}",
        rf"\label{{tab:{section.key}-{table.key}}}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _groups(columns: Sequence[Column]) -> list[str]:
    """Headings over several columns, with a rule under each."""
    if not any(column.group for column in columns):
        return []
    cells, rules, at = [""], [], 2
    for name, some in groupby(columns, key=lambda column: column.group):
        width = len(list(some))
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{_text(name)}}}")
        if name:
            rules.append(rf"\cmidrule(lr){{{at}-{at + width - 1}}}")
        at += width
    return [_row(cells), "".join(rules)]


def _row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _head(column: Column) -> str:
    return f"{_text(column.name)}{_ARROWS.get(column.better or '', '')}"


def _cell(cell: Cell, best: bool) -> str:
    if not isinstance(cell, Number):
        return _text(cell or "–")
    told = rf"\textbf{{{_text(cell.text)}}}" if best else _text(cell.text)
    if cell.interval is not None:
        told += rf"\interval{{{_text(cell.interval)}}}"
    return told


def _paper(cell: Cell) -> str:
    """In a line of its own under the method's."""
    return rf"\papers{{{cell.in_paper}}}" if isinstance(cell, Number) and cell.in_paper is not None else ""


def _picture(document: Document, section: Section, figure: Figure) -> str:
    note = f" {_text(figure.note)}" if figure.note else ""
    return "\n".join(
        [
            r"\begin{figure}[htbp]",
            r"\centering",
            rf"\includegraphics[width=0.75\linewidth]{{{document.figure_name(section, figure, 'png')}}}",
            rf"\caption{{{_text(figure.title)}: {_text(section.title)}.{note}}}",
            rf"\label{{fig:{section.key}-{figure.key}}}",
            r"\end{figure}",
        ]
    )


def _text(text: str) -> str:
    """Escaped; letters that the fonts lack become question marks, since names come from users."""
    return "".join(_SPECIAL.get(letter) or (letter if letter < "\u0180" else "?") for letter in text)
