"""What the proxy tells about itself: Prometheus' numbers, and OpenTelemetry's, as a collector gets them."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from focusctx import Focus
from focusctx.errors import DraftUnavailable
from focusctx.proxy.dashboard.data import about_session, whole_session
from focusctx.proxy.serve import serving
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream
from helpers import task
from helpers.provider import Provider


async def run_task(url: str, *, stream: bool = False) -> None:
    """The long task by hand, so that nothing but the proxy is in the way."""
    history: list[dict] = [{"role": "user", "content": task.TASK}]
    async with aiohttp.ClientSession() as http:
        for number in range(task.STEPS):
            body = {"model": "gpt-4.1", "messages": history, "tools": task.chat_tools(), "stream": stream}
            async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
                await answer.read()
            call = {"id": f"c{number}", "type": "function", "function": {"name": "read_page", "arguments": "{}"}}
            history += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": f"page {number} " * 100},
            ]


def settings(provider: Provider, **more) -> Settings:
    return Settings((Upstream("openai", provider.url),), port=0, store="memory", grace=0.1, **more)


def samples(text: str) -> dict[str, float]:
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
    }


async def metrics_of(url: str) -> dict[str, float]:
    async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as answer:
        assert answer.content_type == "text/plain"
        return samples(await answer.text())


async def test_the_numbers_for_prometheus_are_those_of_the_sessions():
    with Provider(task.model) as provider:
        async with serving(Focus("offline", budget=2000), settings(provider)) as (proxy, url):
            await run_task(url)
            found = await metrics_of(url)
            (live,) = proxy.conversations
    assert found['focusctx_requests_total{status="200",upstream="openai"}'] == task.STEPS
    happened = sum(event.happened for event in live.session.events)
    assert found['focusctx_events_total{cause="compressed"}'] == happened > 0
    assert found["focusctx_tokens_saved_total"] == live.session.savings.tokens_saved > 0
    assert found['focusctx_tokens_total{side="received"}'] - found['focusctx_tokens_total{side="sent"}'] == (
        live.session.savings.tokens_saved
    )
    assert found["focusctx_net_saved_usd"] == pytest.approx(live.session.savings.net)
    assert found["focusctx_net_saved_usd"] != 0
    assert found["focusctx_added_seconds_count"] == task.STEPS
    assert found["focusctx_requests_open"] == 0
    assert found["focusctx_sessions"] == 1
    assert found["focusctx_draft_failures_total"] == 0


async def test_what_a_draft_without_a_known_price_costs_is_unknown():
    def draft(prompt):
        return "Step: go on | Depends on: [s_2]"

    with Provider(task.model) as provider:
        async with serving(Focus(draft, budget=2000), settings(provider)) as (proxy, url):
            await run_task(url)
            found = await metrics_of(url)
            (live,) = proxy.conversations
            about = about_session(live)
            whole = whole_session(live)
    assert live.session.savings.unpriced > 0
    assert math.isnan(found["focusctx_net_saved_usd"]), "not what it would be if the draft were free"
    assert about["net"] is whole["money"]["drafts"] is None
    assert about["unpriced"] == live.session.savings.unpriced
    assert whole["money"]["saved"] > 0


async def test_a_dry_run_counts_under_other_names():
    """Nothing was saved, and everything was sent."""
    with Provider(task.model) as provider:
        async with serving(Focus("offline", budget=2000), settings(provider, dry_run=True)) as (proxy, url):
            await run_task(url)
            found = await metrics_of(url)
            (live,) = proxy.conversations
    assert found["focusctx_would_save_tokens_total"] == live.session.savings.tokens_saved > 0
    assert found["focusctx_would_save_net_usd"] == pytest.approx(live.session.savings.net)
    assert found['focusctx_tokens_total{side="sent"}'] == found['focusctx_tokens_total{side="received"}'] > 0
    assert not found.keys() & {"focusctx_tokens_saved_total", "focusctx_net_saved_usd"}


async def test_a_draft_that_fails_is_counted():
    def broken(prompt):
        raise DraftUnavailable("gone")

    with Provider(task.model) as provider:
        async with serving(Focus(broken, budget=2000), settings(provider)) as (_, url):
            await run_task(url)
            found = await metrics_of(url)
    assert found["focusctx_draft_failures_total"] > 0
    assert found["focusctx_tokens_saved_total"] == 0


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[str, dict[str, list[bytes]]]]:
    """Where OpenTelemetry sends to: keeps what it got."""
    got: dict[str, list[bytes]] = {}

    async def keep(request: web.Request) -> web.Response:
        got.setdefault(request.path, []).append(await request.read())
        return web.Response()

    app = web.Application()
    app.router.add_post("/{path:.*}", keep)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", got
    finally:
        await runner.cleanup()


async def test_a_collector_is_not_told_of_savings_in_a_dry_run(monkeypatch):
    pytest.importorskip("opentelemetry.sdk")
    async with collector() as (address, got):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        with Provider(task.model) as provider:
            given = settings(provider, otel=True, dry_run=True)
            async with serving(Focus("offline", budget=2000), given) as (_, url):
                await run_task(url)
        await asyncio.sleep(0)
    metrics, traces = b"".join(got["/v1/metrics"]), b"".join(got["/v1/traces"])
    assert b"focusctx.would_save.tokens" in metrics
    assert b"focusctx.would_save.net" in metrics
    assert b"focusctx.tokens.saved" not in metrics
    assert b"focusctx.saved.net" not in metrics
    assert b"focusctx.tokens.would_send" in traces
    assert b"focusctx.tokens.sent" not in traces


@pytest.mark.parametrize("stream", [False, True])
async def test_a_collector_gets_spans_and_metrics_under_the_agreed_names(monkeypatch, stream):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    async with collector() as (address, got):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        with Provider(task.model) as provider:
            async with serving(Focus("offline", budget=2000), settings(provider, otel=True)) as (proxy, url):
                await run_task(url, stream=stream)
                (live,) = proxy.conversations
                saved, happened = live.session.savings.tokens_saved, sum(e.happened for e in live.session.events)
        await asyncio.sleep(0)
    traces = [ExportTraceServiceRequest.FromString(data) for data in got["/v1/traces"]]
    spans = [span for each in traces for r in each.resource_spans for s in r.scope_spans for span in s.spans]
    assert len(spans) == task.STEPS
    attributes = [{a.key: a.value.string_value or a.value.int_value for a in span.attributes} for span in spans]
    last = attributes[-1]
    assert spans[-1].name == "chat gpt-4.1"
    assert last["gen_ai.operation.name"] == "chat"
    assert last["gen_ai.provider.name"] == "openai"
    assert last["gen_ai.request.model"] == "gpt-4.1"
    assert last["gen_ai.conversation.id"] == live.id
    assert last["http.response.status_code"] == 200
    assert last["focusctx.tokens.sent"] < last["focusctx.tokens.received"]
    assert sum(a["focusctx.tokens.received"] - a["focusctx.tokens.sent"] for a in attributes) == saved > 0
    assert sum(len(span.events) for span in spans) >= happened > 0
    if not stream:
        assert all(a["gen_ai.usage.input_tokens"] > 0 and "gen_ai.usage.output_tokens" in a for a in attributes)
    measured = [ExportMetricsServiceRequest.FromString(data) for data in got["/v1/metrics"]]
    names = {m.name for each in measured for r in each.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert {"gen_ai.client.operation.duration", "focusctx.tokens.saved", "focusctx.events", "focusctx.added"} <= names
    everything = b"".join(data for each in got.values() for data in each)
    assert task.TASK.encode() not in everything, "nothing that was said leaves the proxy this way"
    assert b"page 3 page 3" not in everything
