"""Response headers that tell a caller what compression did to its request."""

from __future__ import annotations

from collections.abc import Sequence

from ..session.events import SessionEvent
from .conversations import LiveConversation, Step

RECEIVED = "x-focusctx-tokens-received"
SENT = "x-focusctx-tokens-sent"
WOULD_SEND = "x-focusctx-tokens-would-send"
ESTIMATED = "x-focusctx-tokens-estimated"
EVENT = "x-focusctx-event"
LEFT_OUT = "x-focusctx-steps-left-out"
SHORTENED = "x-focusctx-steps-shortened"


def report_headers(
    live: LiveConversation, step: Step, events: Sequence[SessionEvent], *, dry_run: bool
) -> dict[str, str]:
    """Describe one request: its tokens, the event that was made for it, and the steps that its history lacks.

    In a dry run everything went up, so the tokens that would have gone up have a name of their own.
    """
    made = next((event.cause for event in reversed(events) if event.happened), "none")
    left_out = live.conversation.left_out if live.conversation else None
    headers = {
        RECEIVED: str(step.full),
        WOULD_SEND if dry_run else SENT: str(step.sent),
        EVENT: made,
        LEFT_OUT: str(len(left_out.spans) - len(left_out.shown) if left_out else 0),
        SHORTENED: str(len(left_out.shown) if left_out else 0),
    }
    return headers if step.exact else {**headers, ESTIMATED: "1"}
