"""The headline: savings, costs and problems."""

from __future__ import annotations

from ...explain import levels_of
from ...types import Result, Usage
from ..options import Setup
from .markup import Markup, tag, together


def headline(result: Result, setup: Setup | None) -> Markup:
    return together(_verdict(result, setup), _notices(result), _tiles(result), _facts(result, setup))


def saved(result: Result) -> float:
    """Return the share of tokens that were removed."""
    return 1 - result.tokens_after / result.tokens_before if result.tokens_before else 0.0


def percent(share: float) -> str:
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
        ("saved", percent(saved(result)), "of the tokens"),
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
