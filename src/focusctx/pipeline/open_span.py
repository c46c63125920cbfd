"""The newest span, while it still grows: which parts belong to it, and whether it may be dropped."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import count

from ..types import Call, Message, Span
from ..wire import Part
from ..wire.part import join, only_blocks


class OpenSpan:
    """A span that is not closed yet."""

    def __init__(self, index: int, leader: int | None, start: int) -> None:
        self.index = index
        self.start = start
        self.leader = leader
        self.messages: list[Message] = []
        self.actions: list[str] = []
        self.calls: set[str] = set()
        self.just_spoke = False
        self.incomplete = False
        """True if parts of the step may be elsewhere; it must not be dropped then."""
        self.unseen_calls = 0
        """Calls given by reference that no output has answered yet."""
        self._refers = False
        self._held: set[str] = set()
        self._thoughts: list[str] = []
        self._observations: list[str] = []
        self._made: list[Call] = []
        self._tokens = 0
        self._reasons = False
        self._leads = False
        self._spoken_to = False

    @property
    def goes_on(self) -> bool:
        """True if the model's next output still belongs to this step."""
        return self.just_spoke or (bool(self._held) and not self._spoken_to)

    def awaits(self, part: Part, owed: Set[str]) -> bool:
        """True if a result belongs here: to a call of this step, or to one given by reference.

        `owed` are the calls of earlier steps that wait for results.
        """
        unknown = set(part.answers) - self.calls
        return not unknown or (len(unknown) <= self.unseen_calls and unknown.isdisjoint(owed))

    def turn(self, part: Part, message: Message, tokens: int) -> None:
        self.just_spoke = True
        keys = self._keys(part.calls)
        self.calls.update(keys)
        self._made += map(Call, keys, part.made)
        self._held.update(part.holds)
        self._held.difference_update(part.answers)
        self._reasons = self._reasons or part.reasons
        self._leads = part.leads
        self._refers = self._refers or part.stored
        self.unseen_calls += part.unseen_calls
        if part.program is not None and part.program not in self._held:
            self.incomplete = True  # the program may be given by reference, and needs all its calls
        if part.reasons and not self.messages:
            self.leader = None
        _add(self._thoughts, part.thought)
        _add(self.actions, part.action)
        self._hold(message, part, tokens)

    def result(self, part: Part, message: Message, tokens: int, *, doubtful: bool = False) -> None:
        """Add a result. If it is `doubtful` that this step made the hidden call it answers, the step must stay."""
        unseen = len(set(part.answers) - self.calls)
        self.just_spoke = part.goes_on
        self._leads = False
        self.unseen_calls -= unseen
        self.incomplete = self.incomplete or (doubtful and unseen > 0)
        self.calls.difference_update(part.answers)
        _add(self._observations, part.text)
        self._hold(message, part, tokens)

    def interrupt(self, by_user: bool) -> None:
        """Note that something outside the step came after it."""
        self.just_spoke = False
        self.incomplete = self.incomplete or self._leads
        self._spoken_to = self._spoken_to or by_user

    def orphan(self) -> None:
        """Note a result that belongs to no known call: it may belong to a reference."""
        self.incomplete = self.incomplete or self._leads or self._refers

    def leader_of_next(self) -> int | None:
        """Return the span whose hidden reasoning the next step continues, unless it has its own."""
        if self._spoken_to:
            return None
        # The first one, if there are two: providers want to see how a turn began.
        return self.index if self._reasons and self.leader is None else self.leader

    def close(self) -> Span:
        return Span(
            index=self.index,
            thought=join(self._thoughts),
            action=join(self.actions),
            observation=join(self._observations),
            messages=tuple(self.messages),
            tokens=self._tokens,
            waiting=bool(self.calls or self._held or self.unseen_calls) or self.incomplete,
            needs=self.leader,
            calls=tuple(self._made),
            reasons=self._reasons,
        )

    def _keys(self, calls: Sequence[str]) -> list[str]:
        """Return the calls' keys; Gemini's are names, and get numbers if earlier messages of the turn have the same."""
        taken = {made.id for made in self._made}
        found: list[str] = []
        for call in calls:
            numbered = (f"{call.partition('#')[0]}#{number}" for number in count(2))
            found.append(call if call not in taken else next(key for key in numbered if key not in taken))
            taken.add(found[-1])
        return found

    def _hold(self, message: Message, part: Part, tokens: int) -> None:
        if part.blocks is not None:
            message = only_blocks(message, part.blocks)
        self.messages.append(message)
        self._tokens += tokens


def _add(pieces: list[str], piece: str) -> None:
    if piece:
        pieces.append(piece)
