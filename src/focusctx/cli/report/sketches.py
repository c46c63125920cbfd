"""The evidence: the sketches word for word, and the certificate with its assumptions."""

from __future__ import annotations

from collections.abc import Iterable

from ...types import Result, Sketch, Unit
from .headline import percent
from .markup import Markup, tag

_WHOLE = -1


def sketches(result: Result, key: str) -> Markup | None:
    if not result.sketches:
        return None
    shown = [_sketch(sketch, number, key) for number, sketch in enumerate(result.sketches, 1)]
    return tag("section", tag("h3", "Sketches, as the draft wrote them"), *shown)


def certificate(result: Result) -> Markup | None:
    """Describe the bound with its assumptions beside it: it is worth no more than they are."""
    found = result.certificate
    if found is None:
        return None
    upper = min(1.0, found.set_utility + found.radius)
    words = (
        f"{percent(found.set_utility)} of {found.rollouts} sketches cite anything that was left out. At "
        f"{percent(found.confidence)} confidence the true share is at most {percent(upper)} (radius "
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
