"""Pages of the docs that use focusctx-bench: their Python runs, with a scripted model and short runs."""

from pathlib import Path

import pytest

from bench_helpers.made import a_record
from focusctx_bench.benchmarks.office import Office
from focusctx_bench.job import BenchFolder
from helpers.pages import PAGES, ROOT, needs_bench, run_blocks
from office.runs import full_run


@pytest.fixture(autouse=True)
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder of the reader's own."""
    monkeypatch.chdir(tmp_path)


def test_every_page_that_needs_the_bench_is_run_here() -> None:
    assert {page.stem for page in PAGES if needs_bench(page)} == {"bench", "office"}


def test_the_page_about_the_bench(capsys: pytest.CaptureFixture[str]) -> None:
    BenchFolder(Path("runs/mine")).records.add(a_record("one"), a_record("two"))
    run_blocks(ROOT / "docs" / "bench.md")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["one", "two"]


def test_the_page_about_the_office(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Office, "tasks", lambda office: [office.task(number) for number in range(2)])
    run_blocks(ROOT / "docs" / "office.md", record=full_run(0))
    assert "accuracy" in capsys.readouterr().out
