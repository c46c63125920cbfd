"""Metrics for Prometheus.

Requests only update counters; the text is built when Prometheus asks for it. All counting happens on the event loop.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from ..prices import price_of
from ..session.events import SessionEvent
from .conversations import AgentStep, Key, LiveConversations

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(slots=True)
class RequestOutcome:
    """Outcome of a request. The status is 499 until there is an answer, for callers that disconnect before."""

    caller: str
    """Name of the caller; empty if it has no token of its own."""
    status: int = 499
    watch: Callable[[bytes], None] | None = None
    """Called with each piece of the answer, if set."""


@dataclass(slots=True)
class Sums:
    """Numbers of requests, events, tokens and USD since the start."""

    requests: int = 0
    """Requests whose history was looked at."""
    events: int = 0
    """Times that a history changed on its way."""
    received: int = 0
    """Tokens of histories as they came."""
    sent: int = 0
    """Tokens that were sent instead (in a dry run: would have been sent)."""
    saved: int = 0
    net: float = 0.0
    """USD saved less all costs; NaN if a draft without a known price was asked."""
    priced: int = 0
    """Requests for models with a known price. Others add nothing to `net`."""

    @property
    def known_net(self) -> float | None:
        """USD saved less all costs; None if no model had a known price, or the draft had none."""
        return None if math.isnan(self.net) or not self.priced else self.net

    def add(self, step: AgentStep, events: Sequence[SessionEvent], net: float | None, model: str) -> None:
        self.requests += 1
        self.priced += price_of(model) is not None
        self.events += sum(event.happened for event in events)
        self.received += step.full
        self.sent += step.sent
        self.saved += max(step.full - step.sent, 0)
        self.net += math.nan if net is None else net


@dataclass(slots=True)
class CallerSums(Sums):
    """Sums of one caller."""

    all_requests: int = 0
    """Every request that was forwarded for it."""


class Metrics:
    """Metrics of one proxy, in its own registry, so that several proxies can run in one process."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, conversations: LiveConversations, *, dry_run: bool = False) -> None:
        self._conversations = conversations
        self._dry_run = dry_run
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._open = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._events: Counter[str] = Counter()
        self.sums = Sums()
        self.by_caller: defaultdict[str, CallerSums] = defaultdict(CallerSums)
        """Sums of the callers that have a name."""
        self._seconds = 0.0
        self._added = [0] * (len(_SECONDS) + 1)

    @property
    def requests(self) -> int:
        """Requests that were answered since the start."""
        return self._requests.total()

    @contextmanager
    def request(self, upstream: str, caller: str) -> Iterator[RequestOutcome]:
        """Count a request as open until its outcome is known."""
        self._open += 1
        if caller:
            self.by_caller[caller].all_requests += 1
        outcome = RequestOutcome(caller)
        try:
            yield outcome
        finally:
            self._open -= 1
            self._requests[upstream, outcome.status] += 1

    def stepped(self, key: Key, step: AgentStep, events: list[SessionEvent], net: float | None) -> None:
        self._added[bisect_left(_SECONDS, step.added)] += 1
        self._seconds += step.added
        self.sums.add(step, events, net, key.model)
        if key.caller:
            self.by_caller[key.caller].add(step, events, net, key.model)
        for event in events:
            self._events[event.cause] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; called by the Prometheus registry."""
        requests = CounterMetricFamily("focusctx_requests", "Requests forwarded", labels=["upstream", "status"])
        for (upstream, status), number in self._requests.items():
            requests.add_metric([upstream, str(status)], number)
        yield requests
        yield GaugeMetricFamily("focusctx_requests_open", "Requests that are being answered", self._open)
        what = "Compression events, and the reasons why there was none"
        events = CounterMetricFamily("focusctx_events", what, labels=["cause"])
        for cause, number in self._events.items():
            events.add_metric([cause], number)
        yield events
        failures = self._events["draft"]
        yield CounterMetricFamily("focusctx_draft_failures", "Events that failed because of the draft", failures)
        tokens = CounterMetricFamily("focusctx_tokens", "Tokens of histories, as received and as sent", labels=["side"])
        tokens.add_metric(["received"], self.sums.received)
        tokens.add_metric(["sent"], self.sums.received if self._dry_run else self.sums.sent)
        yield tokens
        yield from self._savings()
        yield from self._callers()
        what = "Time that compression added to a request"
        limits = [*map(str, map(float, _SECONDS)), "+Inf"]
        buckets = list(zip(limits, accumulate(self._added), strict=True))
        yield HistogramMetricFamily("focusctx_added_seconds", what, buckets, self._seconds)
        yield GaugeMetricFamily("focusctx_sessions", "Conversations in memory", len(self._conversations))

    def _savings(self) -> Iterator[Metric]:
        """Yield the savings. In a dry run they have other names, since nothing was really saved."""
        if self._dry_run:
            what = "Input tokens that would not have been sent"
            yield CounterMetricFamily("focusctx_would_save_tokens", what, self.sums.saved)
            what = "USD that would have been saved since the start, less what it would have cost; NaN if unknown"
            yield GaugeMetricFamily("focusctx_would_save_net_usd", what, self.sums.net)
            return
        yield CounterMetricFamily("focusctx_tokens_saved", "Input tokens that were not sent", self.sums.saved)
        what = "USD saved since the start, less what it cost; NaN where the draft has no known price"
        yield GaugeMetricFamily("focusctx_net_saved_usd", what, self.sums.net)

    def _callers(self) -> Iterator[Metric]:
        """Yield what each caller that has a name saved, under its name."""
        if not self.by_caller:
            return
        requests = CounterMetricFamily("focusctx_caller_requests", "Requests forwarded, by caller", labels=["caller"])
        events = CounterMetricFamily("focusctx_caller_events", "Times a history was compressed", labels=["caller"])
        what = "Tokens of a caller's histories, as received and as sent"
        tokens = CounterMetricFamily("focusctx_caller_tokens", what, labels=["caller", "side"])
        would = "would_save_net_usd" if self._dry_run else "net_saved_usd"
        what = "USD by caller, less what it cost; NaN where the draft has no known price"
        net = GaugeMetricFamily(f"focusctx_caller_{would}", what, labels=["caller"])
        for name, sums in self.by_caller.items():
            requests.add_metric([name], sums.all_requests)
            events.add_metric([name], sums.events)
            tokens.add_metric([name, "received"], sums.received)
            tokens.add_metric([name, "sent"], sums.received if self._dry_run else sums.sent)
            net.add_metric([name], sums.net)
        yield from (requests, events, tokens, net)

    def text(self) -> bytes:
        return generate_latest(self._registry)
