"""A snapshot of a conversation, for which sketches are sampled and decided while the conversation goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..config import FocusConfig
from ..pipeline.budget import pinned_spans
from ..pipeline.companions import companions_of
from ..pipeline.deeds import repeated_lookups
from ..pipeline.outline import Outlines, Parts, joint_records
from ..pipeline.rebuild import rebuild
from ..pipeline.split import Count, tokens_of
from ..types import History, Message
from ..wire import wire_named
from .recall import note, pinned_recalls
from .store import Spelled


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The spans that a view does not show whole. Their originals are in the store."""

    spans: frozenset[int] = frozenset()
    """Every one of these spans, those that are shown in part included."""
    shown: Mapping[int, Parts] = field(default_factory=dict)
    """The passages that are shown of some; none for a record."""

    def __hash__(self) -> int:
        return hash((self.spans, frozenset(self.shown.items())))

    @property
    def gone(self) -> frozenset[int]:
        """The spans of which nothing is shown."""
        return self.spans - self.shown.keys()

    def then(self, later: LeftOut) -> LeftOut:
        """Leave more out. What an earlier event left of a span may shrink further, or go."""
        shown = {index: parts for index, parts in self.shown.items() if index not in later.spans}
        return LeftOut(self.spans | later.spans, {**shown, **later.shown})

    def without(self, spans: Collection[int]) -> LeftOut:
        """Bring these spans back."""
        shown = {index: parts for index, parts in self.shown.items() if index not in spans}
        return LeftOut(self.spans.difference(spans), shown)

    def since(self, earlier: LeftOut) -> LeftOut:
        """The changes that lead from `earlier` to this: `earlier.then(…)` of them gives this."""
        before = {index: earlier.shown.get(index) for index in earlier.spans}
        news = frozenset(i for i in self.spans if i not in before or self.shown.get(i) != before[i])
        return LeftOut(news, {index: self.shown[index] for index in news if index in self.shown})


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a conversation: its length, its newest chain key and what its view leaves out."""

    messages: int
    head: str
    left_out: LeftOut


@dataclass(frozen=True, slots=True)
class Change:
    """A new view of the same history."""

    left_out: LeftOut
    view: list[Message]
    tokens: int
    unmoved: int
    """Tokens at its beginning that stay where they were."""
    moves: bool
    """True if the view differs at all: the record of a very short step is the step itself."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    history: History
    """The full history."""
    sizes: Sequence[int]
    """Tokens of each message."""
    keys: Sequence[str]
    """Chain keys of its spans."""
    place: Place
    decided: LeftOut
    """Everything that stored events leave out; `place.left_out` is the part that could be left out here."""
    restored: Mapping[int, str]
    """Spans that stay because they were restored, with the reason."""
    cut_at: Mapping[int, int]
    """For each span that was left out, the newest span at that time."""
    view: Sequence[Message]
    tokens: int
    """Tokens of the view."""
    config: FocusConfig
    count: Count
    noted: bool
    """True if a view gets a note on what was left out."""

    def remaining(self) -> History:
        """Return the history of the remaining spans, as they are now; an event decides about these."""
        left_out, outlines = self.place.left_out, self.history.outlines
        if outlines is None:
            spans = [span for span in self.history.spans if span.index not in left_out.spans]
        else:
            outlines = outlines.after(left_out.shown)
            sizes = shortened_sizes(self.history, outlines, left_out)
            spans = [
                replace(span, tokens=sizes.get(span.index, span.tokens))
                for span in self.history.spans
                if span.index not in left_out.gone
            ]
        gone = tuple(span for span in self.history.spans if span.index in left_out.gone)
        # Without messages: the view is always rebuilt from the full history.
        return replace(
            self.history,
            spans=tuple(spans),
            messages=(),
            owners=(),
            tokens=self.tokens,
            outlines=outlines,
            gone=gone,
        )

    def regrets(self) -> dict[int, str]:
        """Return the spans that looked something up again whose result had been cut; the paper's rule knows none."""
        if not self.config.levels and self.config.target is None:
            return {}
        return repeated_lookups(self.history.spans, self.cut_at, self.config.reads)

    def pinned(self, history: History) -> dict[int, str]:
        """Return the spans of the remaining history that stay whole, with the reasons."""
        return {
            **pinned_spans(history, self.config.pin),
            **pinned_recalls(history),
            **self.regrets(),
            **self.restored,
        }

    def change_to(self, decided: LeftOut) -> Change:
        """Return the view that leaves this out, as far as it may be left out."""
        left_out = _possible(self.history, decided, self.config)
        view = view_of(self.history, left_out, noted=self.noted)
        same = _common(self.view, view)
        sizes = self._sizes(view)
        return Change(left_out, view, sum(sizes), sum(sizes[:same]), same < max(len(view), len(self.view)))

    def _sizes(self, view: Sequence[Message]) -> list[int]:
        """Return the tokens of each message of a view, counting only messages made for the view."""
        known = dict(zip(map(id, self.history.messages), self.sizes, strict=True))
        wire = wire_named(self.history.format)
        sizes = ((message, known.get(id(message))) for message in view)
        return [tokens_of(message, wire, self.count) if size is None else size for message, size in sizes]


def shortened_sizes(history: History, outlines: Outlines, left_out: LeftOut) -> dict[int, int]:
    """Return the tokens of the shortened spans, with the lines behind them that tell of spans that are gone."""
    whole = {span.index for span in history.spans if span.index not in left_out.spans}
    lines = joint_records(history.spans, whole, left_out.shown, history.format)
    return {
        span.index: outlines.tokens(span, parts, lines.get(span.index, ""))
        for span in history.spans
        if (parts := left_out.shown.get(span.index)) is not None
    }


def view_of(history: History, left_out: LeftOut, *, noted: bool) -> list[Message]:
    """Return the messages that remain."""
    kept = [span.index for span in history.spans if span.index not in left_out.spans]
    view = rebuild(history, kept, left_out.shown)
    if noted and left_out.spans:
        place = next(place for place, owner in enumerate(history.owners) if owner)
        while history.format == "anthropic" and place and view[place - 1].get("role") == "system":
            place -= 1  # what the model answers must stay before its answer
        view.insert(place, note(left_out.gone, left_out.shown, history.format))
    if view and isinstance(history.messages[0], Spelled):  # then all parsed messages are Spelled
        view = [message if isinstance(message, Spelled) else Spelled.made(message) for message in view]
    return view


def _possible(history: History, decided: LeftOut, config: FocusConfig) -> LeftOut:
    """Return what can be left out here. The chain may have continued differently since: in a fork a span that was left
    out may be the newest, or hold the reasoning that the newest continues."""
    whole = {span.index for span in history.spans if span.index not in decided.spans}
    whole |= pinned_spans(history, config.pin).keys()
    needed = companions_of(history, whole | decided.shown.keys()).keys() - whole
    if history.outlines is None:
        return decided.without(whole | needed)
    records = LeftOut(frozenset(needed), dict.fromkeys(needed, frozenset()))
    return decided.then(records).without(whole)


def _common(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Return how many messages the two lists share at the beginning."""
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and old != new:
            return place
    return min(len(before), len(after))
