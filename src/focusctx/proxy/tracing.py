"""OpenTelemetry traces and metrics, under the names that are agreed on for generative AI, where there are such.

Where they go is for the usual `OTEL_…` variables to say. Nothing that was said is in them: numbers and names only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..errors import MissingExtraError
from ..session.events import SessionEvent
from .metrics import Seen
from .sessions import Live, Step
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
"""Bytes at the end of an answer in which its usage is looked for."""
_USAGE = re.compile(rb'"(input|prompt|output|completion)_tokens"\s*:\s*(\d+)')
_KINDS = {b"input": "input", b"prompt": "input", b"output": "output", b"completion": "output"}


_names: ContextVar[dict[str, str]] = ContextVar("names")
"""What the metrics of the current request are filed under."""


class Tail:
    """The end of an answer that goes by."""

    def __init__(self) -> None:
        self._bytes = b""

    def __call__(self, chunk: bytes) -> None:
        self._bytes = (self._bytes + chunk)[-_TAIL:]

    def usage(self) -> dict[str, int]:
        """Input and output tokens as the provider reports them; the last report of a stream is the one that counts."""
        return {_KINDS[kind]: int(number) for kind, number in _USAGE.findall(self._bytes)}


class Tracing:
    """In a dry run what would have been saved has names of its own: nothing was."""

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
    def request(self, upstream: Upstream, seen: Seen) -> Iterator[Tail]:
        """Around one request; what is learned of it on the way goes to the current span."""
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
                if seen.status >= 400:
                    names["error.type"] = str(seen.status)
                    span.set_attribute("error.type", str(seen.status))
                    span.set_status(trace.StatusCode.ERROR)
                span.set_attribute("http.response.status_code", seen.status)
                for kind, tokens in tail.usage().items():
                    span.set_attribute(f"gen_ai.usage.{kind}_tokens", tokens)
                    self._usage.record(tokens, {**names, "gen_ai.token.type": kind})
                self._duration.record(time.perf_counter() - started, names)

    def stepped(self, live: Live, step: Step, events: list[SessionEvent], net: float | None) -> None:
        """What compression did to the request of the current span."""
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
        """Send what is not sent yet."""
        self._traces.shutdown()
        self._meters.shutdown()
