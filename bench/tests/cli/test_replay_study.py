"""`focusctx replay study` and `ablate`: on small logs, with no key and no network."""

import json
from pathlib import Path

import pytest

from focusctx_bench.replay.sketches import read_sketches
from replay.logs import long_run, write


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "logs.jsonl", *(long_run(14 + n, f"run {n}") for n in range(6)))


@pytest.fixture
def sketched(focusctx, log, tmp_path) -> Path:
    """The folder of a study of which only the first pass is done."""
    folder = tmp_path / "study"
    options = ("--draft", "offline", "--budget", 400, "--rollouts", 40, "--events", 5)
    code, _, err = focusctx("replay", "study", log, *options, "--only", "sketches", "--out", folder)
    assert code == 0
    assert "5/5" in err
    return folder


def test_the_passes_one_by_one(focusctx, log, sketched):
    recorded = read_sketches(sketched / "sketches.jsonl")
    assert [len(one.replies) for one in recorded] == [40] * 5
    assert not (sketched / "report.md").exists()
    code, out, _ = focusctx("replay", "study", log, "--only", "report", "--out", sketched)
    assert code == 0
    assert "5 events (5 of logs.jsonl), 40 sketches or more" in out
    assert "plans and rescues: does not settle by N = 30; worst-span error falls with slope -0." in out
    report = (sketched / "report.md").read_text()
    for title in ("How many sketches are enough", "Worst-span error", "Draft–agent coverage", "paper 0.92"):
        assert title in report
    assert {path.name for path in (sketched / "figures").glob("*.png")} == {
        f"study-{name}.png" for name in ("settling", "error", "spread", "coverage")
    }


def test_what_is_recorded_is_not_asked_again(focusctx, log, sketched):
    before = (sketched / "sketches.jsonl").read_bytes()
    options = ("--draft", "offline", "--budget", 400, "--rollouts", 40, "--events", 6)
    assert focusctx("replay", "study", log, *options, "--only", "sketches", "--out", sketched)[0] == 0
    after = (sketched / "sketches.jsonl").read_bytes()
    assert after.startswith(before)
    assert len(after.splitlines()) == 6


def test_recorded_sketches_bring_their_own_events(focusctx, log, sketched, tmp_path):
    few = tmp_path / "few.jsonl"
    lines = [json.loads(line) for line in (sketched / "sketches.jsonl").read_text().splitlines()[:2]]
    few.write_text("".join(json.dumps({**line, "replies": line["replies"][:3]}) + "\n" for line in lines))
    code, out, _ = focusctx("replay", "study", log, "--sketches", few, "--out", tmp_path / "report")
    assert code == 0
    assert "2 events" in out
    assert "settles" not in out
    report = (tmp_path / "report" / "report.md").read_text()
    assert "With fewer than 30 plans at each event neither can be told." in report


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--only", "sketches"), "this pass needs a --draft"),
        (("--draft", "offline", "--events", 0), "--events must be above 0, got 0"),
        (
            ("--draft", "offline", "--only", "likelihoods", "--budget", 400),
            "the probabilities of offline cannot be read",
        ),
        (("--draft", "offline", "--budget", 100_000), "a smaller --budget may help"),
        (("--only", "report"), "sketches.jsonl does not exist"),
    ],
)
def test_what_will_not_do(focusctx, log, tmp_path, options, complaint):
    code, _, err = focusctx("replay", "study", log, *options, "--out", tmp_path / "none")
    assert code == 2
    assert complaint in err


def test_settings_from_recorded_sketches(focusctx, log, sketched, tmp_path):
    sketches = sketched / "sketches.jsonl"
    code, out, err = focusctx(
        "replay", "ablate", "settings", log, "--sketches", sketches, "--jobs", 1, "--out", tmp_path / "ablations"
    )
    assert code == 0
    assert "5/5" in err
    assert "settings-front.png" in out
    report = (tmp_path / "ablations" / "report.md").read_text()
    for row in ("N = 10", "τ = 0.9", "FOCUS-O", "whole steps, target 0.5", "default: levels, target 0.5"):
        assert f"\n| {row} |" in report


def test_sketches_of_other_runs(focusctx, log, sketched, tmp_path):
    other = write(tmp_path / "other.jsonl", long_run(id="x"))
    code, _, err = focusctx("replay", "ablate", "settings", other, "--sketches", sketched / "sketches.jsonl")
    assert code == 2
    assert "none of the 5 recorded points is of a run in other.jsonl; files there: logs.jsonl" in err


def test_budgets_from_replays(focusctx, log, tmp_path):
    folder, out = tmp_path / "walks", tmp_path / "ablations"
    run = ("replay", "run", log, "--methods", "focus-d", "--no-matched", "--jobs", 1, "--out", folder)
    assert focusctx(*run, "--budget", 400)[0] == 0
    code, _, err = focusctx("replay", "ablate", "budgets", folder, "--out", out)
    assert code == 2
    assert "at several budgets" in err
    assert focusctx(*run, "--budget", 600)[0] == 0
    assert focusctx("replay", "ablate", "budgets", folder, "--out", out)[0] == 0
    report = (out / "report.md").read_text()
    assert "| focus-d, offline, δ = 400 |" in report
    assert "| focus-d, offline, δ = 600 |" in report


def test_ways_to_sample(focusctx, log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ("--draft", "offline", "--budget", 400, "--events", 2)
    code, out, _ = focusctx("replay", "ablate", "rollouts", log, *options)
    assert code == 0
    assert "focusctx-ablations/rollouts/report.md" in out
    assert len((tmp_path / "focusctx-ablations" / "rollouts" / "rollouts.jsonl").read_text().splitlines()) == 6


def test_ablate_alone_shows_its_help(focusctx):
    code, _, err = focusctx("replay", "ablate")
    assert code == 2
    assert "settings" in err
