"""The whole page: one event, or several with a table of contents.

An event has a headline (savings, costs and problems), a picture, its spans, the sketches word for word, and the
certificate with its assumptions.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from ... import __version__
from ...explain import levels_of
from ...types import Result, Sketch, Unit, Usage
from ..options import Setup
from .markup import Markup, tag, together
from .spans import picture, spans

_WHOLE = -1


@dataclass(frozen=True, slots=True)
class Entry:
    """One event and its source. A saved Result does not record its settings, so it has no setup."""

    name: str
    result: Result
    setup: Setup | None = None


def page(entries: Sequence[Entry]) -> str:
    """Return the whole document."""
    style, script = _asset("look.css", "focusctx"), _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    several = len(entries) > 1
    title = f"{len(entries)} conversations" if several else entries[0].name
    return Template(_asset("page.html")).substitute(
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'",
        title=tag("title", f"focusctx: {title}"),
        style=style,
        heading=tag("h1", title),
        contents=_contents(entries) if several else "",
        events=together(*(_event(entry, number, several) for number, entry in enumerate(entries, 1))),
        version=__version__,
        script=script,
    )


def _asset(name: str, package: str = __package__) -> str:
    return files(package).joinpath(name).read_text("utf-8").strip()


def _contents(entries: Sequence[Entry]) -> Markup:
    """Make a table of links to the conversations on the page."""
    names = ("conversation", "tokens before", "after", "saved", "steps kept whole", "excerpts", "records", "dropped")
    rows = [
        tag(
            "tr",
            tag("th", tag("a", entry.name, href=f"#c{number}"), scope="row"),
            *(tag("td", cell) for cell in _row(entry.result)),
        )
        for number, entry in enumerate(entries, 1)
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names))),
            tag("tbody", *rows),
        ),
        class_="contents",
    )


def _row(result: Result) -> tuple[str, ...]:
    levels = levels_of(result)
    return (
        f"{result.tokens_before:,}",
        f"{result.tokens_after:,}",
        _percent(_saved(result)),
        str(levels.whole),
        str(levels.excerpts),
        str(levels.records),
        str(levels.dropped),
    )


def _event(entry: Entry, number: int, several: bool) -> Markup:
    key = f"c{number}"
    return tag(
        "section",
        tag("h2", entry.name) if several else tag("h2", "The event", class_="unseen"),
        _headline(entry.result, entry.setup),
        picture(entry.result, key),
        spans(entry.result, key),
        _sketches(entry.result, key),
        _certificate(entry.result),
        class_="event",
        id=key,
    )


def _headline(result: Result, setup: Setup | None) -> Markup:
    return together(_verdict(result, setup), _notices(result), _tiles(result), _facts(result, setup))


def _saved(result: Result) -> float:
    """Return the share of tokens that were removed."""
    return 1 - result.tokens_after / result.tokens_before if result.tokens_before else 0.0


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _verdict(result: Result, setup: Setup | None) -> Markup | None:
    if result.compressed or result.failure is not None or (result.warnings and not result.sketches):
        return None  # the notices already say it
    if result.sketches:
        return tag("p", "Compression was due, and every step is needed: nothing was left out.", class_="verdict")
    limit = f" of {setup.budget:,}" if setup else ""
    return tag("p", f"Nothing was due: the history fits the budget{limit}.", class_="verdict")


def _notices(result: Result) -> Markup | None:
    notices = [tag("p", tag("strong", "Warning: "), warning, class_="notice") for warning in result.warnings]
    if result.failure is not None:
        words = tag("strong", "Not compressed: "), result.failure, ". The messages were passed on as they came."
        notices.insert(0, tag("p", *words, class_="notice failure"))
    return together(*notices)


def _tiles(result: Result) -> Markup:
    levels = levels_of(result)
    tiles = [
        ("tokens before", f"{result.tokens_before:,}", "of history"),
        ("tokens after", f"{result.tokens_after:,}", _aim(result)),
        ("saved", _percent(_saved(result)), "of the tokens"),
        ("steps kept whole", str(levels.whole), f"{levels.rescued} rescued, {levels.pinned} pinned"),
    ]
    if levels.excerpts:
        tiles.append(("steps shown in part", str(levels.excerpts), f"of {levels.steps}"))
    if levels.records:
        tiles.append(("steps left as a record", str(levels.records), f"of {levels.steps}"))
    if levels.dropped or not result.shortened:
        tiles.append(("steps dropped", str(levels.dropped), f"of {levels.steps}"))
    return tag("dl", *(_tile(*tile) for tile in tiles), class_="tiles")


def _aim(result: Result) -> str:
    return "of history" if result.target is None else f"target {result.target:,}"


def _tile(name: str, number: str, note: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", number, tag("small", note)))


def _facts(result: Result, setup: Setup | None) -> Markup:
    facts = _setup(setup) if setup else []
    usable = sum(sketch.problem is None for sketch in result.sketches)
    facts.append(("usable sketches", f"{usable} of {len(result.sketches)}" if result.sketches else "none asked for"))
    if result.history is not None:
        facts.append(("format", result.history.format))
    facts.append(("took", f"{result.latency:.2f} s"))
    if result.regrets:
        facts.append(("looked up again after a cut", ", ".join(f"s_{index}" for index in result.regrets)))
    if result.usage.requests:
        facts.append(("draft's use", _usage(result.usage)))
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts")


def _setup(setup: Setup) -> list[tuple[str, str]]:
    return [
        ("draft", setup.draft),
        ("rollouts N", str(setup.rollouts)),
        ("threshold τ", f"{setup.threshold:g}"),
        ("budget δ", f"{setup.budget:,} tokens"),
        ("target", "none" if setup.target is None else f"{setup.target:,} tokens"),
        ("mode", "defensive (FOCUS-D)" if setup.defensive else "optimistic (FOCUS-O)"),
    ]


def _usage(usage: Usage) -> str:
    requests = "1 request" if usage.requests == 1 else f"{usage.requests} requests"
    cost = "price not known" if usage.cost is None else f"${usage.cost:.4f}"
    if not usage.input_tokens and not usage.output_tokens:  # a draft without a model, or a server that does not count
        return requests if usage.cost == 0 else f"{requests}, {cost}"
    return f"{requests}, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {cost}"


def _sketches(result: Result, key: str) -> Markup | None:
    if not result.sketches:
        return None
    shown = [_sketch(sketch, number, key) for number, sketch in enumerate(result.sketches, 1)]
    return tag("section", tag("h3", "Sketches, as the draft wrote them"), *shown)


def _certificate(result: Result) -> Markup | None:
    """Describe the bound together with its assumptions: without them it means nothing."""
    found = result.certificate
    if found is None:
        return None
    upper = min(1.0, found.set_utility + found.radius)
    words = (
        f"{_percent(found.set_utility)} of {found.rollouts} sketches cite anything that was left out. At "
        f"{_percent(found.confidence)} confidence the true share is at most {_percent(upper)} (radius "
        f"{found.radius:.2f} for {found.rollouts} sketches), so leaving it out changes the agent's decision by at most "
        f"{found.bound:.2f}, where the most it could change is {found.m_max:g}. More rollouts make the radius smaller."
    )
    return tag(
        "section",
        tag("h3", "Certificate"),
        tag("p", words),
        tag("p", "This holds if:"),
        tag("ul", *(tag("li", assumption) for assumption in found.assumptions)),
        class_="certificate",
    )


def _sketch(sketch: Sketch, number: int, key: str) -> Markup:
    steps = "1 step" if len(sketch.steps) == 1 else f"{len(sketch.steps)} steps"
    cited = _names((step.cites, step.parts) for step in sketch.steps)
    about = f"Sketch {number}: {steps}, cites {cited}"
    if sketch.rescues:
        about += f", rescues {_names((rescue.spans, rescue.parts) for rescue in sketch.rescues)}"
    if sketch.problem is not None:
        about = f"Sketch {number} does not vote: {sketch.problem}"
    return tag(
        "details",
        tag("summary", about),
        tag("pre", sketch.text, tabindex="0", role="region", aria_label=f"sketch {number}"),
        id=f"{key}-sketch{number}",
    )


def _names(cited: Iterable[tuple[Iterable[int], Iterable[Unit]]]) -> str:
    """Name the spans and passages cited, in order."""
    units = {unit for spans, parts in cited for unit in (*((index, _WHOLE) for index in spans), *parts)}
    return ", ".join(f"s_{i}" if part == _WHOLE else f"s_{i}.{part}" for i, part in sorted(units)) or "nothing"
