"""OfficeBench: a small office of our own in the real sandbox; and with a checkout, its own tasks and evaluators.

The latter need FOCUSCTX_OFFICEBENCH (a checkout) and, unless it has a .venv, FOCUSCTX_OFFICEBENCH_PYTHON.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench_helpers import officebench_key, small_office
from bench_helpers.ledger import Untouched
from focusctx.baselines.registry import MethodSettings, method_from
from focusctx.errors import BenchError, ConfigError
from focusctx.invariants import violations
from focusctx_bench.agent import Agent
from focusctx_bench.benchmarks import benchmark_from
from focusctx_bench.benchmarks.officebench import Checkout, OfficeBench, OfficeBenchTask, Sandbox, actions_of, benchmark
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import Options, Task, ToolCall


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not works(program), reason=f"{program} is not installed, or not allowed here")


@cache
def works(program: str) -> bool:
    """True if the program is there; a sandbox also has to start, which containers may forbid."""
    trial = {"bwrap": ["--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "true"], "proot": ["true"]}
    if shutil.which(program) is None or program not in trial:
        return shutil.which(program) is not None
    return subprocess.run([program, *trial[program]], capture_output=True, check=False).returncode == 0


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("FOCUSCTX_OFFICEBENCH", "FOCUSCTX_OFFICEBENCH_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    return small_office.make(tmp_path / "OfficeBench")


def options(data: Path | None, split: str = "", **more: str) -> Options:
    return Options(data, split, more={"python": sys.executable, **more})


# What is missing.


def test_no_checkout(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError, match=r"git clone https://github.com/zlwang-cs/OfficeBench.*FOCUSCTX_OFFICEBENCH"):
        benchmark_from("officebench", options(None))
    with pytest.raises(BenchError, match=r"is not a checkout of OfficeBench \(apps/__init__\.py is missing\)"):
        benchmark_from("officebench", options(tmp_path))
    monkeypatch.setenv("FOCUSCTX_OFFICEBENCH", str(checkout))
    with pytest.raises(ConfigError, match="unknown setting 'domain'"):
        benchmark_from("officebench", options(None, domain="retail"))
    with pytest.raises(ConfigError, match="no sandbox 'none'"):
        benchmark_from("officebench", options(None, sandbox="none"))


def test_no_sandbox(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchError, match="apt-get install bubblewrap"):
        benchmark_from("officebench", options(checkout))


@needs("bwrap")
def test_no_interpreter(checkout: Path) -> None:
    with pytest.raises(BenchError, match=r"no interpreter at .*/OfficeBench/\.venv/bin/python"):
        benchmark_from("officebench", options(checkout, python=""))


@needs("bwrap")
def test_the_splits(checkout: Path, tmp_path: Path) -> None:
    def listed(split: str, **more: str) -> list[tuple[str, str]]:
        return [(task.id, task.difficulty) for task in benchmark(options(checkout, split, **more)).tasks()]

    assert listed("") == listed("all") == [("1-2-0", "1 app"), ("1-10-0", "1 app"), ("3-1-0", "3 apps")]
    assert listed("1") == [("1-2-0", "1 app"), ("1-10-0", "1 app")]
    with pytest.raises(ConfigError, match=r"no split 'test'.*splits=FILE"):
        listed("test")
    (tmp_path / "splits.json").write_text(json.dumps({"test": ["3-1-0"], "odd": ["9-9-9"]}))
    assert listed("test", splits=str(tmp_path / "splits.json")) == [("3-1-0", "3 apps")]
    with pytest.raises(ConfigError, match="no task '9-9-9'"):
        listed("odd", splits=str(tmp_path / "splits.json"))
    with pytest.raises(ConfigError, match="no list of tasks for the split 'dev'"):
        listed("dev", splits=str(tmp_path / "splits.json"))


def test_tools_are_read_off_the_examples() -> None:
    demo = "write a cell: {'app': 'excel', 'action': 'set_cell', 'file_path': [THE_PATH], 'row_idx': [THE_ROW_INDEX]"
    action = actions_of("excel", {"actions": {"set_cell": {"demo": demo, "file": "set_cell.py"}}})["excel_set_cell"]
    function = action.definition()["function"]
    assert (function["name"], function["description"]) == ("excel_set_cell", "write a cell")
    properties = function["parameters"]["properties"]
    assert {name: told["type"] for name, told in properties.items()} == {"file_path": "string", "row_idx": "integer"}
    assert function["parameters"]["required"] == ["file_path", "row_idx"]


# The small office, in each sandbox.

SANDBOXES = [pytest.param("bwrap", marks=needs("bwrap")), pytest.param("proot", marks=needs("proot"))]


@pytest.fixture(params=SANDBOXES)
def small(request: pytest.FixtureRequest, checkout: Path) -> OfficeBench:
    return benchmark(options(checkout, sandbox=request.param))


@asynccontextmanager
async def started(bench: OfficeBench, task: str) -> AsyncIterator[tuple[OfficeBenchTask, Callable[..., Any]]]:
    office = await bench.start(Task(task))

    async def do(tool: str, **arguments: Any) -> str:
        return await office.act(ToolCall("call_1", tool, arguments))

    try:
        yield office, do
    finally:
        await office.close()


async def test_a_task_from_beginning_to_end(small: OfficeBench) -> None:
    async with started(small, "1-10-0") as (office, do):
        assert "Bob" in office.system
        assert "- notes: an app for notes" in office.system
        assert [tool["function"]["name"] for tool in office.tools] == ["switch_app", "finish_task"]
        assert await do("switch_app", target_app="notes") == "Switched to notes. Its tools: notes_write."
        assert office.tools[0]["function"]["name"] == "notes_write"
        assert await do("notes_write", name="note.txt", line_idx=1, text="milk") == "wrote note.txt"
        assert not office.is_over()
        assert "finish_task" in str(await office.hear("I am done."))
        assert await do("finish_task", answer='it\'s "done"') == "The task is finished."
        assert office.is_over()
        score = await office.score()
        assert (score.success, score.details) == (1.0, {"checks": 4, "failed_checks": 0, "failed": []})


async def test_what_is_not_done_and_what_raises_are_failed_checks(small: OfficeBench) -> None:
    async with started(small, "1-10-0") as (office, do):
        await do("switch_app", target_app="shell")
        await do("shell_command", command="echo tea > /testbed/data/note.txt; rm /testbed/data/given.txt")
        score = await office.score()
    failed = [(check["check"], "error" in check) for check in score.details["failed"]]
    assert failed == [("evaluate_contain", False), ("evaluate_same", True), ("evaluate_same", False)]
    assert score.success == 0.0


async def test_mistakes_are_observations(small: OfficeBench) -> None:
    async with started(small, "1-2-0") as (_, do):
        assert await do("switch_app", target_app="llm") == "Error: there is no app 'llm'. Apps: notes, shell."
        await do("switch_app", target_app="notes")
        assert "KeyError('text')" in await do("notes_write", name="x")
        assert "unexpected EOF" in await do("notes_write", name="x", text="it's")  # as OfficeBench quotes
        await do("switch_app", target_app="shell")
        assert await do("shell_command", command="false") == "Nothing was printed; exit status 1."
        assert "No closing quotation" in await do("shell_command", command='echo "')
        assert "too long" in await do("shell_command", command=f"echo {'x' * 200_000}")
        assert "null byte" in await do("shell_command", command="echo \0")


async def test_the_shell_stays_where_it_went(small: OfficeBench) -> None:
    async with started(small, "1-2-0") as (_, do):
        await do("switch_app", target_app="shell")
        assert await do("shell_command", command="pwd") == "/"
        assert await do("shell_command", command="cd testbed/nowhere; pwd") != "/testbed/nowhere"
        await do("shell_command", command="cd testbed/data")
        await do("shell_command", command="cd ../nowhere")
        assert await do("shell_command", command="pwd; ls") == "/testbed/data\ngiven.txt"
        await do("shell_command", command="rm -r /testbed/data")
        assert await do("shell_command", command="pwd") == "/"


async def test_an_answer_that_cannot_be_written_is_asked_for_again(small: OfficeBench) -> None:
    async with started(small, "1-2-0") as (office, do):
        await do("switch_app", target_app="shell")
        await do("shell_command", command="rm -r /testbed/data; touch /testbed/data")
        assert (await do("finish_task")).startswith("Error: no answer can be written")
        assert not office.is_over()
        await do("shell_command", command="rm /testbed/data")
        await do("finish_task")
        assert office.is_over()


async def test_a_command_that_does_not_end(small: OfficeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("focusctx_bench.benchmarks.officebench._SECONDS", 0.5)
    async with started(small, "1-2-0") as (_, do):
        await do("switch_app", target_app="shell")
        stopped = "Error: not finished after 0.5 seconds, stopped."
        assert await do("shell_command", command="sleep 100 & sleep 100") == stopped
        assert await do("shell_command", command="setsid sleep 5 & sleep 100") == stopped  # one gets away
        assert await do("shell_command", command="echo on") == "on"


async def test_several_tasks_at_once_have_a_folder_each(small: OfficeBench) -> None:
    async def play(text: str) -> float:
        async with started(small, "1-10-0") as (office, do):
            await do("switch_app", target_app="notes")
            await do("notes_write", name="note.txt", text=text)
            await do("finish_task")
            return (await office.score()).success

    assert await asyncio.gather(*(play(text) for text in ("milk", "tea", "milk", "tea"))) == [1.0, 0.0, 1.0, 0.0]


async def test_an_interpreter_without_what_the_apps_need(small: OfficeBench, checkout: Path) -> None:
    (checkout / "apps/__init__.py").write_text("import no_such_module")
    with pytest.raises(BenchError, match=r"lacks what OfficeBench needs: No module named 'no_such_module'"):
        await small.start(Task("1-2-0"))


async def test_a_task_that_is_none(small: OfficeBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    with pytest.raises(BenchError, match="'nonsense' is not a task of OfficeBench"):
        await small.start(Task("nonsense"))
    assert list((tmp_path / "tmp").iterdir()) == []


async def test_nothing_is_left_behind(small: OfficeBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    async with started(small, "1-2-0") as (office, do):
        assert len(list((tmp_path / "tmp").iterdir())) == 1
        await do("finish_task")
        await office.score()
    assert list((tmp_path / "tmp").iterdir()) == []


async def test_the_llm_app_asks_the_model_that_is_named(checkout: Path) -> None:
    made = options(checkout, sandbox="bwrap" if works("bwrap") else "proot")
    if not works(made.more["sandbox"]):
        pytest.skip("neither bwrap nor proot works here")
    files = Checkout.of(made)
    model = FunctionModel(lambda messages: Say(messages[0]["content"] * 2))
    bench = OfficeBench(files, Sandbox.of(made, files), llm=model)
    async with started(bench, "1-2-0") as (_, do):
        await do("switch_app", target_app="llm")
        assert await do("llm_complete_text", prompt="ho") == "hoho"


# What bubblewrap shuts in.


@needs("bwrap")
async def test_the_agent_is_shut_in(checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with started(benchmark(options(checkout)), "1-2-0") as (_, do):
        await do("switch_app", target_app="shell")
        assert "sk-secret" not in await do("shell_command", command="env")
        assert "Read-only" in await do("shell_command", command="touch /usr/x")
        assert "Read-only" in await do("shell_command", command="touch /apps/x")
        assert "No such file" in await do("shell_command", command=f"ls {tmp_path}")
        assert "No such file" in await do("shell_command", command="ls /task /utils /reference")
        assert await do("shell_command", command="grep -v lo: /proc/net/dev | tail -n +3 | wc -l") == "0"  # no network


@needs("bwrap")
async def test_no_program_outlives_its_task(checkout: Path) -> None:
    async with started(benchmark(options(checkout)), "1-2-0") as (_, do):
        await do("switch_app", target_app="shell")
        await do("shell_command", command="setsid sleep 4711 > /dev/null 2>&1 &")
        assert "sleep 4711" in await do("shell_command", command="cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x004711" in read(path)]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has just ended
        return b""


@needs("bwrap")
async def test_an_agent_that_ends_everything_goes_on(checkout: Path) -> None:
    async with started(benchmark(options(checkout)), "1-10-0") as (office, do):
        await do("switch_app", target_app="shell")
        assert "started again" in await do("shell_command", command="kill -9 -1")
        await do("switch_app", target_app="notes")
        assert await do("notes_write", name="note.txt", text="milk") == "wrote note.txt"
        assert (await office.score()).success == 1.0


def test_a_machine_that_forbids_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sandbox = Sandbox("bwrap", sys.executable, (Path(sys.prefix),))
    with pytest.raises(BenchError, match=r"does not work on this machine.*sandbox=proot.*Permission denied"):
        sandbox.command(["true"], tmp_path, {}, {})


# The real thing.

ROOT = Path(os.environ.get("FOCUSCTX_OFFICEBENCH", ""))
real = pytest.mark.skipif(Path() == ROOT, reason="FOCUSCTX_OFFICEBENCH names no checkout of OfficeBench")

UNPASSABLE = {"1-14-2", "2-48-0", "3-8-0", "3-29-0", "3-30-0", "3-32-0", "3-62-0", "3-82-0"}
"""No agent passes these, docs/bench.md says why."""

SAMPLE = ["1-1-0", "1-7-1", "1-14-0", "2-10-0", "2-20-0", "2-33-1", "3-12-2", "3-39-0", "3-41-0", "3-71-0"]


def real_bench() -> OfficeBench:
    return benchmark(Options(ROOT))


def key_of(task: str) -> FunctionModel:
    return officebench_key.model(ROOT, task, Sandbox.of(Options(ROOT), Checkout.of(Options(ROOT))).python)


async def with_the_key(bench: OfficeBench, task: Task) -> float:
    record = await Agent(key_of(task.id), Untouched, step_limit=200).run(bench, task)
    assert record.ended == "done"
    return record.score.success


@real
def test_three_hundred_tasks() -> None:
    tasks = real_bench().tasks()
    counts = [sum(task.difficulty == name for task in tasks) for name in ("1 app", "2 apps", "3 apps")]
    assert (len(tasks), counts) == (300, [93, 95, 112])


@real
@needs("libreoffice")
@pytest.mark.parametrize("name", SAMPLE)
async def test_what_the_evaluators_want_passes_them(name: str) -> None:
    assert await with_the_key(real_bench(), Task(name)) == 1.0


@real
@pytest.mark.parametrize("method", ["focus-d", "fifo"])
@pytest.mark.parametrize("name", ["1-14-0", "2-13-0", "3-49-0"])
async def test_tasks_with_one_two_and_three_apps_under_a_method(name: str, method: str) -> None:
    factory = method_from(method, MethodSettings(budget=200, draft="offline"))
    record = await Agent(key_of(name), factory).run(real_bench(), Task(name))
    assert (record.ended, record.score.success) == ("done", 1.0)
    assert any(step.event and step.event.happened for step in record.steps)
    assert record.steps[-1].input_tokens < record.steps[-1].history_tokens
    for step in record.steps:
        assert violations(record.sent(step), "chat_completions") == []


@real
@pytest.mark.parametrize("name", SAMPLE)
async def test_an_agent_that_does_nothing_fails(name: str) -> None:
    idle = FunctionModel(lambda _: Say(calls=[("finish_task", {})]))
    record = await Agent(idle, Untouched).run(real_bench(), Task(name))
    assert (record.score.success, record.ended) == (0.0, "done")


@real
@needs("libreoffice")
@pytest.mark.slow
async def test_all_tasks_but_the_unpassable_pass() -> None:
    bench = real_bench()
    one_at_a_time = asyncio.Semaphore(2)

    async def play(task: Task) -> tuple[str, float]:
        async with one_at_a_time:
            return task.id, await with_the_key(bench, task)

    scores = dict(await asyncio.gather(*map(play, bench.tasks())))
    assert {name for name, score in scores.items() if score < 1.0} == UNPASSABLE


@real
@needs("tesseract")
async def test_images_are_read() -> None:
    async with started(real_bench(), "2-1-0") as (_, do):
        await do("switch_app", target_app="ocr")
        said = await do("ocr_recognize_file", file_path="/testbed/data/meeting_notification.jpg")
        assert "meeting" in said.lower()


@real
@needs("libreoffice")
async def test_a_sheet_becomes_a_pdf_and_is_read_again() -> None:
    async with started(real_bench(), "3-1-0") as (_, do):
        await do("switch_app", target_app="excel")
        said = await do(
            "excel_convert_to_pdf", excel_file_path="/testbed/data/task.xlsx", pdf_file_path="/testbed/data/task.pdf"
        )
        assert said.startswith("Successfully convert")
        await do("switch_app", target_app="pdf")
        assert "Activity 12" in await do("pdf_read_file", pdf_file_path="/testbed/data/task.pdf")
