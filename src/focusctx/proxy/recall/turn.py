"""The interface that each wire format implements for one turn of the agent.

In a turn the agent sees:

- Text at once, as it arrives. If the model recalls nothing, exactly the bytes that the provider sent.
- Tool calls when the round is over, since only then is it known whether one of them is a recall. Signed thinking
  (Anthropic) and reasoning items (Responses) once it is known what they led to: they are shown or hidden with it.
- In a round with a recall, nothing from the first tool call on. The next round is requested with the parts that were
  shown and the recalls. The model then makes its other calls again, knowing what it recalled.
- One message: a later round has no beginning of its own, and its parts are numbered from the last one shown.
- The usage of all rounds, added up: all of them are billed. Anthropic's `message_start` reports that of its own round;
  the `message_delta` at the end has the sums, and clients use those.

A stream has the id under which the agent was shown its first part. A round that only thinks and recalls is not shown
at all, so mostly that is the last round's own id. (A Responses client refuses a stream that changes its id.) An
answer that is not streamed has the last round's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...types import Message


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a round."""

    rest: bytes = b""
    """Bytes that the agent still gets; for an answer that is not streamed, the whole body."""
    queries: tuple[str, ...] = ()
    """Queries of the model's recalls; empty when the turn is over."""


class Turn(Protocol):
    """One answer to the agent, made of one or more rounds. It never raises, whatever a provider sends."""

    alias: tuple[str, str] | None
    """For Responses: the id that the agent was shown and the provider's id of the last round, if they differ. A
    `previous_response_id` with the first must be changed to the second, or the provider misses the recalls' outputs."""

    def feed(self, chunk: bytes) -> bytes:
        """Take a piece of a stream, and return what the agent gets now."""

    def end(self, *, last: bool = False) -> Ending:
        """End the stream of a round. In the `last` round recalls are left out instead of answered."""

    def whole(self, body: bytes, *, last: bool = False) -> Ending:
        """Take a round that is not streamed."""

    def answer(self, results: Sequence[str]) -> list[Message]:
        """Begin the next round with the recalled texts. Returns all messages to send after the agent's own."""

    def fail(self, body: bytes) -> bytes:
        """Return an error event, as the provider writes it, to end a stream; `body` is its refusal, if there is one."""

    def keep_alive(self) -> bytes:
        """Return bytes that every client ignores, to send when nothing was shown for a while."""
