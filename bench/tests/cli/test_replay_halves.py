"""`focusctx replay` over one half of the runs, with a target of its own."""

from pathlib import Path

import pytest

from focusctx.replay.record import run_records
from focusctx.replay.runs import half_of
from replay.logs import long_run, write

IDS = ("a", "b", "c", "d", "e", "f")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.jsonl", *(long_run(20, run) for run in IDS))


def test_halves_are_told_by_the_ids_alone():
    assert [half_of(run) for run in ("7#0", "13#0", "django__django-10914")] == ["tuning", "tuning", "reporting"]
    assert {half_of(run) for run in IDS} == {"tuning", "reporting"}


def test_the_halves_are_all_of_the_runs_and_reports_name_them(focusctx, log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for half in ("tuning", "reporting"):
        code, _, err = focusctx("replay", "run", log, "--half", half, "--budget", 400, "--methods", "none", "--jobs", 1)
        assert code == 0
        own = [run for run in IDS if half_of(run) == half]
        assert f"{half} half: {len(own)} of 6 runs" in err
        folder = tmp_path / "focusctx-replay" / f"log-{half}"
        assert sorted(record.run for record in run_records(folder)) == own
        assert focusctx("replay", "report", folder, "--format", "markdown")[0] == 0
        assert f"All runs are of the {half} half." in (folder / "report" / "report.md").read_text()
    assert focusctx("replay", "run", log, "--budget", 400, "--methods", "none", "--jobs", 1, "--out", "all")[0] == 0
    assert focusctx("replay", "report", "all", "--format", "markdown")[0] == 0
    assert (
        f"Of 6 runs {sum(half_of(run) == 'tuning' for run in IDS)} are of the tuning half."
        in (tmp_path / "all" / "report" / "report.md").read_text()
    )


def test_a_target_and_whole_steps(focusctx, log, tmp_path):
    out = tmp_path / "out"
    command = ("replay", "run", log, "--budget", 800, "--methods", "focus", "--jobs", 1, "--no-matched", "--out", out)
    left = {}
    for more in (("--target", 0.9), ("--target", 0.3), ("--target", 0, "--whole-steps")):
        assert focusctx(*command, *more, "--set", 'reads=["look"]')[0] == 0
        latest = list(run_records(out))[-len(IDS) :]
        settings = latest[0].settings
        left[settings["target"], settings["levels"]] = sum(
            step.sent_tokens for record in latest for step in record.steps
        )
    assert left.keys() == {(0.9, True), (0.3, True), (None, False)}
    assert left[0.3, True] < left[0.9, True]
