"""FOCUS, as the paper has it: over budget is reason enough, nothing is asked ahead of time, dropped turns are gone."""

from __future__ import annotations

from collections.abc import Sequence

from ..compressor import Focus
from ..config import FocusConfig
from ..session.session import Session
from ..types import Message, Usage
from .method import Compressed
from .patience import Writer

_FAILURES = frozenset({"draft", "illegal", "store"})


class FocusMethod:
    """`focus-d`, or `focus-o` where `defensive` is False."""

    def __init__(
        self,
        draft: Writer,
        budget: int = 4096,
        *,
        rollouts: int = 3,
        threshold: float = 0.3,
        defensive: bool = True,
        deadline: float = 30.0,
    ) -> None:
        self.name = "focus-d" if defensive else "focus-o"
        config = FocusConfig.paper(
            budget=budget, rollouts=rollouts, threshold=threshold, defensive=defensive, deadline=deadline
        )
        # Its own Focus, not one for all runs: a draft that fails in one run is left alone for a while in that run only.
        self._session = Focus(draft, config=config).session(ahead=1.0, growth=0.0)

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        return await compressed_by(self._session, messages, "chat_completions")


async def compressed_by(session: Session, messages: Sequence[Message], format: str) -> Compressed:
    """Return what a session sends at one step."""
    session.events.clear()
    view = await session.aview(messages, format=format)
    events = list(session.events)
    happened = any(event.happened for event in events)
    failed = [] if happened else [event for event in events if event.cause in _FAILURES]
    rollouts = session.focus.config.rollouts
    return Compressed(
        view,
        happened=happened,
        usage=sum((event.result.usage for event in events if event.result), Usage()),
        failure=failed[0].why if failed else None,
        # Sketches that came and are no plans are the draft's fault, and so the method's.
        unanswered=any(event.result and len(event.result.sketches) < rollouts for event in failed),
    )
