"""What a session tells about itself: every change of a view, and why there was none although it was over budget."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from ..types import Result
from .conversation import Conversation
from .due import Cause, Judgement
from .gate import Verdict


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A moved prefix, or why there was none although the view was over budget."""

    happened: bool
    """Whether the view changed: then and only then has its prefix moved."""
    cause: Cause
    why: str
    conversation: str
    """The chain key of its first span."""
    span: int
    """The newest span's number when it was considered."""
    tokens_before: int
    tokens_after: int
    verdict: Verdict | None = None
    """What it would have gained and cost; None where the price of the agent's model is unknown."""
    result: Result | None = None
    """The evidence, where sketches were read."""
    steps: int = 1
    """For how many steps in a row this has been the reason."""

    def repeats(self, last: SessionEvent) -> bool:
        """Whether nothing happened for the same reason as before, and nobody paid for sketches to find out."""
        same = (self.happened, self.cause, self.conversation) == (last.happened, last.cause, last.conversation)
        return same and not self.happened and self.result is None and last.result is None


def remember(
    events: deque[SessionEvent],
    conversation: Conversation,
    judgement: Judgement,
    result: Result | None = None,
    *,
    moved_from: int | None = None,
) -> None:
    """Add what was judged; `moved_from` is the size before, where the view changed.

    A reason that goes on takes the place of the last entry, so that none floods the list.
    """
    event = SessionEvent(
        happened=moved_from is not None,
        cause=judgement.cause,
        why=judgement.why,
        conversation=conversation.root,
        span=conversation.reader.newest,
        tokens_before=conversation.tokens if moved_from is None else moved_from,
        tokens_after=conversation.tokens,
        verdict=judgement.verdict,
        result=result,
    )
    if events and event.repeats(events[-1]):
        events[-1] = replace(event, steps=events[-1].steps + 1)
    else:
        events.append(event)
