"""τ²-bench: what is said when something is missing; and with a checkout, its gold actions through our adapter.

The latter need FOCUSCTX_TAU2 (a checkout) and, unless it has a .venv, FOCUSCTX_TAU2_PYTHON; FOCUSCTX_TAU_BENCH for
the airline's database.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench_helpers import tau2_gold
from bench_helpers.ledger import Untouched
from focusctx.baselines.registry import MethodSettings, method_from
from focusctx.errors import BenchError, ConfigError, ModelError
from focusctx.invariants import violations
from focusctx.types import Message
from focusctx_bench.agent import Agent
from focusctx_bench.benchmarks import benchmark_from
from focusctx_bench.benchmarks.tau2 import BLOB, DOMAINS, Checkout, Tau2, git_id, rebuild
from focusctx_bench.job import BenchFolder
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import ModelAnswer, Options, Task
from focusctx_bench.record import Record

TAU_BENCH = os.environ.get("FOCUSCTX_TAU_BENCH", "")
real = pytest.mark.skipif("FOCUSCTX_TAU2" not in os.environ, reason="FOCUSCTX_TAU2 names no checkout of tau2-bench")
original = pytest.mark.skipif(not TAU_BENCH, reason="FOCUSCTX_TAU_BENCH names no checkout of tau-bench")

# What is missing.


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a checkout looks like from outside, with two tasks in each domain."""
    for name in ("FOCUSCTX_TAU2", "FOCUSCTX_TAU2_PYTHON", "FOCUSCTX_TAU_BENCH"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "tau2-bench"
    for domain in DOMAINS:
        folder = root / "data" / "tau2" / "domains" / domain
        folder.mkdir(parents=True)
        (folder / ("db.toml" if domain == "telecom" else "db.json")).write_text("")
        (folder / "tasks.json").write_text(json.dumps([{"id": "b"}, {"id": "a"}, {"id": "c"}]))
        (folder / "split_tasks.json").write_text(json.dumps({"base": ["a", "b"], "test": ["a"]}))
    (root / "pyproject.toml").write_text('[project]\nname = "tau2"\nversion = "1.0.1"\n')
    return root


def options(data: Path | None, **more: str) -> Options:
    return Options(data, more={"domain": "retail", "user": "openai:gpt-4.1", "python": sys.executable, **more})


def test_the_tasks_of_a_split_in_the_files_order(checkout: Path) -> None:
    told = options(checkout)
    assert [task.id for task in benchmark_from("tau2", told).tasks()] == ["b", "a"]
    tested = Options(told.data, "test", more=told.more)
    assert [task.id for task in benchmark_from("tau2", tested).tasks()] == ["a"]
    with pytest.raises(ConfigError, match="no split 'dev'; it has base, test"):
        benchmark_from("tau2", Options(told.data, "dev", more=told.more)).tasks()


def test_the_checkout_may_be_named_by_a_variable(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError, match=r"git clone https://github.com/sierra-research/tau2-bench.*FOCUSCTX_TAU2"):
        Checkout.of(options(None))
    monkeypatch.setenv("FOCUSCTX_TAU2", str(checkout))
    assert Checkout.of(options(None)).root == checkout


@pytest.mark.parametrize(
    ("project", "problem"),
    [
        ("", "is not a checkout of τ²-bench"),
        ('name = "tau2"\nversion = "0.2.0"', "is tau2 0.2.0; this adapter knows tau2 1.x"),
        ('name = "other"\nversion = "1.0.1"', "is other 1.0.1"),
    ],
)
def test_another_version(checkout: Path, project: str, problem: str) -> None:
    (checkout / "pyproject.toml").write_text(f"[project]\n{project}" if project else "")
    with pytest.raises(BenchError, match=problem):
        Checkout.of(options(checkout))


def test_no_interpreter(checkout: Path) -> None:
    with pytest.raises(BenchError, match=r"no interpreter at .*\.venv/bin/python: run `uv sync`"):
        Checkout.of(options(checkout, python=""))


def test_a_copy_that_is_not_whole(checkout: Path) -> None:
    (checkout / "data/tau2/domains/telecom/tasks.json").unlink()
    with pytest.raises(BenchError, match=r"telecom/tasks.json is missing"):
        Checkout.of(options(checkout, domain="telecom"))


async def test_what_only_the_user_can_say(checkout: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'usr' of .*; known: domain, user"):
        benchmark_from("tau2", options(checkout, usr="openai:gpt-4.1"))
    with pytest.raises(ConfigError, match="domain=retail, airline or telecom, got 'banking'"):
        benchmark_from("tau2", options(checkout, domain="banking"))
    with pytest.raises(ConfigError, match=r"user=openai:gpt-4\.1"):
        await benchmark_from("tau2", options(checkout, user="")).start(Task("a"))


async def test_an_interpreter_without_tau2(checkout: Path) -> None:
    bench = Tau2(Checkout.of(options(checkout)), dict)
    with pytest.raises(BenchError, match="No module named 'tau2'"):
        await bench.start(Task("a"))
    bench.worker().close()


# The airline's database.


def test_a_missing_airline_database_can_be_made(checkout: Path, tmp_path: Path) -> None:
    (checkout / "data/tau2/domains/airline/db.json").unlink()
    with pytest.raises(BenchError, match=r"db.json is missing.*tau_bench=FOLDER or FOCUSCTX_TAU_BENCH"):
        Checkout.of(options(checkout, domain="airline"))
    with pytest.raises(BenchError, match="is not a checkout of tau-bench"):
        Checkout.of(options(checkout, domain="airline", tau_bench=str(tmp_path)))


def test_other_data_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "tau_bench" / "envs" / "airline" / "data"
    folder.mkdir(parents=True)
    number = {"origin": "SEA", "destination": "LAS", "flight_number": "HAT018", "dates": {}}
    (folder / "flights.json").write_text(json.dumps({"HAT018": number}))
    (folder / "users.json").write_text("{}")
    (folder / "reservations.json").write_text(json.dumps({"Z7GOZK": {}}))
    with pytest.raises(BenchError, match="other airline data"):
        rebuild(tmp_path, tmp_path / "db.json")
    assert not (tmp_path / "db.json").exists()


@original
def test_the_airline_database_is_rebuilt_to_the_byte(checkout: Path) -> None:
    database = checkout / "data/tau2/domains/airline/db.json"
    database.unlink()
    Checkout.of(options(checkout, domain="airline", tau_bench=TAU_BENCH))
    assert git_id(database.read_bytes()) == BLOB


# The real thing.


@pytest.fixture(scope="module", params=DOMAINS)
def bench(request: pytest.FixtureRequest) -> Tau2:
    return Tau2(Checkout.of(Options(more={"domain": request.param})), dict)


def gold(bench: Tau2) -> dict[str, Mapping[str, Any]]:
    path = bench.checkout.folder / "tasks.json"
    return {task["id"]: task for task in json.loads(path.read_bytes())}


async def play(bench: Tau2, task: Task, told: Mapping[str, Any], agent: FunctionModel | None = None) -> Record:
    bench.models = tau2_gold.models(told)
    return await Agent(agent or tau2_gold.agent(told), Untouched).run(bench, task)


@real
async def test_gold_actions_score_one_on_every_task(bench: Tau2) -> None:
    told = gold(bench)
    records = [await play(bench, task, told[task.id]) for task in bench.tasks()]
    failed = {record.task: record.score for record in records if record.score.success != 1.0 or record.ended != "done"}
    assert not failed
    assert len(records) == {"retail": 114, "airline": 50, "telecom": 114}[bench.checkout.domain]
    assert all(record.score.details["ended"] == "user_stop" for record in records)


@real
@pytest.mark.parametrize("method", ["focus", "focus-d", "fifo"])
async def test_gold_actions_under_a_method(bench: Tau2, method: str) -> None:
    told = gold(bench)
    task = longest(bench, told)
    bench.models = tau2_gold.models(told[task.id])
    agent = tau2_gold.agent(told[task.id], tau2_gold.LOOK_UPS.get(bench.checkout.domain, ()))
    factory = method_from(method, MethodSettings(budget=200, draft="offline"))
    record = await Agent(agent, factory).run(bench, task)
    check_compressed(record)


@real
async def test_the_command_under_focus_with_models_on_a_server(bench: Tau2, tmp_path: Path) -> None:
    told, domain = gold(bench), bench.checkout.domain
    task, out = longest(bench, told).id, tmp_path / "run"
    async with tau2_gold.serving(told[task], tau2_gold.LOOK_UPS.get(domain, ())) as url:
        arguments = [
            *("--benchmark", "tau2", "--task", task, "--model", f"openai:agent@{url}", "--out", str(out)),
            *("--set", f"domain={domain}", f"user=openai:user@{url}", f"judge=openai:judge@{url}"),
            *("--methods", "focus", "--draft", "offline", "--budget", "400"),
        ]
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "focusctx", "bench", "run", *arguments)
        assert await process.wait() == 0
    [record] = BenchFolder(out).records
    check_compressed(record)
    assert record.score.details["user_requests"] >= 2


def longest(bench: Tau2, told: Mapping[str, Any]) -> Task:
    return max(bench.tasks(), key=lambda task: len(told[task.id]["evaluation_criteria"]["actions"] or []))


def check_compressed(record: Record) -> None:
    """Check a run that did its task under compression, from a history that begins with the agent's greeting."""
    assert record.messages[1] == {"role": "assistant", "content": "Hi! How can I help you today?"}
    assert any(step.event and step.event.happened for step in record.steps)
    assert (record.ended, record.score.success) == ("done", 1.0)
    for step in record.steps:
        assert violations(record.sent(step), "chat_completions") == []


def in_a_hurry(_: Sequence[Message]) -> Say:
    return Say(tau2_gold.GOODBYE)


def changes_something(task: Mapping[str, Any]) -> bool:
    """Whether a task's goal is not met from the start."""
    names = [action["name"] for action in task["evaluation_criteria"]["actions"] or []]
    return any(not name.startswith(("get", "find", "list", "search", "calculate", "transfer")) for name in names)


@real
async def test_an_agent_that_does_nothing_scores_zero(bench: Tau2) -> None:
    told = gold(bench)
    task = next(task for task in bench.tasks() if changes_something(told[task.id]))
    record = await play(bench, task, told[task.id], FunctionModel(in_a_hurry))
    assert (record.score.success, record.ended) == (0.0, "done")


@real
async def test_steps_that_run_out_score_zero(bench: Tau2) -> None:
    told = gold(bench)
    task = longest(bench, told)
    bench.models = tau2_gold.models(told[task.id])
    record = await Agent(tau2_gold.agent(told[task.id]), Untouched, step_limit=2).run(bench, task)
    assert (record.ended, record.score.success, record.score.details["ended"]) == ("steps", 0.0, "max_steps")


@real
async def test_each_run_has_a_world_of_its_own(bench: Tau2) -> None:
    told = gold(bench)
    task = next(task for task in bench.tasks() if changes_something(told[task.id]))
    agents = [tau2_gold.agent(told[task.id]), FunctionModel(in_a_hurry), tau2_gold.agent(told[task.id])]
    records = await asyncio.gather(*(play(bench, task, told[task.id], agent) for agent in agents))
    assert [record.score.success for record in records] == [1.0, 0.0, 1.0]


@real
async def test_what_the_agent_sees(bench: Tau2) -> None:
    told = gold(bench)
    task = bench.tasks()[0]
    bench.models = tau2_gold.models(told[task.id])
    conversation = await bench.start(task)
    policy = next(bench.checkout.folder.glob("*policy.md")).read_text(encoding="utf-8")
    assert policy.strip()[:500] in conversation.system
    assert conversation.greeting == "Hi! How can I help you today?"
    assert conversation.task == "Hello, I need help."
    assert "transfer_to_human_agents" in [tool["function"]["name"] for tool in conversation.tools]
    assert await conversation.hear("  ") is None  # τ²-bench takes no empty message
    assert (await conversation.score()).details["ended"] == "agent_error"
    await conversation.close()


class Broke:
    name = "broke"

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> ModelAnswer:
        raise ModelError("no credit")


@real
async def test_a_customers_model_that_fails_is_no_result(bench: Tau2) -> None:
    bench.models = {"user": Broke(), "judge": Broke()}
    with pytest.raises(ModelError, match="no credit"):
        await bench.start(bench.tasks()[0])
