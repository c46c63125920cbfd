"""Explain an event in words."""

from __future__ import annotations

from .types import Decision, Result


def explain(result: Result) -> str:
    """Say which spans were kept, dropped, rescued or pinned, by which sketch and why."""
    lines = [summary(result)]
    lines += [f"warning: {warning}" for warning in result.warnings]
    lines += [_decision(decision, len(result.sketches)) for decision in result.decisions]
    if result.certificate is not None:
        certificate = result.certificate
        lines.append(
            f"certificate: {certificate.set_utility:.0%} of {certificate.rollouts} sketches cite a dropped span: "
            f"decision loss ≤ {certificate.bound:.2f} at {certificate.confidence:.0%} confidence, if:"
        )
        lines += [f"  - {assumption}" for assumption in certificate.assumptions]
    return "\n".join(lines)


def summary(result: Result) -> str:
    """Summarise the event and its savings in one line."""
    if result.failure is not None:
        return f"not compressed: {result.failure}"
    if not result.compressed:
        within = result.history is None or not result.warnings
        why = "every step is needed" if result.sketches else "within budget" if within else result.warnings[-1]
        return f"nothing dropped, {result.tokens_before} tokens: {why}"
    saved = 1 - result.tokens_after / result.tokens_before if result.tokens_before else 0.0
    records = sum(not parts for parts in result.shortened.values())
    parts = f"{len(result.shortened) - records} as excerpts, {records} as records, " if result.shortened else ""
    return (
        f"{result.tokens_before} → {result.tokens_after} tokens ({saved:.0%} saved): "
        f"{len(result.kept)} spans kept ({len(result.rescued)} rescued, {len(result.pinned)} pinned), "
        f"{parts}{len(result.dropped)} dropped"
    )


def evidence(decision: Decision, sketches: int) -> str:
    """Say which sketches asked for the span, and what else decided."""
    found = [decision.pinned] if decision.pinned else []
    for verb, by in (("cited", decision.cited_by), ("rescued", decision.rescued_by)):
        if by:
            found.append(f"{verb} by sketch {', '.join(map(str, by))} of {sketches}")
    if decision.note:
        found.append(decision.note)
    return "; ".join(found) or "no sketch needs it"


def _decision(decision: Decision, sketches: int) -> str:
    size = f"{decision.tokens:>6} tokens"
    if decision.fate in ("excerpt", "record"):
        size = f"{decision.left:>6} of {decision.tokens} tokens"
    why = evidence(decision, sketches)
    line = f"s_{decision.index:<4} {decision.fate:<8} utility {decision.utility:.2f}  {size}  {why}"
    return "\n".join([line, *(f"       - {reason}" for reason in decision.reasons)])
