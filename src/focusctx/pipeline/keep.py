"""Steps 5 and 6, score and keep: count the sketches' votes; decide which spans stay whole, which in part, which go.

A span's score is the share of sketches that cite it or one of its passages. The paper's rule is `select`:
`S_keep = S_U ∪ S_R ∪ pinned`, whole spans. `select_parts` goes beyond it: it decides passage by passage and comes back
to a target, with what may not be forgotten first, then what the sketches cite and rescue, by votes, then what the data
flow expects the future to need.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeVar

from ..config import FocusConfig
from ..drafts.dataflow import SharedFlow, Worth, read_flow, take_best
from ..types import History, Sketch, Unit
from .must_stay import companions_of, old_deeds, required_units, rules_in_passing
from .outline import Outlines, Parts, joint_records, joint_tokens

_Named = TypeVar("_Named", int, Unit)
_DONE = 0.03
"""Value of knowing that a step was made at all, in needed facts."""
_EXPECTED = "the data flow of the history expects the future to need it"
_LEAST = 0.0005
"""Needed facts per token below which spare room is left empty: free room is no reason to keep a screenful."""
_FLOOR = 0.25
"""Share of the rest that stays if what may never go exceeds the target by itself."""
_RECORDS = 0.5
"""Share of the room that text which must stay may take before old deeds are shortened to a line each."""
_RULES = 0.05
"""Share of the budget that lines which look like rules may take, outside of policies."""
_SHORT_STEP = 600
"""Tokens up to which a step that is cited whole is meant whole, whoever cites it: a list is of no use in part."""
_SET = 3
"""Fewest like calls of one turn whose results are a set if one step of a plan needs them."""
_NEARLY_WHOLE = 0.93
"""Share of its tokens from which an excerpt is shown whole: its marks would save too little."""


@dataclass(frozen=True, slots=True)
class Scores:
    """`û_i` and the rescue share of every span and passage that some sketch names; all others are 0."""

    utility: Mapping[int, float]
    """Share of the plans that cite a span, whole or in part."""
    rescue: Mapping[int, float]
    cited: Mapping[Unit, float]
    """Share of the plans that cite a passage; a cited span counts for all its passages and its record."""
    rescued: Mapping[Unit, float]
    narrow: Mapping[Unit, float]
    """Share of the plans that cite a passage by its own id."""
    together: Sequence[frozenset[Unit]]
    """Passages that one step of a plan cites by their own ids, two or more; the first steps of all plans come first."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The spans that stay, whole or in part, and the reasons."""

    kept: frozenset[int]
    """Spans that stay whole."""
    useful: frozenset[int]
    """`S_U`: cited often enough."""
    rescued: frozenset[int]
    """`S_R` without `S_U`: asked for only by the defensive check."""
    pinned: Mapping[int, str]
    shortened: Mapping[int, Parts] = field(default_factory=dict)
    """Spans that stay in part, with the passages they show; none for a record."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """Why a span stays though too few sketches ask for it, in part or whole, or goes though enough do."""
    sizes: Mapping[int, int] = field(default_factory=dict)
    """Tokens of the shortened spans."""
    tokens: int = 0
    """Tokens of the history afterwards."""
    excess: str | None = None
    """Why the history is still above its target; None if it is not."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The value of every part of a history, and the parts that may not go. Reading it takes a while."""

    outlines: Outlines
    worth: Worth
    required: Mapping[Unit, str]


def score(sketches: Sequence[Sketch], passages: Mapping[int, Sequence[int]]) -> Scores:
    """Compute citation and rescue frequencies over the sketches that are plans; `passages` numbers those of spans."""
    plans = [sketch for sketch in sketches if sketch.problem is None]
    rescues = [[(rescue.spans, rescue.parts) for rescue in plan.rescues] for plan in plans]
    return Scores(
        utility=_shares([plan.cited for plan in plans]),
        rescue=_shares([plan.rescued for plan in plans]),
        cited=_shares([cited_units(plan, passages) for plan in plans]),
        rescued=_shares([_units(named, passages) for named in rescues]),
        narrow=_shares([_units([((), step.parts) for step in plan.steps], passages) for plan in plans]),
        together=[
            _units([((), step.parts)], passages)
            for steps in zip_longest(*(plan.steps for plan in plans))
            for step in steps
            if step is not None and len(step.parts) > 1
        ],
    )


def cited_units(plan: Sketch, passages: Mapping[int, Sequence[int]]) -> frozenset[Unit]:
    """Return every unit that some step of a plan depends on."""
    return _units([(step.cites, step.parts) for step in plan.steps], passages)


def survey(history: History, config: FocusConfig, shared: SharedFlow | None = None) -> Survey | None:
    """Read what the sketches do not say; None in the paper's setting, which asks nothing else.

    `shared` is the data flow of the history, if the draft may need it, too.
    """
    if not config.levels and config.target is None:
        return None
    outlines = history.outlines or Outlines("spans", len)
    done = {(span.index, 0): _DONE for span in history.spans}
    flow = shared.read() if shared else read_flow(history)
    required: dict[Unit, str] = {}
    if history.outlines is not None:
        required = {(index, 0): f"{tried} failed here" for index, tried in flow.failures.items()}
        required |= rules_in_passing(history, outlines, room=int(_RULES * config.budget))
        required |= required_units(history, outlines, config.reads)
    return Survey(outlines, Worth(flow, done), required)


def select(history: History, scores: Scores, pinned: Mapping[int, str], config: FocusConfig) -> Selection:
    """Apply the thresholds to the sketches' votes, and add the spans that must never be dropped."""
    useful = _enough(scores.utility, config)
    rescued = _enough(scores.rescue, config) if config.defensive else frozenset[int]()
    chosen = useful | rescued | pinned.keys()
    companions = companions_of(history, chosen)
    kept = chosen | companions.keys()
    tokens = history.tokens - sum(span.tokens for span in history.spans if span.index not in kept)
    return Selection(kept, useful, rescued - useful, {**companions, **pinned}, tokens=tokens)


def select_parts(
    history: History,
    scores: Scores,
    pinned: Mapping[int, str],
    seen: Survey,
    config: FocusConfig,
    *,
    newer: Mapping[int, str],
    alike: Mapping[Unit, str] | None = None,
    reserve: int = 0,
) -> Selection:
    """Choose whole steps, excerpts and records within the target, less a reserve.

    What more sketches ask for comes first; of equal votes, what the next steps of the plans need, and citations before
    rescues. The passages that one step needs are taken together. Then come the `alike`: results like one that the agent
    missed. Spans newer than the sketches stay whole if there is room: no sketch could ask for
    them. A draft that names passages means all of a step that it names whole. One that never does says less: of its
    long steps what the data flow expects to be needed comes first, and the rest after all else that is expected to be.
    """
    plain = select(history, scores, pinned, config)
    choice = _Choice(history, seen, pinned, config, reserve)
    choice.require(seen.required)
    choice.take_together(scores.together, scores.narrow, config.threshold)
    choice.take(scores.narrow, config.threshold)
    rescued = scores.rescued if config.defensive else {}
    shares = {*scores.cited.values(), *rescued.values()}
    asked = [
        {unit: share for unit, share in asked.items() if share == votes}
        for votes in sorted((share for share in shares if share >= config.threshold), reverse=True)
        for asked in (scores.cited, rescued)
    ]
    divides = bool(scores.narrow)
    for units in asked:
        choice.fill(units, least=0.0 if divides else _LEAST)
        choice.take(units if divides else choice.of_short(units), config.threshold)
    choice.take_in_turn(alike or {})
    if not divides:
        choice.fill()
        for units in asked:
            choice.take(units, config.threshold)
    choice.take_whole(newer)
    choice.fill()
    choice.fill_again()
    choice.trim()
    kept, shortened, sizes = choice.levels()
    tokens = choice.tokens(kept, sizes)
    stays = kept | shortened.keys()
    over = dict.fromkeys((plain.useful | plain.rescued) - stays, "no room below the target")
    return Selection(
        kept,
        plain.useful & stays,
        plain.rescued & stays,
        {index: why for index, why in pinned.items() if index in kept},
        shortened,
        {**choice.notes, **over, **{index: why for index, why in choice.folded.items() if index not in stays}},
        sizes,
        tokens,
        excess_of(tokens, config),
    )


def target_tokens(config: FocusConfig) -> int | None:
    """Return the most tokens that an event is to leave; None for no target."""
    if config.target is None:
        return None
    return int(config.target * config.budget) if config.target <= 1 else int(config.target)


def excess_of(tokens: int, config: FocusConfig) -> str | None:
    """Return why a history of this size is above the target; None if it is not."""
    target = target_tokens(config)
    if target is None or tokens <= target:
        return None
    return f"{tokens:,} tokens are left, above the target of {target:,}: the rest may not go"


def _units(
    named: Iterable[tuple[Iterable[int], Iterable[Unit]]], passages: Mapping[int, Sequence[int]]
) -> frozenset[Unit]:
    """Return the units that one plan names; a passage counts for its record, too."""
    found: set[Unit] = set()
    for spans, parts in named:
        found.update((index, number) for index in spans for number in (0, *passages.get(index, ())))
        found.update(unit for index, number in parts for unit in ((index, 0), (index, number)))
    return frozenset(found)


def _shares(named: Sequence[frozenset[_Named]]) -> dict[_Named, float]:
    counts = Counter(one for some in named for one in some)
    return {one: count / len(named) for one, count in sorted(counts.items())}


def _enough(shares: Mapping[int, float], config: FocusConfig) -> frozenset[int]:
    return frozenset(index for index, share in shares.items() if share >= config.threshold)


def _room(fixed: int, costs: Mapping[Unit, int], target: int | None, config: FocusConfig, reserve: int) -> float:
    """Return the tokens that the target, less a reserve, leaves for what can be chosen.

    Where what may never go is larger than the target, there is none to keep to: a little stays beside it.
    """
    if target is None:
        return float("inf")
    if fixed <= target:
        return max(target - reserve - fixed, 0)
    return max(min(_FLOOR * sum(costs.values()), config.budget - fixed), 0)


class _Choice:
    """Units chosen one after the other, within the room that the target leaves."""

    def __init__(
        self, history: History, seen: Survey, pinned: Mapping[int, str], config: FocusConfig, reserve: int
    ) -> None:
        self.target = target_tokens(config)
        self.notes: dict[int, str] = {}
        self.folded: dict[int, str] = {}
        """For each step of whose deeds only a line stays: where that line is."""
        self._history = history
        self._every = history.every
        self._seen = seen
        self._whole = frozenset(pinned)
        self._spans = {span.index: span for span in history.spans if span.index not in pinned}
        self._costs: dict[Unit, int] = {}
        for span in self._spans.values():
            outline = seen.outlines.of(span)
            self._costs[span.index, 0] = outline.record_tokens
            self._costs |= {(span.index, one.number): one.tokens + one.extra for one in outline.passages}
        self._budget = config.budget
        self._fixed = history.tokens - sum(span.tokens for span in self._spans.values())
        self._most = self._room = _room(self._fixed, self._costs, self.target, config, reserve)
        self._parts: dict[int, set[int]] = {}
        """The chosen steps, with their chosen passages."""
        self._carriers: set[int] = set()
        """The steps that tell of the deeds of others, which are gone."""
        self._barred: set[Unit] = set()
        """Members of sets that do not fit."""
        self._given: dict[Unit, None] = {}
        """The chosen units that may go again, in the order they were chosen."""

    def require(self, units: Mapping[Unit, str]) -> None:
        """Take these units, whether there is room or not.

        Where they exceed the target by themselves, there is none to keep to: a little stays beside them.
        """
        for unit, why in units.items():
            for one in dict.fromkeys([(unit[0], 0), unit]):
                self._add(one, why, required=True)
        self._fold(units)
        self._add_companions(required=True)
        if self._room < 0:
            rest = sum(cost for unit, cost in self._costs.items() if not self._has(unit))
            used = self._most - self._room
            self._room = max(min(_FLOOR * rest, self._budget - self._fixed - used), 0)
            self._most = used + self._room

    def _fold(self, required: Mapping[Unit, str]) -> None:
        """Shorten the oldest deeds to a line each, while what must stay takes too much of the room."""
        outlines = self._seen.outlines
        if self.target is None or outlines.format == "spans":
            return
        self._room -= sum(map(outlines.deed_tokens, self._history.gone))
        for span, carrier in old_deeds(self._history, outlines, required, self._whole):
            if self._room >= (1 - _RECORDS) * self._most:
                break
            units = [(span.index, number) for number in (0, *self._parts[span.index])]
            saved = sum(self._costs[unit] for unit in units) - outlines.deed_tokens(span)
            if saved > 0:
                del self._parts[span.index]
                self._room += saved
                self._carriers.add(carrier)
                self.folded[span.index] = f"told in a line behind {self._spans[carrier].label}"

    def take_together(self, steps: Sequence[frozenset[Unit]], shares: Mapping[Unit, float], threshold: float) -> None:
        """Take what one step of a plan needs, if there is room for all of it: first the steps with most votes.

        Where there is not, sets in it that fit are taken: results of like calls. Of a set that does not fit nothing is
        taken later either. Six of the seven mails that ask for money look like all of them, and the seventh is never
        paid; where none is there, the agent looks them up again.
        """
        if steps:
            self._measure()
        bundles = [frozenset(unit for unit in units if shares[unit] >= threshold) for units in steps]
        bundles.sort(key=lambda units: -round(4 * sum(shares[unit] for unit in units) / max(len(units), 1)))
        for units in bundles:
            if not self._take_all(units):
                self._barred.update(*(some for some in self._sets_in(units) if not self._take_all(some)))
        self._barred = {unit for unit in self._barred if not self._has(unit)}

    def _take_all(self, units: Collection[Unit]) -> bool:
        """Take these units with their records if there is room for all of them, and for the marks beside them."""
        missing = {one: None for unit in sorted(units) for one in self._missing(unit) if one in self._costs}
        if sum(self._costs[one] for one in missing) > self._room:
            return False
        steps = {index for index, _ in missing}
        room, given = self._room, dict(self._given)
        parts = {index: set(self._parts[index]) for index in steps & self._parts.keys()}
        before = sum(map(self._size, parts))
        for one in missing:
            self._add(one)
        self._room = room + before - sum(map(self._size, steps))
        if self._room >= 0:
            return True
        self._room, self._given = room, given
        self._parts = {index: own for index, own in self._parts.items() if index not in steps} | parts
        return False

    def _sets_in(self, units: Collection[Unit]) -> Iterator[frozenset[Unit]]:
        """Yield the sets among these passages: results of several like calls of one turn."""
        sets: defaultdict[tuple[int, str], dict[Unit, str]] = defaultdict(dict)
        for index in sorted({index for index, _ in units} & self._spans.keys()):
            names = {call.id: call.name for call in self._spans[index].calls}
            for passage in self._seen.outlines.of(self._spans[index]).passages:
                if (index, passage.number) in units and passage.call in names:
                    sets[index, names[passage.call]][index, passage.number] = passage.call
        return (frozenset(calls) for calls in sets.values() if len({*calls.values()}) >= _SET)

    def take(self, shares: Mapping[Unit, float], threshold: float) -> None:
        """Take the units with enough votes: those with most votes first, then those worth most per token."""
        worth, nothing = self._seen.worth, Counter[int]()
        wanted = [unit for unit, share in shares.items() if share >= threshold and self._may_take(unit)]

        def rank(unit: Unit) -> tuple[float, float, int, int]:
            return -shares[unit], -worth.added_by([unit], nothing) / max(self._costs[unit], 1), -unit[0], unit[1]

        for unit in sorted(wanted, key=rank):
            bundle = self._missing(unit)
            if sum(self._costs[one] for one in bundle) <= self._room:
                for one in bundle:
                    self._add(one)

    def of_short(self, shares: Mapping[Unit, float]) -> dict[Unit, float]:
        """Return those of these units that belong to short steps."""
        short = {index for index, span in self._spans.items() if span.tokens <= _SHORT_STEP}
        return {unit: share for unit, share in shares.items() if unit[0] in short}

    def take_whole(self, spans: Mapping[int, str]) -> None:
        """Take these spans, the newest first: whole where there is room, else what is worth most of each."""
        for index in sorted(spans, reverse=True):
            units = [*self._units_of([index])]
            self.fill(units, least=0.0)
            self.take_in_turn(dict.fromkeys(units, spans[index]))
            if index in self._parts:
                self.notes.setdefault(index, spans[index])

    def take_in_turn(self, units: Mapping[Unit, str]) -> None:
        """Take these units in this order, as far as there is room, each with its step's record."""
        for unit, why in units.items():
            bundle = self._missing(unit)
            if bundle and unit in self._costs and sum(self._costs[one] for one in bundle) <= self._room:
                for one in bundle:
                    self._add(one, why)

    def fill(self, units: Collection[Unit] | None = None, least: float = _LEAST) -> None:
        """Fill the room with what the data flow expects the future to need: of these units, or of all.

        A plan that cites a long step whole seldom needs all of it, so its passages are taken by their value.
        """
        have = [(index, number) for index, parts in self._parts.items() for number in (0, *parts)]
        offered = {
            unit: self._costs[unit] for unit in (self._costs if units is None else units) if self._may_take(unit)
        }
        if self.target is None:
            return
        have += self._units_of(self._whole)
        best = take_best(self._seen.worth, offered, self._room, have=have, least=least)
        for unit in sorted(best, key=lambda unit: (unit[1] > 0, unit)):
            self._add(unit, _EXPECTED if units is None else None)

    def fill_again(self) -> None:
        """Fill the room that is still left: steps shown with many passages need fewer marks than was reckoned with."""
        self._measure()
        if self.target is not None and self._room > 0:
            self.fill()

    def _measure(self) -> None:
        """Set the room to what the chosen steps leave of it, marks included."""
        self._room = self._most - sum(map(self._size, self._parts)) - self._joint_tokens()

    def trim(self) -> None:
        """Give units up again, the last first, while marks between passages make the history too large."""
        companions = self._add_companions(required=False)
        if self.target is None:
            return
        # Companions are earlier steps: they come up after the steps that need them, and go if those went.
        self._given = {**dict.fromkeys((index, 0) for index in sorted(companions)), **self._given}
        sizes = {index: self._size(index) for index in self._parts}
        over = sum(sizes.values()) + self._joint_tokens() - self._most
        for index, number in list(reversed(self._given)):
            if over <= 0:
                break
            was_whole = self._is_whole(index)
            if number:
                self._parts[index].discard(number)
            elif self._parts[index] or companions_of(self._history, self._present() - {index}):
                continue  # its passages stay, or another step needs it
            else:
                del self._parts[index]
                self.notes.pop(index, None)
            size = self._size(index) if index in self._parts else 0
            over -= sizes[index] - size
            sizes[index] = size
            if was_whole or not number:  # it can tell of steps that are gone, or is one of them
                over = sum(sizes.values()) + self._joint_tokens() - self._most

    def tokens(self, kept: Collection[int], sizes: Mapping[int, int]) -> int:
        """Return the tokens of the history with these spans whole and others at these sizes."""
        whole = sum(span.tokens for index, span in self._spans.items() if index in kept)
        return self._fixed + whole + sum(sizes.values())

    def levels(self) -> tuple[frozenset[int], dict[int, Parts], dict[int, int]]:
        """Return the whole steps, the shortened ones with their passages, and the sizes of these."""
        sizes = {index: self._size(index) for index in self._parts}
        tokens = self._fixed + sum(sizes.values()) + self._joint_tokens()
        kept, shortened = set(self._whole), dict[int, Parts]()
        for index, parts in sorted(self._parts.items()):
            span = self._spans[index]
            more = self._seen.outlines.of(span).tokens - sizes[index]
            nearly = more <= (1 - _NEARLY_WHOLE) * span.tokens and tokens - self._fixed + more <= self._most
            whole = more == 0 or (nearly and not self._seen.outlines.left.get(index))
            if whole and index not in self._carriers:
                kept.add(index)
                tokens += more
                del sizes[index]
            else:
                shortened[index] = self._seen.outlines.of(span).record.union(parts)
        for index, line in joint_records(self._every, kept, shortened, self._seen.outlines).items():
            sizes[index] = self._seen.outlines.tokens(self._spans[index], shortened[index], line)
        return frozenset(kept), shortened, sizes

    def _joint_tokens(self) -> int:
        """Most tokens of the lines that tell of steps that are gone; only a shortened step can carry them."""
        whole = {index for index in self._parts if self._is_whole(index)}
        shortened = {index: frozenset[int]() for index in self._parts if index not in whole}
        return joint_tokens(self._every, self._whole | whole, shortened, self._seen.outlines)

    def _is_whole(self, index: int) -> bool:
        """True if nothing of a chosen step is left out, and no line has to be put behind it."""
        return self._is_complete(index) and index not in self._carriers

    def _is_complete(self, index: int) -> bool:
        """True if all passages and calls of a chosen step stay."""
        outline = self._seen.outlines.of(self._spans[index])
        return len(self._parts[index]) == len(outline.passages) and not outline.record

    def _add_companions(self, *, required: bool) -> Collection[int]:
        """Take the steps that must stay because of others; return their numbers."""
        companions = companions_of(self._history, self._present())
        for index, why in companions.items():
            self._add((index, 0), why, required=required)
        return companions

    def _units_of(self, spans: Collection[int]) -> Iterable[Unit]:
        for span in self._history.spans:
            if span.index in spans:
                yield span.index, 0
                yield from ((span.index, passage.number) for passage in self._seen.outlines.of(span).passages)

    def _present(self) -> set[int]:
        return {*self._whole, *self._parts}

    def _size(self, index: int) -> int:
        span, parts = self._spans[index], self._parts[index]
        outline = self._seen.outlines.of(span)
        if self._is_complete(index):
            return outline.tokens
        return self._seen.outlines.tokens(span, outline.record.union(parts)) if parts else outline.record_tokens

    def _missing(self, unit: Unit) -> list[Unit]:
        """Return the unit and its step's record, unless they are chosen already."""
        return [one for one in dict.fromkeys([(unit[0], 0), unit]) if not self._has(one)]

    def _may_take(self, unit: Unit) -> bool:
        return unit in self._costs and unit not in self._barred

    def _has(self, unit: Unit) -> bool:
        return unit[0] in self._parts and (not unit[1] or unit[1] in self._parts[unit[0]])

    def _add(self, unit: Unit, why: str | None = None, *, required: bool = False) -> None:
        if unit not in self._costs:
            return
        if not self._has(unit):
            self._room -= self._costs[unit]
            self._parts.setdefault(unit[0], set()).update(unit[1:] if unit[1] else ())
            if not required:
                self._given[unit] = None
        elif required:
            self._given.pop(unit, None)
        if why is not None:
            self.notes.setdefault(unit[0], why)
