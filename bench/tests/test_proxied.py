"""Runs through a real proxy: what it sent and saved is in the records."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from focusctx import Focus
from focusctx.errors import BenchError, ConfigError
from focusctx.jobs.engines import InProcess
from focusctx.jobs.runner import Tally
from focusctx_bench.benchmarks import scripted_model
from focusctx_bench.benchmarks.office import scripted_draft
from focusctx_bench.job import BenchFolder, Job
from focusctx_bench.protocols import Options
from focusctx_bench.record import Record
from focusctx_bench.run import Components, run_bench
from helpers.provider import Call, Provider, Received, Say
from helpers.proxied import proxied

TASKS = ("office-11-0002", "office-11-0005")


def clerk(received: Received) -> Say:
    """The office's scripted agent, behind an API."""
    with ThreadPoolExecutor(1) as thread:  # the provider's own loop is busy with this very request
        turn = thread.submit(asyncio.run, scripted_model("office").answer(received.messages, ())).result()
    calls = [call["function"] for call in turn.message.get("tool_calls", ())]
    return Say(turn.text, tuple(Call(call["name"], json.loads(call["arguments"])) for call in calls))


def job_through(url: str) -> Job:
    model = f"openai:agent@{url}/v1"
    options = Options(seed=11)
    return Job(benchmarks={"office": options}, methods=("none",), model=model, tasks=TASKS, through=url)


def run(job: Job, folder: Path) -> Tally:
    work = run_bench(job, Components(job).tasks(), BenchFolder(folder), InProcess(2))
    return asyncio.run(work)


def test_records_hold_what_the_proxy_sent(tmp_path: Path) -> None:
    focus = Focus(scripted_draft(), budget=3000, target=None)  # the planner cites exactly what the clerk needs
    with Provider(clerk) as provider, proxied(focus, f"{provider.url}/v1", only_if_it_pays=False) as (_, url):
        job = job_through(url)
        job.check()
        assert run(job, tmp_path).left == 0
    records = {record.task: record for record in BenchFolder(tmp_path).records}
    assert set(records) == set(TASKS)
    for record in records.values():
        assert record.score.success == 1, record.score
        assert record.settings["through"] == url
        check(record)
    assert len({record.proxy["session"] for record in records.values() if record.proxy}) == 2


def check(record: Record) -> None:
    assert record.proxy is not None
    assert "problem" not in record.proxy
    assert record.proxy["requests"] == len(record.steps)
    assert record.proxy["events"] > 0
    assert record.proxy["draft"]["requests"] > 0
    assert record.proxy["draft"]["input"] > 0
    saved = sum(step.history_tokens - step.input_tokens for step in record.steps)
    assert saved > 0
    assert record.proxy["tokens_saved"] == pytest.approx(saved, rel=0.02)
    first = next(entry for entry in record.proxy["log"] if entry["happened"])
    assert record.steps[first["request"] - 1].input_tokens == first["after"]


def test_a_proxy_that_is_not_there_is_found_out_before_the_run(tmp_path: Path) -> None:
    with Provider(clerk) as provider:
        gone = provider.url
    with pytest.raises(BenchError, match="no focusctx proxy answers"):
        run(job_through(gone), tmp_path)
    with Provider(clerk) as provider, pytest.raises(BenchError, match="is no focusctx proxy"):
        run(job_through(provider.url), tmp_path)


def test_the_model_must_point_to_the_proxy() -> None:
    job = Job(
        benchmarks={"office": Options()}, methods=("none",), model="openai:gpt-5", through="http://127.0.0.1:8401"
    )
    with pytest.raises(ConfigError, match="--model must point to the same proxy"):
        job.check()
