"""A conversation at one moment: what sketches are drawn for and decided about, while the conversation goes on."""

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
    """Where a conversation stands."""

    messages: int
    head: str
    cut: Cut


class Change(NamedTuple):
    """Another view of the same history."""

    cut: Cut
    view: list[Message]
    tokens: int
    unmoved: int
    """Tokens at its beginning that stand where they stood."""
    moves: bool
    """Whether it is another view at all: a skeleton of a very short step is that step."""


@dataclass(frozen=True, slots=True)
class Moment:
    history: History
    """All of it."""
    sizes: Sequence[int]
    """The tokens of its messages."""
    keys: Sequence[str]
    """The chain keys of its spans."""
    place: Place
    decided: Cut
    """What is dropped, as far as the store was heard; the cut at this place is as much of it as was possible."""
    restored: Mapping[int, str]
    """The spans that stay because somebody wanted them back."""
    view: Sequence[Message]
    tokens: int
    """Of the view."""
    config: FocusConfig
    count: Count
    noted: bool
    """Whether a view says what was left out."""

    def remaining(self) -> History:
        """The history of the spans that are still there, as they are: what an event decides about."""
        cut = self.place.cut
        spans = tuple(
            skeleton_of(span, self.history.format, self.count) if span.index in cut.skeletons else span
            for span in self.history.spans
            if span.index not in cut.dropped or span.index in cut.skeletons
        )
        # The messages stay out: the view is always rebuilt from the full history.
        return replace(self.history, spans=spans, messages=(), owners=(), tokens=self.tokens)

    def change_to(self, decided: Cut) -> Change:
        """The view without these spans, as far as they may go."""
        cut = _possible(self.history, decided, self.config)
        view = view_of(self.history, cut, noted=self.noted)
        same = _common(self.view, view)
        moves = same < max(len(view), len(self.view))
        sizes = self._sizes(view)
        return Change(cut, view, sum(sizes), sum(sizes[:same]), moves)

    def _sizes(self, view: Sequence[Message]) -> list[int]:
        """The tokens of each message of a view; only what was made for it is counted afresh."""
        known = dict(zip(map(id, self.history.messages), self.sizes, strict=True))
        wire = wire_named(self.history.format)
        sizes = ((message, known.get(id(message))) for message in view)
        return [tokens_of(message, wire, self.count) if size is None else size for message, size in sizes]


def view_of(history: History, cut: Cut, *, noted: bool) -> list[Message]:
    """The messages that are left after a cut."""
    kept = [span.index for span in history.spans if span.index not in cut.dropped]
    view = rebuild(history, kept, cut.skeletons)
    if noted and cut.dropped:
        place = next(place for place, owner in enumerate(history.owners) if owner)
        while history.format == "anthropic" and place and view[place - 1].get("role") == "system":
            place -= 1  # what the model answers to must stay before its answer
        view.insert(place, note(cut.dropped))
    if view and isinstance(history.messages[0], Spelled):  # then all that came are
        view = [message if isinstance(message, Spelled) else Spelled.made(message) for message in view]
    return view


def _possible(history: History, decided: Cut, config: FocusConfig) -> Cut:
    """As much of it as may go here. The chain it was decided on may have gone on in another way: in a fork one of
    the spans may be the newest, or hold the reasoning that the newest goes on from."""
    kept = {span.index for span in history.spans if span.index not in decided.dropped}
    kept |= pinned_spans(history, config.pin).keys()
    kept |= companions_of(history, kept | decided.skeletons, config).keys()
    return decided.without(kept)


def _common(before: Sequence[Message], after: Sequence[Message]) -> int:
    """How many messages the two lists share at the beginning."""
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and old != new:
            return place
    return min(len(before), len(after))
