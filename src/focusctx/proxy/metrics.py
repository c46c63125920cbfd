"""What happened, in numbers, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ..session.events import SessionEvent
from .sessions import Sessions, Step

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(slots=True)
class Seen:
    """How a request went: 499 until there is an answer, for callers who left before."""

    status: int = 499
    watch: Callable[[bytes], None] | None = None
    """Sees the answer go by, where somebody wants to."""


class Metrics:
    """One registry per proxy, so that several can live in one process."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, sessions: Sessions) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("focusctx_requests", "Requests forwarded", ["upstream", "status"], registry=registry)
        self._open = Gauge("focusctx_requests_open", "Requests that are being answered", registry=registry)
        self._events = Counter(
            "focusctx_events", "Compression events, and the reasons why there was none", ["cause"], registry=registry
        )
        self._draft_failures = Counter(
            "focusctx_draft_failures", "Events that failed because of the draft", registry=registry
        )
        tokens = Counter("focusctx_tokens", "Tokens of histories, as received and as sent", ["side"], registry=registry)
        self._received, self._sent = tokens.labels("received"), tokens.labels("sent")
        self._saved = Counter("focusctx_tokens_saved", "Input tokens that did not have to go up", registry=registry)
        self._money = Gauge(
            "focusctx_net_saved_usd",
            "USD saved since the start, less what it cost",
            registry=registry,
        )
        self._added = Histogram(
            "focusctx_added_seconds", "Time that compression added to a request", buckets=_SECONDS, registry=registry
        )
        Gauge("focusctx_sessions", "Conversations in memory", registry=registry).set_function(lambda: len(sessions))

    @contextmanager
    def request(self, upstream: str) -> Iterator[Seen]:
        seen = Seen()
        self._open.inc()
        try:
            yield seen
        finally:
            self._open.dec()
            self._requests.labels(upstream, str(seen.status)).inc()

    def stepped(self, step: Step, events: list[SessionEvent], net: float) -> None:
        self._added.observe(step.added)
        self._received.inc(step.full)
        self._sent.inc(step.sent)
        if step.full > step.sent:
            self._saved.inc(step.full - step.sent)
        if net:
            self._money.inc(net)
        for event in events:
            self._events.labels(event.cause).inc()
            if event.cause == "draft":
                self._draft_failures.inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)
