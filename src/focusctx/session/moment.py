"""A snapshot of a conversation, for which sketches are sampled and decided while the conversation goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..config import FocusConfig
from ..pipeline.budget import pinned_spans
from ..pipeline.companions import companions_of
from ..pipeline.rebuild import rebuild
from ..pipeline.skeleton import skeleton_of
from ..pipeline.split import Count, tokens_of
from ..types import History, Message
from ..wire import wire_named
from .cut import Cut
from .recall import note
from .store import Spelled


class Place(NamedTuple):
    """Position of a conversation: its length, its newest chain key and its cut."""

    messages: int
    head: str
    cut: Cut


class Change(NamedTuple):
    """A new view of the same history."""

    cut: Cut
    view: list[Message]
    tokens: int
    unmoved: int
    """Tokens at its beginning that stay where they were."""
    moves: bool
    """True if the view differs at all: the skeleton of a very short step is the step itself."""


@dataclass(frozen=True, slots=True)
class Moment:
    history: History
    """The full history."""
    sizes: Sequence[int]
    """Tokens of each message."""
    keys: Sequence[str]
    """Chain keys of its spans."""
    place: Place
    decided: Cut
    """Everything the store's events drop; the cut at `place` is the part that could be dropped here."""
    restored: Mapping[int, str]
    """Spans that stay because they were restored, with the reason."""
    view: Sequence[Message]
    tokens: int
    """Tokens of the view."""
    config: FocusConfig
    count: Count
    noted: bool
    """True if a view gets a note on what was left out."""

    def remaining(self) -> History:
        """Return the history of the remaining spans, as they are now; an event decides about these."""
        cut = self.place.cut
        spans = tuple(
            skeleton_of(span, self.history.format, self.count) if span.index in cut.skeletons else span
            for span in self.history.spans
            if span.index not in cut.dropped or span.index in cut.skeletons
        )
        # Without messages: the view is always rebuilt from the full history.
        return replace(self.history, spans=spans, messages=(), owners=(), tokens=self.tokens)

    def change_to(self, decided: Cut) -> Change:
        """Return the view without these spans, as far as they may be dropped."""
        cut = _possible(self.history, decided, self.config)
        view = view_of(self.history, cut, noted=self.noted)
        same = _common(self.view, view)
        moves = same < max(len(view), len(self.view))
        sizes = self._sizes(view)
        return Change(cut, view, sum(sizes), sum(sizes[:same]), moves)

    def _sizes(self, view: Sequence[Message]) -> list[int]:
        """Return the tokens of each message of a view, counting only messages made for the view."""
        known = dict(zip(map(id, self.history.messages), self.sizes, strict=True))
        wire = wire_named(self.history.format)
        sizes = ((message, known.get(id(message))) for message in view)
        return [tokens_of(message, wire, self.count) if size is None else size for message, size in sizes]


def view_of(history: History, cut: Cut, *, noted: bool) -> list[Message]:
    """Return the messages that remain after a cut."""
    kept = [span.index for span in history.spans if span.index not in cut.dropped]
    view = rebuild(history, kept, cut.skeletons)
    if noted and cut.dropped:
        place = next(place for place, owner in enumerate(history.owners) if owner)
        while history.format == "anthropic" and place and view[place - 1].get("role") == "system":
            place -= 1  # what the model answers must stay before its answer
        view.insert(place, note(cut.dropped))
    if view and isinstance(history.messages[0], Spelled):  # then all parsed messages are Spelled
        view = [message if isinstance(message, Spelled) else Spelled.made(message) for message in view]
    return view


def _possible(history: History, decided: Cut, config: FocusConfig) -> Cut:
    """Return the part of the cut that is possible here. The chain may have continued differently since: in a fork a
    dropped span may be the newest, or hold the reasoning that the newest continues."""
    kept = {span.index for span in history.spans if span.index not in decided.dropped}
    kept |= pinned_spans(history, config.pin).keys()
    kept |= companions_of(history, kept | decided.skeletons, config).keys()
    return decided.without(kept)


def _common(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Return how many messages the two lists share at the beginning."""
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and old != new:
            return place
    return min(len(before), len(after))
