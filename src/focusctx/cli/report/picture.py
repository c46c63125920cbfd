"""The history as a bar: spans in order, as wide as their tokens, coloured by their outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...config import FocusConfig
from ...pipeline.skeleton import skeleton_of
from ...tokens import Counter
from ...types import Result
from .markup import Markup, tag

FATES = {
    "kept": "plans cite it, or there was room",
    "rescued": "for the risk of losing it",
    "pinned": "whatever the sketches say",
    "skeleton": "without its observation",
    "dropped": "too few plans need it",
}
_LABELLED = 0.035
"""Smallest share of the bar at which a segment has room for its name."""


class _Segment(NamedTuple):
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
    left = _left(result)
    after = [segment._replace(tokens=left.get(segment.name, segment.tokens)) for segment in before]
    return tag(
        "figure",
        tag("figcaption", "The spans in order, each as wide as its tokens"),
        _bar("before", before, result.tokens_before, result.tokens_before),
        _bar("after", after, result.tokens_after, result.tokens_before),
        _legend(before),
        class_="picture",
    )


def _frame(result: Result) -> _Segment:
    """Return the tokens that belong to no span: the task and the user's words."""
    tokens = result.tokens_before - sum(decision.tokens for decision in result.decisions)
    return _Segment("user", "user", max(tokens, 0), None)


def _left(result: Result) -> dict[str, int]:
    """Return the tokens left of each span that did not stay whole: 0, or those of its skeleton."""
    left = {f"s_{index}": 0 for index in result.dropped}
    if not result.skeletons or result.history is None:
        return left
    history, count = result.history, Counter(FocusConfig().tokens).count
    outlined = [span for span in history.spans if span.index in result.skeletons]
    sizes = {span.label: skeleton_of(span, history.format, count).tokens for span in outlined}
    # The result may have been counted with another tokenizer, so scale to its known total.
    gone = sum(span.tokens for span in history.spans if span.index in result.dropped)
    share = (result.tokens_after - result.tokens_before + gone) / (sum(sizes.values()) or 1)
    return left | {label: round(share * tokens) for label, tokens in sizes.items()}


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
