"""The study as a report: tables and figures, what they rest on, and the command that made them."""

from __future__ import annotations

from collections.abc import Sequence

from focusctx import __version__

from ...report.document import Document, Section
from .figures import figures
from .findings import Findings
from .tables import tables


def document(findings: Findings, command: str) -> Document:
    return Document(
        "The estimator study",
        [f"Made by focusctx {__version__}:", f"    {command}"],
        [Section("study", f"Draft {findings.draft}", facts(findings), tables(findings), figures(findings))],
    )


def facts(findings: Findings) -> str:
    files = _listed([f"{count} of {file}" for file, count in findings.files.items()])
    told = (
        f"{findings.events} events ({files}), {findings.sketches:,} sketches or more at each that are plans; "
        f"{100 * findings.no_plans:.1f} % of the replies are none and do not vote. τ = {findings.threshold:g}."
    )
    if findings.model is not None:
        told += f" Divergences by the probabilities of {findings.model}."
    return told


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
