"""Say in words what a log is good for, and what its replay recommends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from ..prices import price_of
from ..types import Usage
from .lines import Line, lines_of
from .methods import SHIPPED
from .record import RunRecord
from .runs import Run

ENOUGH_FACTS = 30
"""Fewest facts that a share is printed for: without a miss in 30, one in ten could still be lost."""
_ENOUGH_RUNS = 10
_GOOD, _FAIR = 0.95, 0.8
"""Recall from which the replayed settings are recommended, and from which a larger target is enough."""
_DEFAULT_TARGET, _LARGE_TARGET = 0.5, 0.7


def model_of(runs: Iterable[Run]) -> str | None:
    """Return the model that most runs of a log name; None if none does."""
    named = Counter(run.model for run in runs if run.model)
    return named.most_common(1)[0][0] if named else None


def facts_of(line: Line[RunRecord]) -> tuple[int, int]:
    """Return how many of the facts that actions needed at due steps were in the view, and how many there were."""
    steps = [step for record in line.records.values() for step in record.due]
    return sum(step.there for step in steps), sum(step.needed for step in steps)


def log_in_words(runs: Sequence[Run], budget: int) -> list[str]:
    """Describe the runs of one file: their size, how their agent acts, and whether a replay of them can tell much."""
    histories = [run.history() for run in runs]
    spans = [span for history in histories for span in history.spans]
    sizes = [history.tokens for history in histories]
    large = sum(size > budget for size in sizes)
    steps = median(len(history.spans) for history in histories)
    enough = (
        ": enough to judge by." if large >= _ENOUGH_RUNS else ": few, so replay more of them before you rely on it."
    )
    said = [
        f"{_counted(len(runs), 'run')} with a median of {steps:,.0f} steps and {median(sizes):,.0f} tokens; the "
        f"largest has {max(sizes):,}. {large} of {len(runs):,} pass δ = {budget:,}{enough}"
    ]
    acting = [span for span in spans if span.action]
    in_text = sum(not span.calls for span in acting)
    parallel = sum(len(span.calls) > 1 for span in acting)
    if acting and 2 * in_text > len(acting):
        said.append("The agent acts in plain text; user messages that are surely tool output count as observations.")
    elif parallel:
        said.append(
            f"The agent calls tools, several at once in {parallel / len(acting):.0%} of its steps: of those, read-only "
            "calls may go one by one."
        )
    elif acting:
        said.append("The agent calls tools, one at a time.")
    else:
        said.append("The agent takes no actions that are recognised, so no step needs a fact of another.")
    if talks := sum(any(turn.after for turn in history.user_turns) for history in histories):
        said.append(f"The user speaks again in {_counted(talks, 'run')}; their words are never dropped.")
    if doubts := sum(history.doubts is not None for history in histories):
        said.append(
            f"In {_counted(doubts, 'run')} some user messages may be tool output; they count as the user's words here."
        )
    return said


@dataclass(frozen=True, slots=True)
class Saving:
    """The cost of the same runs in full and under FOCUS, in USD."""

    runs: int
    full: float
    focus: float
    full_uncached: float
    focus_uncached: float
    sketches: float | None
    """USD of the sketches; None if the draft has no known price."""

    @property
    def share(self) -> float:
        """Share saved where the provider caches prefixes; negative if FOCUS costs more."""
        return 1 - (self.focus + (self.sketches or 0.0)) / self.full if self.full else 0.0


def saving_of(full: Line[RunRecord], focus: Line[RunRecord]) -> Saving | None:
    """Return the cost of the runs that both lines have; None if a price was not known."""
    places = [place for place in focus.records if place in full.records]
    ours, theirs = ([line.records[place] for place in places] for line in (focus, full))
    costs = [[getattr(one, name) for one in some] for some in (theirs, ours) for name in ("cost_cached", "cost")]
    if not places or any(cost is None for some in costs for cost in some):
        return None
    full_cached, full_plain, focus_cached, focus_plain = map(sum, costs)
    sketches = sum((one.usage for one in ours), Usage()).cost
    return Saving(len(places), full_cached, focus_cached, full_plain, focus_plain, sketches)


def advice(records: Sequence[RunRecord], model: str) -> list[str]:
    """Recommend a budget, a target and a draft by the records of one file, and say what they would have saved."""
    lines = lines_of(records)
    focus = next((line for line in reversed(lines) if line.method == SHIPPED), None)
    full = next((line for line in lines if focus and line.method == "none" and line.budget == focus.budget), None)
    if focus is None or full is None:
        return ["No recommendation: it compares `none` with `focus`; add both to --methods."]
    events = focus.total("events")
    if not events:
        largest = max(record.peak for record in full.records.values())
        return [
            f"Nothing to compress: no history would have been cut at δ = {focus.budget:,}. Leave the budget there, or "
            f"replay with one below {largest:,} tokens, the largest history that was sent."
        ]
    return [*_settings(focus, lines), *_money(saving_of(full, focus), model)]


def _settings(focus: Line[RunRecord], lines: Sequence[Line[RunRecord]]) -> list[str]:
    """Recommend settings by what the actions still had of what they needed."""
    there, needed = facts_of(focus)
    target = focus.settings.get("target", _DEFAULT_TARGET)
    budget, draft = focus.budget, focus.draft
    recall = focus.average("recall") or 0.0  # the mean over runs, as in the table
    held = f"{there:,} of the {needed:,} facts that actions needed were still in view"
    held += f" (recall {recall:.3f})" if needed >= ENOUGH_FACTS else ""
    if needed < ENOUGH_FACTS:
        said = f"{held}: too few to judge by. Start with the defaults, and replay more runs."
        target = _DEFAULT_TARGET
    elif recall >= _GOOD:
        said = f"{held}: the replayed settings do."
    elif recall >= _FAIR:
        target = max(target or 0.0, _LARGE_TARGET) if (target or 0.0) <= 1 else target
        said = f"{held}: leave more after an event."
    else:
        budget *= 2
        said = f"{held}: that is little. Compress later, and leave more of it."
        target = max(target or 0.0, _LARGE_TARGET) if (target or 0.0) <= 1 else target
    newest = next((line for line in lines if line.method == f"fifo@{SHIPPED}" and line.is_matched_to(focus)), None)
    if draft == "offline" and needed >= ENOUGH_FACTS and newest and facts_of(newest)[0] >= there:
        draft = "openai:gpt-5-mini"
        said += " The offline draft keeps no more than the newest steps would, so try a model as the draft."
    return [said, f"Recommended: budget {budget:,}, target {target}, draft {draft}."]


def _money(saving: Saving | None, model: str) -> list[str]:
    if saving is None:
        known = price_of(model) is not None
        why = "some records were made without prices" if known else f"{model} has no known price"
        return [f"What it would have saved is not known: {why} (--model, or a file that FOCUSCTX_PRICES names)."]
    sketches = "" if saving.sketches is not None else " The sketches are not counted: the draft has no known price."
    cached, uncached = (
        saving.share,
        1 - (saving.focus_uncached + (saving.sketches or 0.0)) / (saving.full_uncached or 1),
    )
    verb = "saved" if cached >= 0 else "cost"
    more = "" if cached >= 0 else " more: set only_if_it_pays, or a larger budget"
    return [
        f"As replayed it would have {verb} {_usd(abs(saving.full * cached))} of {_usd(saving.full)} "
        f"({abs(cached):.0%}{more}) on {_counted(saving.runs, 'run')} at {model}'s prices where the provider caches "
        f"prefixes, and {uncached:.0%} without a cache.{sketches}"
    ]


def _usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
