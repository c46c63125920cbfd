"""AppWorld: what is said when something is missing; a stand-in engine; and the real one with a small world of ours.

The latter needs FOCUSCTX_APPWORLD_PYTHON, an interpreter with AppWorld (`pip install appworld; appworld install`); no
download.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from bench_helpers import appworld_world
from bench_helpers.appworld_world import CHORE, QUESTION
from bench_helpers.ledger import Untouched
from focusctx.baselines.registry import MethodSettings, method_from
from focusctx.errors import BenchError, ConfigError
from focusctx.invariants import violations
from focusctx.types import Message
from focusctx_bench.agent import Agent
from focusctx_bench.benchmarks import benchmark_from
from focusctx_bench.benchmarks.appworld import PYTHON, VARIABLE, AppWorld, AppWorldTask, Installation
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import Options, Task, ToolCall
from focusctx_bench.record import Record

ENGINE = os.environ.get(PYTHON, "")
real = pytest.mark.skipif(not ENGINE, reason=f"{PYTHON} names no interpreter with AppWorld")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where worlds are laid out, to see what is left of them."""
    (folder := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What AppWorld's data look like from outside, with three tasks."""
    for name in (VARIABLE, PYTHON):
        monkeypatch.delenv(name, raising=False)
    data = tmp_path / "appworld" / "data"
    for level, task in enumerate(("c_1", "a_1", "b_2"), 1):
        (folder := data / "tasks" / task / "ground_truth").mkdir(parents=True)
        (folder / "metadata.json").write_text(json.dumps({"difficulty": level}))
    (data / "datasets").mkdir()
    (data / "datasets" / "test_normal.txt").write_text("c_1\na_1:tag\n\nb_2\n")
    (data / "datasets" / "dev.txt").write_text("b_2\n")
    return tmp_path / "appworld"


def options(data: Path | None, split: str = "", **more: str) -> Options:
    return Options(data, split, more={"python": sys.executable, **more})


# What is missing.


def test_the_tasks_of_a_split_with_their_difficulty(root: Path) -> None:
    def listed(split: str) -> list[tuple[str, str]]:
        return [(task.id, task.difficulty) for task in benchmark_from("appworld", options(root, split)).tasks()]

    assert listed("") == listed("test_normal") == [("c_1", "easy"), ("a_1", "medium"), ("b_2", "hard")]
    assert listed("dev") == [("b_2", "hard")]
    with pytest.raises(ConfigError, match="no split 'test'; it has dev, test_normal"):
        listed("test")
    (root / "data/tasks/b_2/ground_truth/metadata.json").unlink()
    with pytest.raises(
        BenchError, match=r"b_2/ground_truth/metadata.json lacks the task's difficulty.*appworld download data"
    ):
        listed("dev")


def test_no_data(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError, match=r"pip install appworld .*appworld install.*download data.*FOCUSCTX_APPWORLD "):
        benchmark_from("appworld", options(None))
    with pytest.raises(BenchError, match=r"contains no AppWorld tasks.*appworld download data"):
        benchmark_from("appworld", options(tmp_path))
    monkeypatch.setenv(VARIABLE, str(root))
    assert len(benchmark_from("appworld", options(None)).tasks()) == 3
    with pytest.raises(ConfigError, match=r"unknown setting 'domain' of .*; known: python"):
        benchmark_from("appworld", options(None, domain="retail"))


async def test_no_engine(root: Path, temporary: Path) -> None:
    with pytest.raises(
        BenchError, match=r"no interpreter at .*/appworld/\.venv/bin/python: .*FOCUSCTX_APPWORLD_PYTHON"
    ):
        benchmark_from("appworld", options(root, python=""))
    with pytest.raises(BenchError, match=r"cannot run AppWorld .*`pip install appworld`, then `appworld install`"):
        await benchmark_from("appworld", options(root)).start(Task("a_1"))
    with pytest.raises(BenchError, match="could not be started"):
        await AppWorld(Installation(root, root)).start(Task("a_1"))
    assert not list(temporary.iterdir())


# A stand-in: the names of the engine that we use, over a world that is one list.

STAND_IN = {
    "environment": """
import contextlib, io, json, os, types
class AppWorld:
    def __init__(self, task, *, experiment_name, load_ground_truth, timeout_seconds):
        assert not load_ground_truth
        self.path = os.path.join(os.environ["APPWORLD_ROOT"], experiment_name + task)
        person = dict(first_name="Ada", last_name="Winter", email="ada@example.com", phone_number="5550100")
        self.task = types.SimpleNamespace(instruction="Write " + task, supervisor=person)
        self.safety_guard = types.SimpleNamespace(disable=lambda: None)
        self.names = {"written": []}
        self.execute("pass")
    def execute(self, code):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self.names)
        with open(self.path, "w") as file:
            json.dump(self.names["written"], file)
        return printed.getvalue()
    def task_completed(self):
        return "end" in self.names["written"]
""",
    "evaluator": """
import json, os, types
def evaluate_task(task, experiment, save_report):
    with open(os.path.join(os.environ["APPWORLD_ROOT"], experiment + task)) as file:
        written = json.load(file)
    failures = [] if task in written else [{"requirement": "written", "trace": "..."}]
    return types.SimpleNamespace(to_dict=lambda: dict(success=not failures, num_tests=1, failures=failures))
""",
}


@pytest.fixture
def stand_in(root: Path, tmp_path: Path) -> AppWorld:
    (package := tmp_path / "engine" / "appworld").mkdir(parents=True)
    for name, text in {**STAND_IN, "__init__": ""}.items():
        (package / f"{name}.py").write_text(text)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={package.parent} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return AppWorld(Installation(root, python), seconds=1, grace=1.0)


def runner(world: AppWorldTask) -> Callable[[str], Awaitable[str]]:
    async def run(code: str) -> str:
        return await world.act(ToolCall("call_1", "run_python", {"code": code}))

    return run


async def test_a_task_from_beginning_to_end(stand_in: AppWorld, root: Path, temporary: Path) -> None:
    world = await stand_in.start(Task("a_1"))
    run = runner(world)
    assert world.task == "Write a_1"
    assert "Ada Winter, your supervisor (email ada@example.com, phone number 5550100)" in world.system
    assert await run("import os; os.system('echo not the answer'); print('é')") == "é\n"
    assert "needs `code`" in await world.act(ToolCall("call_1", "run_python", {"python": "1"}))
    assert "complete_task()" in str(await world.hear("I am done."))
    assert not world.is_over()
    await run("written += ['a_1', 'end']")
    assert world.is_over()
    score = await world.score()
    details = {"checks": 1, "failed_checks": 0, "failed": [], "completed": True}
    assert (score.success, score.details) == (1.0, details)
    await world.close()
    assert not list(temporary.iterdir())
    assert sorted(path.name for path in (root / "data").iterdir()) == ["datasets", "tasks"]


async def test_the_agents_code_sees_no_keys(stand_in: AppWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    world = await stand_in.start(Task("a_1"))
    assert "sk-secret" not in await runner(world)("import os; print(dict(os.environ))")
    await world.close()


async def test_whatever_the_code_raises_is_an_observation(stand_in: AppWorld) -> None:
    world = await stand_in.start(Task("a_1"))
    run = runner(world)
    assert await run("written += ['a_1']; raise KeyboardInterrupt('no')") == (
        "Execution failed. Traceback:\nKeyboardInterrupt: no"
    )
    assert (await world.score()).success == 1.0
    await world.close()


@pytest.mark.parametrize(
    ("code", "said"),
    [("import os; os.abort()", "ended the program"), ("while True: pass", "could not be stopped")],
)
async def test_code_that_takes_the_world_along(stand_in: AppWorld, code: str, said: str) -> None:
    """The task is over, and judged by what stood before."""

    async def success(task: str) -> float:
        world = await stand_in.start(Task(task))
        run = runner(world)
        await run("written += ['a_1']")
        assert said in await run(f"written += ['b_2']\n{code}")
        assert world.is_over()
        score = await world.score()
        await world.close()
        assert score.details["completed"] is False
        return score.success

    assert [*await asyncio.gather(success("a_1"), success("b_2"))] == [1.0, 0.0]


# The real engine, with a small world.


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("appworld")
    subprocess.run([ENGINE, str(appworld_world.__file__), str(folder)], check=True, timeout=300)
    return folder


LOGIN = """
passwords = {each["account_name"]: each["password"] for each in apis.supervisor.show_account_passwords()}
login = apis.simple_note.login(username=apis.supervisor.show_profile()["email"], password=passwords["simple_note"])
token = login["access_token"]
note = apis.simple_note.search_notes(query="Packing list", access_token=token)[0]["note_id"]
print(apis.simple_note.show_note(note_id=note, access_token=token)["content"])
"""
ADD = """
apis.simple_note.add_content_to_note(
    note_id=note, append_or_prepend="append", added_content="lamp", access_token=token
)
"""
PIN = "apis.simple_note.update_note(note_id=note, pinned=True, access_token=token)\n"
END = "apis.supervisor.complete_task()"


def agent(*codes: str | Callable[[str], str]) -> FunctionModel:
    """Runs one code after the other; a function makes its code of what was last printed."""

    def decide(messages: Sequence[Message]) -> Say:
        seen = [str(message["content"]) for message in messages if message["role"] == "tool"]
        code = codes[len(seen)]
        return Say(calls=[("run_python", {"code": code if isinstance(code, str) else code(seen[-1])})])

    return FunctionModel(decide)


def answer(printed: str) -> str:
    return f"apis.supervisor.complete_task(answer={len(printed.split())})"


@real
async def test_whole_tasks_by_appworlds_own_evaluator(small: Path, temporary: Path) -> None:
    """Side by side, the same task more than once: every run has a world of its own."""
    bench = benchmark_from("appworld", Options(small, more={"python": ENGINE}))
    tasks: Mapping[str, Task] = {task.id: task for task in bench.tasks()}
    assert {name: task.difficulty for name, task in tasks.items()} == {QUESTION: "easy", CHORE: "hard"}
    runs = [
        (QUESTION, agent(LOGIN, answer)),
        (QUESTION, agent(LOGIN, ADD, "apis.supervisor.complete_task(answer=4)")),
        (CHORE, agent(LOGIN, ADD + PIN, END)),
        (CHORE, agent(LOGIN, ADD, END)),
    ]
    records: list[Record] = await asyncio.gather(
        *(Agent(model, Untouched).run(bench, tasks[name]) for name, model in runs)
    )
    assert [record.score.success for record in records] == [1.0, 0.0, 1.0, 0.0]
    assert [record.score.details["failed"] for record in records] == [
        [],
        ["the answer is right", "no note has changed"],
        [],
        ["the note is pinned"],
    ]
    assert all(record.ended == "done" and record.score.details["completed"] for record in records)
    assert not list(temporary.iterdir())
    assert [path.name for path in small.iterdir()] == ["data"]


@real
@pytest.mark.parametrize("method", ["focus-d", "masking-3"])
async def test_a_whole_task_under_a_method(small: Path, method: str) -> None:
    """The shell keeps its variables, so the chore is done although the agent's older steps are gone."""
    codes = iter([*(f"print('step {number} ' * 80)" for number in range(6)), LOGIN, ADD + PIN, END])
    model = FunctionModel(lambda _: Say(calls=[("run_python", {"code": next(codes)})]))
    factory = method_from(method, MethodSettings(budget=300, draft="offline"))
    bench = benchmark_from("appworld", Options(small, more={"python": ENGINE}))
    record = await Agent(model, factory).run(bench, Task(CHORE))
    assert (record.ended, record.score.success) == ("done", 1.0)
    assert any(step.event and step.event.happened for step in record.steps)
    assert record.steps[-1].input_tokens < record.steps[-1].history_tokens
    for step in record.steps:
        assert violations(record.sent(step), "chat_completions") == []


@real
async def test_what_the_agent_sees(small: Path) -> None:
    world = await AppWorld(Installation(small, Path(ENGINE)), seconds=15).start(Task(CHORE))
    run = runner(world)
    assert "Ada Winter" in world.system
    assert "lamp" in world.task
    assert "simple_note" in await run("print(apis.api_docs.show_app_descriptions())")
    assert "access_token" in await run(
        "print(apis.api_docs.show_api_doc(app_name='simple_note', api_name='search_notes'))"
    )
    assert await run("x = 2") == "Execution successful."
    assert await run("print(x, datetime.datetime.now())") == "2 2023-05-18 12:00:00\n"
    assert "NameError: name 'y' is not defined" in await run("print(y)")
    assert "Syntax error" in await run("print(")
    assert "401" in await run("apis.simple_note.search_notes(access_token='wrong')")
    assert "not allowed" in await run("open('/etc/passwd').read()")
    assert "KeyboardInterrupt" in await run("raise KeyboardInterrupt")
    assert "timed out after 15 seconds" in await run("while True: pass")
    assert await run("print(x)") == "2\n"
    assert not world.is_over()
    await run(LOGIN + ADD + PIN)
    assert "ended the program" in await run("import os\nos.abort()")
    assert world.is_over()
    score = await world.score()
    assert (score.success, score.details["completed"]) == (1.0, False)
    await world.close()
