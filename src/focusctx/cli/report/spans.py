"""The spans in order: as a bar, and as a list with the outcome, the evidence for it, the full text and the images.

Only images that the trace itself holds are shown: the page never fetches anything.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ...explain import what_brings_back
from ...pipeline.excerpt import Block, shown_of
from ...types import Decision, History, Message, Result, Sketch, Span, Unit, UserTurn
from ..table import numbers, what
from .markup import Markup, tag, together

_FATES = {
    "kept": "whole: plans cite it, or there was room",
    "rescued": "whole, for the risk of losing it",
    "pinned": "whole, whatever the sketches say",
    "excerpt": "its action and the passages that matter",
    "record": "what was done and how it ended",
    "dropped": "nothing of it",
}
_LABELLED = 0.035
"""Smallest share of the bar at which a segment has room for its name."""
_Said: TypeAlias = dict[str, set[tuple[int, Unit]]]
"""Lines about a span, each with the sketches that wrote it and what they cite; part 0 is the whole span."""
_DATA_URL = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_LONGEST = 20_000_000
"""Characters of an image beyond which it is only named: a browser would choke on the page."""


def spans(result: Result, key: str) -> Markup | None:
    """Make the list, with the user's words in between."""
    history = result.history
    if history is None:
        return None
    decided = {decision.index: decision for decision in result.decisions}
    own = _unowned(history)
    items = [*_turns(history.user_turns, 0, own[0])]
    for span in history.spans:
        items.append(_span(span, decided.get(span.index), result, key))
        items += _turns(history.user_turns, span.index, own[span.index])
    return tag(
        "section",
        tag("h3", "Steps"),
        _controls(decided, key),
        tag("ol", *items, class_="spans", id=f"{key}-spans"),
    )


def _controls(decided: Mapping[int, Decision], key: str) -> Markup:
    """Make the buttons for the script; they are hidden without it."""
    counts: Counter[str] = Counter(decision.fate for decision in decided.values())
    filters = [tag("button", "all", type="button", aria_pressed="true", data_fate="")] + [
        tag("button", f"{word} ({counts[word]})", type="button", aria_pressed="false", data_fate=word)
        for word in _FATES
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


def _turns(turns: Sequence[UserTurn], after: int, messages: Sequence[Message]) -> Iterator[Markup]:
    heading = "The task" if after == 0 else "The user"
    head = tag("div", tag("h4", heading), tag("span", "always kept", class_="badge user"), class_="head")
    for turn in turns:
        if turn.after == after and turn.text:
            yield tag("li", head, _text(turn.text, heading), class_="turn")
    if shown := _images(messages, heading.lower()):
        yield tag("li", head, shown, class_="turn")


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
            tag("span", _size(span, decision), class_="tokens"),
            class_="head",
        ),
        _why(decision, result.sketches) if decision else None,
        _texts(span, decision, result),
        _images(span.messages, span.label),
        class_=f"span {word}",
        id=anchor,
        data_fate=word,
    )


def _size(span: Span, decision: Decision | None) -> str:
    if decision and decision.fate in ("excerpt", "record"):
        return f"{decision.left:,} of {span.tokens:,} tokens"
    return f"{span.tokens:,} tokens"


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
        for text, units in said.items():
            by = sorted({number for number, _ in units})
            passages = sorted({part for _, (_, part) in units if part})
            which = f" ({', '.join(f's_{decision.index}.{part}' for part in passages)})" if passages else ""
            who = f"{verb} sketch{'es' if len(by) > 1 else ''} {numbers(by)}{which}"
            reasons.append(tag("li", tag("b", who), ": ", tag("q", text) if text else "no reason given"))
    if decision.note:
        reasons.append(tag("li", tag("b", "reason"), f": {decision.note}."))
    reasons = reasons or [tag("li", "No sketch needs it.")]
    if back := what_brings_back(decision):
        reasons.append(tag("li", tag("b", "would have kept it whole"), f": {back}."))
    return tag("ul", *reasons, class_="why")


def _steps(decision: Decision, sketches: Sequence[Sketch]) -> _Said:
    return _said(
        decision, ((n, step.text, step.cites, step.parts) for n, plan in _plans(sketches) for step in plan.steps)
    )


def _rescues(decision: Decision, sketches: Sequence[Sketch]) -> _Said:
    return _said(
        decision, ((n, one.reason, one.spans, one.parts) for n, plan in _plans(sketches) for one in plan.rescues)
    )


def _said(decision: Decision, lines: Iterable[tuple[int, str, Sequence[int], Sequence[Unit]]]) -> _Said:
    said: _Said = {}
    for number, text, spans, parts in lines:
        for unit in (*((index, 0) for index in spans), *parts):
            if unit[0] == decision.index:
                said.setdefault(text, set()).add((number, unit))
    return said


def _plans(sketches: Sequence[Sketch]) -> Iterator[tuple[int, Sketch]]:
    return ((number, sketch) for number, sketch in enumerate(sketches, 1) if sketch.problem is None)


def _texts(span: Span, decision: Decision | None, result: Result) -> Markup:
    """Make the folded box with the span's full text; what was left out is behind its marks."""
    history = result.history
    assert history is not None
    named = (("thought", span.thought), ("action", span.action), ("observation", span.observation))
    about = ", ".join(f"{name} ({len(text):,})" for name, text in named if text)
    words = f"{about} characters" if about else "no text"
    shown = [_block(block, span.label) for block in shown_of(result, span.index) or ()]
    is_shortened = decision is not None and decision.fate in ("excerpt", "record")
    return tag("details", tag("summary", f"as the agent sees it: {words}" if is_shortened else words), *shown)


def _block(block: Block, label: str) -> Markup:
    name = f"{block.name} of {label}"
    if not any(stretch.mark for stretch in block.stretches):
        return together(tag("h5", block.name), _text("".join(text for text, _ in block.stretches), name))
    shown = [_gap(text, mark) if mark else tag("span", text) for text, mark in block.stretches]
    box = tag("div", *shown, class_="excerpted", tabindex="0", role="region", aria_label=name)
    return together(tag("h5", block.name), box)


def _gap(text: str, mark: str) -> Markup:
    """Make a mark that opens, with the blanks that the agent sees around it; plain if there is nothing behind it."""
    if not text:
        return tag("span", mark)
    name = mark.strip()
    before, _, after = mark.partition(name)
    folded = tag("details", tag("summary", name), tag("div", text), class_="gap")
    return together(tag("span", before) if before else None, folded, tag("span", after) if after else None)


def _text(text: str, name: str) -> Markup:
    """Make a scrollable box for a text, reachable by keyboard."""
    return tag("pre", text, tabindex="0", role="region", aria_label=name)


def _images(messages: Iterable[Message], whose: str) -> Markup | None:
    """Show the images in these messages; one given by a URL or a file id is only named."""
    found = [url for message in messages for url in _urls(message)]
    if not found:
        return None
    shown = [_image(url, f"image {number} of {whose}") for number, url in enumerate(found, 1)]
    return tag("div", *shown, class_="images")


def _unowned(history: History) -> dict[int, list[Message]]:
    """Return the messages, or blocks of them, that belong to no span, by the span they come after: the user's own."""
    found: defaultdict[int, list[Message]] = defaultdict(list)
    latest = 0
    for message, owner in zip(history.messages, history.owners, strict=True):
        if isinstance(owner, int):
            own, latest = (message if owner == 0 else {}), max(latest, owner)
        else:
            blocks = zip(message["content"], owner, strict=True)
            own, latest = {"content": [block for block, of in blocks if of == 0]}, max(latest, *owner)
        found[latest].append(own)
    return found


def _image(url: str, name: str) -> Markup:
    if len(url) <= _LONGEST and _DATA_URL.fullmatch(url):
        return tag("img", src=url, alt=name)
    return tag("p", f"{name}: not in the trace, so not shown")


def _urls(value: Any) -> Iterator[str]:
    """Yield the URL of every image in a message's content, at any depth, in the three formats."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _urls(inner)
    elif isinstance(value, Mapping):
        kind = value.get("type")
        if kind == "image_url":  # Chat Completions
            given = value.get("image_url")
            yield str(given.get("url") if isinstance(given, Mapping) else given)
        elif kind in ("input_image", "computer_screenshot"):  # Responses
            yield str(value.get("image_url") or value.get("file_id"))
        elif kind == "image":  # Anthropic
            source = value.get("source")
            source = source if isinstance(source, Mapping) else {}
            held = source.get("type") == "base64"
            yield f"data:{source.get('media_type')};base64,{source.get('data')}" if held else str(source.get("url"))
        else:
            yield from _urls(value.get("content"))
            yield from _urls(value.get("output"))


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
        for word, meaning in _FATES.items()
        if word in present
    ]
    items.append(tag("li", tag("span", class_="swatch user"), tag("b", "user"), ": always kept"))
    return tag("ul", *items, class_="legend")
