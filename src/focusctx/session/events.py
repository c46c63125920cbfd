"""The log of a session: every change of a view, and every reason why a view over budget was left unchanged."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass, replace

from ..types import Result
from .conversation import Conversation
from .economics import Cause, Judgement, Verdict
from .recall import ranges

_log = logging.getLogger("focusctx")
_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A changed view, or the reason why a view over budget did not change."""

    happened: bool
    """True if the view changed; only then has its prefix moved."""
    cause: Cause
    """The kind of change or reason, in one word or two."""
    why: str
    """The reason in words."""
    conversation: str
    """The conversation's key, as in the log and on the dashboard."""
    span: int
    """The newest span's number at that time."""
    tokens_before: int
    """Size of the view before."""
    tokens_after: int
    """Size of the view after; the same if nothing happened."""
    verdict: Verdict | None = None
    """Estimated gain and cost; None if the price of the agent's model is unknown."""
    result: Result | None = None
    """The evidence, if sketches were read."""
    steps: int = 1
    """Number of steps in a row with this reason."""

    def repeats(self, last: SessionEvent) -> bool:
        """True if again nothing happened for the same reason, and no sketches were read."""
        same = (self.happened, self.cause, self.conversation) == (last.happened, last.cause, last.conversation)
        return same and not self.happened and self.result is None and last.result is None


class Log:
    """The latest events of all conversations of a session, newest last; each conversation also keeps its own."""

    def __init__(self) -> None:
        self.events: deque[SessionEvent] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()

    def add(
        self,
        conversation: Conversation,
        judgement: Judgement,
        result: Result | None = None,
        *,
        moved_from: int | None = None,
    ) -> None:
        """Record a judgement and log it; `moved_from` is the previous size if the view changed.

        A repeated reason replaces its last entry, so that it does not flood the list or the log.
        """
        event = SessionEvent(
            happened=moved_from is not None,
            cause=judgement.cause,
            why=judgement.why,
            conversation=conversation.key,
            span=conversation.reader.newest,
            tokens_before=conversation.tokens if moved_from is None else moved_from,
            tokens_after=conversation.tokens,
            verdict=judgement.verdict,
            result=result,
        )
        own = conversation.events
        with self._lock:
            last = own[-1] if own else None
            if last is not None and event.repeats(last):
                own[-1] = event = replace(event, steps=last.steps + 1)
                self._replace(last, event)
                return
            own.append(event)
            self.events.append(event)
        why = event.why
        if result is not None and result.regrets:
            why += f"; {ranges(result.regrets)} looked up again what had been cut, so it stays whole"
        what = f"{event.tokens_before:,} → {event.tokens_after:,} tokens" if event.happened else "left unchanged"
        _log.info("conversation %s, step %d: %s (%s: %s)", event.conversation, event.span, what, event.cause, why)

    def forget(self, conversation: Conversation) -> None:
        """Keep only the numbers of a released conversation: the evidence holds its whole history."""
        gone = {id(event) for event in conversation.events}
        with self._lock:
            for place, event in enumerate(self.events):
                if id(event) in gone and event.result is not None:
                    self.events[place] = replace(event, result=None)

    def _replace(self, old: SessionEvent, new: SessionEvent) -> None:
        for place in range(len(self.events) - 1, -1, -1):
            if self.events[place] is old:
                self.events[place] = new
                return
