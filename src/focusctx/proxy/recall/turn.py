"""The seam: what each wire format does with one turn of the agent.

What the agent sees of a turn:

- Text at once, as it comes. Where the model does not recall anything, byte for byte what the provider sent.
- Tool calls when the round is over, since only then it is known whether a recall is among them. Signed thinking
  (Anthropic) and reasoning items (Responses) when it is known what they led to: they stay with it, shown or hidden.
- In a round with a recall, nothing from the first tool call on. The next round is asked with what was shown and the
  recalls. The model then makes its other calls again, knowing what it recalled.
- One message: a later round has no beginning of its own, and its parts are numbered on from the last one shown.
- The usage of all rounds, added up: all of them are billed. Anthropic's `message_start` tells that of its own round;
  the `message_delta` at the end has the sums, and clients take those.

A stream has the id under which the agent was shown its first part. Nothing of a round is shown that only thinks and
recalls, so mostly that is the last round's own id. (A Responses client refuses a stream that changes its id.) An
answer that is not streamed has the last round's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...types import Message


@dataclass(frozen=True, slots=True)
class Ending:
    """How a round ended."""

    rest: bytes = b""
    """What the agent still gets of it; for an answer that is not streamed, all of it."""
    queries: tuple[str, ...] = ()
    """What the model wants to recall; nothing when the turn is over."""


class Turn(Protocol):
    """One answer to the agent, made of one round or more. Nothing a provider sends makes it raise."""

    alias: tuple[str, str] | None
    """For Responses: the id the agent was shown and the provider's id of the last round, where they differ.
    A `previous_response_id` with the first must become the second, or the provider misses the recalls' outputs."""

    def feed(self, chunk: bytes) -> bytes:
        """A piece of a stream: what the agent gets now."""

    def end(self, *, last: bool = False) -> Ending:
        """The stream is over. In the `last` round recalls are left out instead of answered."""

    def whole(self, body: bytes, *, last: bool = False) -> Ending:
        """A round that is not streamed."""

    def answer(self, results: Sequence[str]) -> list[Message]:
        """Begin the next round, given what was recalled: all messages that follow the agent's own in its request."""

    def fail(self, body: bytes) -> bytes:
        """End a stream with the provider's own error event; `body` is how it refused the round, if it did."""

    def keep_alive(self) -> bytes:
        """Something no client minds, for when nothing was to be shown for a while."""
