"""The list of spans in order: the outcome, the evidence for it, and the full text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ...types import Decision, Result, Sketch, Span, UserTurn
from ..table import numbers, what
from .markup import Markup, tag, together
from .picture import FATES


def spans(result: Result, key: str) -> Markup | None:
    """Make the list, with the user's words in between."""
    history = result.history
    if history is None:
        return None
    decided = {decision.index: decision for decision in result.decisions}
    items = [*_turns(history.user_turns, 0)]
    for span in history.spans:
        items.append(_span(span, decided.get(span.index), result, key))
        items += _turns(history.user_turns, span.index)
    return tag(
        "section",
        tag("h3", "Spans"),
        _controls(decided, key),
        tag("ol", *items, class_="spans", id=f"{key}-spans"),
    )


def _controls(decided: Mapping[int, Decision], key: str) -> Markup:
    """Make the buttons for the script; they are hidden without it."""
    counts: Counter[str] = Counter(decision.fate for decision in decided.values())
    filters = [tag("button", "all", type="button", aria_pressed="true", data_fate="")] + [
        tag("button", f"{word} ({counts[word]})", type="button", aria_pressed="false", data_fate=word)
        for word in FATES
        if counts[word]
    ]
    return tag(
        "div",
        tag("span", *filters, role="group", aria_label="Show only") if counts else None,
        tag("button", "open all", type="button", data_open="open"),
        tag("button", "close all", type="button", data_open="close"),
        tag("span", class_="count", role="status"),
        class_="controls",
        data_list=f"{key}-spans",
        hidden=True,
    )


def _turns(turns: Sequence[UserTurn], after: int) -> Iterator[Markup]:
    for turn in turns:
        if turn.after == after:
            heading = "The task" if after == 0 else "The user"
            head = tag("h4", heading), tag("span", "always kept", class_="badge user")
            yield tag("li", tag("div", *head, class_="head"), _text(turn.text, heading), class_="turn")


def _span(span: Span, decision: Decision | None, result: Result, key: str) -> Markup:
    # Without decisions (the event failed, or could drop nothing) every span stays.
    word = decision.fate if decision else "kept"
    anchor = f"{key}-s{span.index}"
    return tag(
        "li",
        tag(
            "div",
            tag("h4", tag("a", span.label, href=f"#{anchor}")),
            tag("span", word, class_=f"badge {word}"),
            tag("code", what(span), class_="what"),
            _utility(decision) if decision else None,
            tag("span", f"{span.tokens:,} tokens", class_="tokens"),
            class_="head",
        ),
        _why(decision, result.sketches) if decision else None,
        _texts(span),
        class_=f"span {word}",
        id=anchor,
        data_fate=word,
    )


def _utility(decision: Decision) -> Markup:
    level = tag("span", style=f"width:{100 * decision.utility:.0f}%")
    return tag(
        "span",
        "utility ",
        tag("span", level, class_="meter", aria_hidden="true"),
        f" {decision.utility:.2f}",
        class_="utility",
    )


def _why(decision: Decision, sketches: Sequence[Sketch]) -> Markup:
    reasons = [tag("li", f"Pinned: {decision.pinned}.")] if decision.pinned else []
    for verb, said in (("needed by", _steps(decision, sketches)), ("rescued by", _rescues(decision, sketches))):
        for text, by in said.items():
            who = f"{verb} sketch{'es' if len(by) > 1 else ''} {numbers(sorted(by))}"
            reasons.append(tag("li", tag("b", who), ": ", tag("q", text) if text else "no reason given"))
    if decision.note:
        reasons.append(tag("li", f"{decision.note[0].upper()}{decision.note[1:]}."))
    return tag("ul", *(reasons or [tag("li", "No sketch needs it.")]), class_="why")


def _steps(decision: Decision, sketches: Sequence[Sketch]) -> dict[str, set[int]]:
    """Return the steps that cite the span, each with the sketches that use these words."""
    said: dict[str, set[int]] = {}
    for number, sketch in _plans(sketches):
        for step in sketch.steps:
            if decision.index in step.cites:
                said.setdefault(step.text, set()).add(number)
    return said


def _rescues(decision: Decision, sketches: Sequence[Sketch]) -> dict[str, set[int]]:
    said: dict[str, set[int]] = {}
    for number, sketch in _plans(sketches):
        for rescue in sketch.rescues:
            if decision.index in rescue.spans:
                said.setdefault(rescue.reason, set()).add(number)
    return said


def _plans(sketches: Sequence[Sketch]) -> Iterator[tuple[int, Sketch]]:
    return ((number, sketch) for number, sketch in enumerate(sketches, 1) if sketch.problem is None)


def _texts(span: Span) -> Markup:
    """Make the folded box with the span's full text."""
    named = (("thought", span.thought), ("action", span.action), ("observation", span.observation))
    present = [(name, text) for name, text in named if text]
    about = ", ".join(f"{name} ({len(text):,})" for name, text in present) or "no text"
    shown = [together(tag("h5", name), _text(text, f"{name} of {span.label}")) for name, text in present]
    return tag("details", tag("summary", about, " characters" if present else None), *shown)


def _text(text: str, name: str) -> Markup:
    """Make a scrollable box for a text, reachable by keyboard."""
    return tag("pre", text, tabindex="0", role="region", aria_label=name)
