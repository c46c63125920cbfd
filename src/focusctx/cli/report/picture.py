"""The history as a bar: spans in order, as wide as their tokens, coloured by their outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...types import Result
from .markup import Markup, tag

FATES = {
    "kept": "whole: plans cite it, or there was room",
    "rescued": "whole, for the risk of losing it",
    "pinned": "whole, whatever the sketches say",
    "excerpt": "its action and the passages that matter",
    "record": "what was done and how it ended",
    "dropped": "nothing of it",
}
_LABELLED = 0.035
"""Smallest share of the bar at which a segment has room for its name."""


@dataclass(frozen=True, slots=True)
class _Segment:
    name: str
    word: str
    tokens: int
    target: str | None


def picture(result: Result, key: str) -> Markup | None:
    """Draw two bars on one scale, before and after, and the legend. The list of spans gives the same in words."""
    if not result.decisions:
        return None
    before = [_frame(result)]
    before += [
        _Segment(f"s_{decision.index}", decision.fate, decision.tokens, f"{key}-s{decision.index}")
        for decision in result.decisions
    ]
    left = {f"s_{decision.index}": decision.left for decision in result.decisions}
    after = [replace(segment, tokens=left.get(segment.name, segment.tokens)) for segment in before]
    return tag(
        "figure",
        tag("figcaption", "The steps in order, each as wide as its tokens"),
        _bar("before", before, result.tokens_before, result.tokens_before),
        _bar("after", after, result.tokens_after, result.tokens_before),
        _legend(before),
        class_="picture",
    )


def _frame(result: Result) -> _Segment:
    """Return the tokens that belong to no span: the task and the user's words."""
    tokens = result.tokens_before - sum(decision.tokens for decision in result.decisions)
    return _Segment("user", "user", max(tokens, 0), None)


def _bar(name: str, segments: Sequence[_Segment], tokens: int, scale: int) -> Markup:
    # For eye and mouse only: sixty links in a row would trap keyboard users.
    width = 100 * tokens / scale if scale else 0
    drawn = [_drawn(segment, scale) for segment in segments if segment.tokens]
    return tag(
        "div",
        tag("div", f"{name}: {tokens:,} tokens", class_="bar-name"),
        tag("div", *drawn, class_="bar", style=f"width:{width:.3f}%", aria_hidden="true"),
    )


def _drawn(segment: _Segment, scale: int) -> Markup:
    label = segment.name if segment.tokens >= _LABELLED * scale else ""
    about = f"{segment.name}: {segment.word}, {segment.tokens:,} tokens"
    if segment.word == "user":
        about = f"the task and the user's words: always kept, {segment.tokens:,} tokens"
    return tag(
        "a" if segment.target else "span",
        tag("span", label) if label else None,
        class_=f"segment {segment.word}",
        href=f"#{segment.target}" if segment.target else None,
        tabindex="-1" if segment.target else None,
        title=about,
        style=f"flex-grow:{segment.tokens}",
    )


def _legend(segments: Sequence[_Segment]) -> Markup:
    present = {segment.word for segment in segments}
    items = [
        tag("li", tag("span", class_=f"swatch {word}"), tag("b", word), f": {meaning}")
        for word, meaning in FATES.items()
        if word in present
    ]
    items.append(tag("li", tag("span", class_="swatch user"), tag("b", "user"), ": always kept"))
    return tag("ul", *items, class_="legend")
