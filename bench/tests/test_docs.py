"""Pages of the docs that use focusctx-bench: their Python runs, with a scripted model and short runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench_helpers.made import a_record
from focusctx_bench.benchmarks.office.environment import Office
from focusctx_bench.folder import BenchFolder
from helpers.histories import step
from helpers.pages import PAGES, ROOT, needs_bench, run_blocks
from helpers.plan_server import PlanServer
from office.runs import full_run


@pytest.fixture(autouse=True)
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder of the reader's own."""
    monkeypatch.chdir(tmp_path)


def test_every_page_that_needs_the_bench_is_run_here() -> None:
    assert {page.stem for page in PAGES if needs_bench(page)} == {"baselines", "bench", "office"}


def test_the_page_about_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    messages = [message for number in range(1, 31) for message in step(number, "words " * 50)]
    lost, won = a_record("a task", 0.0), a_record("a task", 1.0)
    BenchFolder(Path("runs/start")).records.add(replace(won, method="none"), replace(lost, method="acon-ut"))
    BenchFolder(Path("runs/ut")).records.add(replace(won, method="acon-ut"))
    with PlanServer("<guideline>Keep ids.</guideline>") as server:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}/v1")
        run_blocks(ROOT / "docs" / "baselines.md", messages=messages, send=sent.extend)
    assert len(sent) == len(messages)
    assert sent != messages
    assert Path("ut.md").read_text() == Path("utco.md").read_text() == "Keep ids."
    assert server.asked == 4


def test_the_page_about_the_bench(capsys: pytest.CaptureFixture[str]) -> None:
    BenchFolder(Path("runs/mine")).records.add(a_record("one"), a_record("two"))
    run_blocks(ROOT / "docs" / "bench.md")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["one", "two"]


def test_the_page_about_the_office(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Office, "tasks", lambda office: [office.task(number) for number in range(2)])
    run_blocks(ROOT / "docs" / "office.md", record=full_run(0))
    assert "accuracy" in capsys.readouterr().out
