"""Explain an event in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .types import Decision, Result, Span

_DID = 90
"""Characters that are shown of what a step did."""


def explain(result: Result) -> str:
    """Say what each step did, what became of it and why, and what would bring back what is gone."""
    did = {span.index: _what(span) for span in result.history.spans} if result.history else {}
    lines = [summary(result)]
    lines += [f"warning: {warning}" for warning in result.warnings]
    for decision in result.decisions:
        lines += _decision(decision, did.get(decision.index, ""), len(result.sketches))
    if result.compressed and any(decision.fate in _SHORTER for decision in result.decisions):
        lines.append(
            'to bring a step back: restore("s_7") in a session, the button on the proxy\'s dashboard, or the tool '
            "recall_step for the agent; to keep more: a larger target"
        )
    if result.certificate is not None:
        lines.append(_theory(result))
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
    target = f", target {result.target}" if result.target is not None else ""
    levels = levels_of(result)
    parts = f"{levels.excerpts} as excerpts, {levels.records} as records, " if result.shortened else ""
    regrets = f"; {len(result.regrets)} looked up again after a cut" if result.regrets else ""
    return (
        f"{result.tokens_before} → {result.tokens_after} tokens ({saved:.0%} saved{target}): "
        f"{levels.whole} kept whole ({levels.rescued} rescued, {levels.pinned} pinned), "
        f"{parts}{levels.dropped} dropped{regrets}"
    )


@dataclass(frozen=True, slots=True)
class Levels:
    """The number of steps on each level, counted by their fates: the same in words, reports and the dashboard."""

    whole: int
    """All that stay whole, the rescued and pinned ones included."""
    rescued: int
    pinned: int
    excerpts: int
    records: int
    dropped: int

    @property
    def steps(self) -> int:
        return self.whole + self.excerpts + self.records + self.dropped


def levels_of(result: Result) -> Levels:
    """Count the steps of an event by level. Without decisions (it failed, or nothing was due) every step is whole."""
    if not result.decisions:
        return Levels(len(result.kept), 0, len(result.pinned), 0, 0, 0)
    fates = Counter(decision.fate for decision in result.decisions)
    rescued, pinned = fates["rescued"], fates["pinned"]
    whole = fates["kept"] + rescued + pinned
    return Levels(whole, rescued, pinned, fates["excerpt"], fates["record"], fates["dropped"])


def evidence(decision: Decision, sketches: int) -> str:
    """Say which sketches asked for the span, and what else decided."""
    found = [decision.pinned] if decision.pinned else []
    for verb, by in (("cited", decision.cited_by), ("rescued", decision.rescued_by)):
        if by:
            found.append(f"{verb} by sketch {', '.join(map(str, by))} of {sketches}")
    if decision.note:
        found.append(decision.note)
    return "; ".join(found) or "no sketch needs it"


_SHORTER = ("excerpt", "record", "dropped")


def what_brings_back(decision: Decision) -> str | None:
    """Say what would have kept a step whole; None for one that is."""
    if decision.fate not in _SHORTER:
        return None
    label = f"s_{decision.index}"
    if not decision.cited_by and not decision.rescued_by:
        return f"a sketch that cites {label}, or a pin rule"
    if decision.fate == "dropped" and decision.note is None:
        return f"more sketches that cite {label}, or a lower threshold"
    return (
        f"a larger target, or a sketch that cites all of {label}" if decision.fate != "dropped" else "a larger target"
    )


def _decision(decision: Decision, did: str, sketches: int) -> list[str]:
    size = f"{decision.tokens} tokens"
    if decision.fate in ("excerpt", "record"):
        size = f"{decision.left} of {decision.tokens} tokens"
    lines = [f"s_{decision.index:<4} {decision.fate:<8} {size:>19}  {did}".rstrip()]
    lines.append(f"       why: {evidence(decision, sketches)}")
    lines += [f"       - {reason}" for reason in decision.reasons]
    if decision.fate == "excerpt":
        lines.append(f"       shown: {', '.join(f's_{decision.index}.{number}' for number in decision.parts)}")
    if back := what_brings_back(decision):
        lines.append(f"       comes back with: {back}")
    return lines


def _theory(result: Result) -> str:
    found = result.certificate
    assert found is not None
    return (
        f"certificate: {found.set_utility:.0%} of {found.rollouts} sketches cite what was left out, so decision loss ≤ "
        f"{found.bound:.2f} at {found.confidence:.0%} confidence under {len(found.assumptions)} assumptions: see "
        "docs/theory.md"
    )


def _what(span: Span) -> str:
    words = " ".join((span.action or span.thought or span.observation)[: 4 * _DID].split())
    return words if len(words) <= _DID else f"{words[: _DID - 1]}…"
