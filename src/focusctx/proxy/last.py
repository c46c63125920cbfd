"""The last request of a conversation. The next one is known by it, and needs no look where it adds little.

Where nothing can be due, what went up then goes up again, with what is new behind it. For most such requests nobody
decodes or counts anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..pipeline.split import check_list, tokens_of
from ..session.conversation import Call, Conversation, View
from ..session.economics import BYTES_PER_TOKEN, Growth
from ..session.session import Session
from ..wire import Kind, wire_named
from ..wire.marks import unmarked
from .body import Known, Reading, read
from .limits import LARGE, weight

MUCH = 128 * 1024
"""Bytes that take so long to count that other requests would notice."""
_USUAL_BYTES_PER_TOKEN = 4
_MARK = b"cache_control"

_WITHOUT_MEDIA = {
    "chat_completions": ("text", "refusal", "function", "custom"),
    "anthropic": ("text", "thinking", "redacted_thinking", "tool_use", "tool_result", "ephemeral"),
    "responses": (
        *("message", "input_text", "output_text", "reasoning", "summary_text", "reasoning_text"),
        *("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
    ),
}
_MEDIA = {
    name: re.compile(rb'"audio"|"type"\s*:\s*"(?!(?:%b)")' % "|".join(types).encode())
    for name, types in _WITHOUT_MEDIA.items()
}
"""What may count for more tokens than it has bytes: see `MEDIA_TOKENS`."""


def most_tokens(messages: Sequence[bytes], format: str) -> int | None:
    """How many tokens messages of that spelling can have: no token is shorter than a byte. None where nobody knows."""
    most = 0
    for spelled in messages:
        if _MEDIA[format].search(spelled):
            return None
        # What is counted of a tool's arguments has a blank behind each of these.
        most += len(spelled) + spelled.count(b",") + spelled.count(b":")
    return most


class Last:
    """The messages of the last request, and what went up in their place."""

    def __init__(self, session: Session, format: str) -> None:
        self._session = session
        self._format = format
        self.conversation: Conversation | None = None
        """The session's object, once it has looked."""
        self._known = Known()
        self._spelled: list[bytes] = []
        self._can_go_on = True
        """False while it is looked at: what it will be followed by is not known yet."""
        self._seen = 0, 0
        """Tokens when the session looked: of all messages, and of what went up."""
        self._more = Growth()
        """What came since then."""
        self._uncounted: list[bytes] = []
        """Of that, what nobody counted."""
        self.size = 0
        """Memory that its messages take."""
        self.view: list[bytes] | None = None
        """What went up; None for all of them."""
        self.was_looked_at = False
        """Whether the session has seen any of this conversation."""
        self.unseen: Call | None = None
        """The last request, where the session has seen none."""

    @property
    def tokens(self) -> tuple[int, int]:
        """Of its messages, and of what went up; what nobody counted is estimated."""
        full, sent = self._seen
        more = self._more.tokens + _usual_tokens(self._uncounted)
        return full + more, sent + more

    @property
    def length(self) -> int:
        """The number of its messages."""
        return len(self._spelled)

    def is_continued_by(self, spelled: Sequence[bytes]) -> bool:
        """True if a request begins with all messages of this one."""
        known = self._spelled
        if len(spelled) < len(known) or (known and spelled[len(known) - 1] != known[-1]):
            return False  # most that are not the same differ at the end
        return spelled[: len(known)] == known

    def is_resumed_by(self, spelled: Sequence[bytes]) -> bool:
        """True if a request holds all steps of this one: cache marks may have moved, later words may be gone."""
        known = self._spelled
        pairs = enumerate(zip(known, spelled, strict=False))
        place = next((place for place, (old, new) in pairs if not _is_same(old, new)), min(len(known), len(spelled)))
        if place == len(known):
            return True
        return all(self._kinds(place) == {Kind.WORDS} for place in range(place, len(known))) and self._ends_a_step(
            place
        )

    def _ends_a_step(self, place: int) -> bool:
        """True if a step has its result before that place: words right behind the model's turn may be one."""
        words = 0
        while place:
            place -= 1
            kinds = self._kinds(place)
            if Kind.RESULT in kinds:
                return True
            if Kind.TURN in kinds:
                return words > 0
            words += 1
        return False

    def _kinds(self, place: int) -> set[Kind]:
        message = read(self._spelled[place])
        return (
            {part.kind for part in wire_named(self._format).read(message, place)}
            if isinstance(message, dict)
            else set()
        )

    def goes_on(self, spelled: list[bytes]) -> bool:
        """Whether a request only adds to this one, and so little that nothing can be due. Then it is the last one."""
        if not (self._can_go_on and self.is_continued_by(spelled)):
            if self.was_looked_at:
                return False
            self._start_over()  # nobody has looked, and words behind its last step are gone
        new = spelled[len(self._spelled) :]
        grown = self._grown(spelled, new)
        if grown is None or (self.was_looked_at and not self._was_appended(len(spelled))):
            return False
        if not self.was_looked_at:
            self.unseen = Call(len(spelled), self._session._clock())
        self._spelled = spelled
        self._more, self._uncounted = grown
        self.size += weight(new)
        if self.view is not None:
            self.view = self.view + new
        return True

    def begin(self, spelled: list[bytes]) -> Reading:
        """Read a request that goes through the session. None goes on from the last one until it is through."""
        self.was_looked_at, self._can_go_on = True, False
        reading = self._known.read(spelled)
        self.size = reading.size
        return reading

    def end(self, reading: Reading, view: View) -> None:
        """The session has looked."""
        self._start_over()
        self._spelled, self.view = reading.spelled, reading.spell(view)
        self.size = reading.size
        self.conversation = view.conversation
        self._seen = view.conversation.size

    def _is_quiet(self, more: Growth) -> bool:
        return self._session._is_quiet(more, self.conversation)

    def _was_appended(self, messages: int) -> bool:
        return self.conversation is not None and self._session._record_append(self.conversation, messages)

    def _start_over(self) -> None:
        self._spelled, self._more, self._uncounted, self.size, self.unseen = [], Growth(), [], 0, None
        self._can_go_on = True

    def _grown(self, spelled: list[bytes], new: list[bytes]) -> tuple[Growth, list[bytes]] | None:
        """What came since somebody looked, and what of it nobody counted; None where something may be due.

        The new messages are counted, with those before them that were not, only where their bytes say too little.
        """
        if weight(new) > LARGE:
            return None  # merely to look for media in it would take long: the session does that on a thread
        most, uncounted = most_tokens(new, self._format), self._uncounted + new
        if most is not None:
            more = Growth(self._more.tokens, self._more.most + most, step=most // BYTES_PER_TOKEN)
            if self._is_quiet(more):
                return more, uncounted
        if sum(map(len, uncounted)) > MUCH or not self._is_quiet(self._more):
            return None
        if not self._is_quiet(Growth(self._more.tokens + _usual_tokens(uncounted), step=_usual_tokens(new))):
            return None  # so the session will most likely have to look, and it counts
        messages = self._known.read(spelled).messages[len(spelled) - len(uncounted) :]
        check_list(messages)
        wire, count = wire_named(self._format), self._session.focus.count
        sizes = [tokens_of(message, wire, count) for message in messages]
        more = Growth(self._more.tokens + sum(sizes), step=sum(sizes[len(self._uncounted) :]))
        return (more, []) if self._is_quiet(more) else None


def _is_same(old: bytes, new: bytes) -> bool:
    """True for equal messages, cache marks aside."""
    if old == new:
        return True
    if _MARK not in old and _MARK not in new:
        return False
    before, after = read(old), read(new)
    return isinstance(before, dict) and isinstance(after, dict) and unmarked(before) == unmarked(after)


def _usual_tokens(messages: Sequence[bytes]) -> int:
    return sum(map(len, messages)) // _USUAL_BYTES_PER_TOKEN
