"""OpenTelemetry traces and metrics, named by the conventions for generative AI where these have a name.

The usual `OTEL_…` variables say where to send them. They contain numbers and names, never text of a conversation.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..errors import MissingExtraError
from ..session.events import SessionEvent
from .conversations import AgentStep, LiveConversation
from .metrics import RequestOutcome
from .upstream import Upstream

try:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
except ImportError as error:
    raise MissingExtraError("telemetry", "otel") from error

_TAIL = 16 * 1024
"""Bytes at the end of an answer that are searched for its usage."""
_USAGE = re.compile(rb'"(input|prompt|output|completion)_tokens"\s*:\s*(\d+)')
_KINDS = {b"input": "input", b"prompt": "input", b"output": "output", b"completion": "output"}


_names: ContextVar[dict[str, str]] = ContextVar("names")
"""Attributes of the current request's metrics."""


class Tail:
    """Keeps the end of an answer as it passes through."""

    def __init__(self) -> None:
        self._bytes = b""

    def __call__(self, chunk: bytes) -> None:
        self._bytes = (self._bytes + chunk)[-_TAIL:]

    def usage(self) -> dict[str, int]:
        """Return the input and output tokens that the provider reported; in a stream, the last report counts."""
        return {_KINDS[kind]: int(number) for kind, number in _USAGE.findall(self._bytes)}


class Tracing:
    """Sends traces and metrics. In a dry run the savings have other names, since nothing was really saved."""

    def __init__(self, *, dry_run: bool = False) -> None:
        resource = Resource.create({"service.name": "focusctx"})
        self._traces = TracerProvider(resource=resource)
        self._traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        self._meters = MeterProvider(resource=resource, metric_readers=[reader])
        self._tracer = self._traces.get_tracer("focusctx")
        meter = self._meters.get_meter("focusctx")
        self._duration = meter.create_histogram("gen_ai.client.operation.duration", "s")
        self._usage = meter.create_histogram("gen_ai.client.token.usage", "{token}")
        self._sent = "focusctx.tokens.would_send" if dry_run else "focusctx.tokens.sent"
        saved, net = ("would_save.tokens", "would_save.net") if dry_run else ("tokens.saved", "saved.net")
        self._saved = meter.create_counter(f"focusctx.{saved}", "{token}")
        self._events = meter.create_counter("focusctx.events", "{event}")
        self._net = meter.create_up_down_counter(f"focusctx.{net}", "USD")
        self._added = meter.create_histogram("focusctx.added", "s")

    @contextmanager
    def request(self, upstream: Upstream, outcome: RequestOutcome) -> Iterator[Tail]:
        """Trace one request. Details that become known while it runs are added to the current span."""
        names = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": upstream.name,
            "server.address": upstream.host,
        }
        tail = Tail()
        started = time.perf_counter()
        token = _names.set(names)
        with self._tracer.start_as_current_span("chat", kind=trace.SpanKind.CLIENT, attributes=names) as span:
            try:
                yield tail
            finally:
                _names.reset(token)
                if outcome.status >= 400:
                    names["error.type"] = str(outcome.status)
                    span.set_attribute("error.type", str(outcome.status))
                    span.set_status(trace.StatusCode.ERROR)
                span.set_attribute("http.response.status_code", outcome.status)
                for kind, tokens in tail.usage().items():
                    span.set_attribute(f"gen_ai.usage.{kind}_tokens", tokens)
                    self._usage.record(tokens, {**names, "gen_ai.token.type": kind})
                self._duration.record(time.perf_counter() - started, names)

    def stepped(self, live: LiveConversation, step: AgentStep, events: list[SessionEvent], net: float | None) -> None:
        """Record what compression did to the request of the current span."""
        span = trace.get_current_span()
        span.set_attributes(
            {
                "gen_ai.conversation.id": live.id,
                "focusctx.tokens.received": step.full,
                self._sent: step.sent,
            }
        )
        model = {"gen_ai.request.model": live.key.model}
        span.update_name(f"chat {live.key.model}")
        span.set_attributes(model)
        _names.get().update(model)
        self._saved.add(max(step.full - step.sent, 0), model)
        if net is not None:
            self._net.add(net, model)
        self._added.record(step.added, model)
        for event in events:
            self._events.add(1, {"focusctx.cause": event.cause, **model})
            span.add_event(
                "focusctx.event",
                {
                    "focusctx.cause": event.cause,
                    "focusctx.tokens.before": event.tokens_before,
                    "focusctx.tokens.after": event.tokens_after,
                },
            )

    def close(self) -> None:
        """Send everything that has not been sent yet."""
        self._traces.shutdown()
        self._meters.shutdown()
