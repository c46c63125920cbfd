"""`focusctx replay points` and `record`: on small logs, with no key and no network."""

from pathlib import Path

import pytest

from focusctx_bench.replay.judge import point_records
from focusctx_bench.replay.sketches import read_sketches
from replay.logs import SHOPPING, long_run, run_of, write


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "my-logs.jsonl", long_run(30, "a"), long_run(24, "b"), run_of(SHOPPING, "c"))


def test_sketches_are_recorded_and_played(focusctx, log, tmp_path):
    sketches = tmp_path / "sketches.jsonl"
    ask = ("replay", "record", log, "--draft", "offline", "--out", sketches, "--budget", 400, "--rollouts", 2)
    code, out, _ = focusctx(*ask)
    assert code == 0
    points = len(read_sketches(sketches))
    assert points == 5
    assert f"has {points} of {points}" in out
    assert "0 points sketched" in focusctx(*ask)[1]
    again = ("replay", "record", log, "--draft", "offline", "--at", sketches, "--every", 2)
    assert "3 points sketched" in focusctx(*again, "--out", tmp_path / "again.jsonl")[1]
    places = [one.key for one in read_sketches(sketches)]
    assert {one.key for one in read_sketches(tmp_path / "again.jsonl")} < set(places)
    play = (
        "replay",
        "points",
        log,
        "--sketches",
        sketches,
        "--methods",
        "focus-d",
        "oracle",
        "--jobs",
        1,
    )
    code, out, _ = focusctx(*play, "--rollouts", 2, "--out", tmp_path / "out")
    assert code == 0
    records = list(point_records(tmp_path / "out"))
    assert [record.draft for record in records if record.method == "focus-d"] == ["offline"] * points
    assert not any(record.failure for record in records)
    assert "Oracle" in out


def test_sketches_of_another_file_are_refused(focusctx, log, tmp_path):
    sketches = tmp_path / "sketches.jsonl"
    assert focusctx("replay", "record", log, "--draft", "offline", "--out", sketches, "--budget", 400)[0] == 0
    other = write(tmp_path / "other.jsonl", long_run(24, "b"))
    code, out, err = focusctx("replay", "points", other, "--sketches", sketches, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert "none of the 5 recorded points is of a run in other.jsonl; files there: my-logs.jsonl" in err


def test_points_of_a_log(focusctx, log, tmp_path):
    code, out, _ = focusctx("replay", "points", log, "--budget", 400, "--jobs", 1, "--out", tmp_path / "out")
    assert code == 0
    oracle = [record for record in point_records(tmp_path / "out") if record.method == "oracle"]
    assert len(oracle) == 5
    assert all(record.there == record.needed for record in oracle)
    assert "all there" in out


def test_a_file_of_sketches_that_is_not_there(focusctx, log, tmp_path):
    code, out, err = focusctx("replay", "points", log, "--sketches", "no.jsonl", "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert "make it with `focusctx replay record`" in err


@pytest.mark.parametrize("option", ["--every", "--at-once", "--sketch-tokens", "--rollouts"])
def test_what_cannot_be_none_at_all(focusctx, log, tmp_path, option):
    code, _, err = focusctx("replay", "record", log, "--draft", "offline", "--out", tmp_path / "out.jsonl", option, 0)
    assert code == 2
    assert f"{option} must be above 0, got 0" in err


def test_prices_are_asked_for_only_where_they_are_reckoned(focusctx, log):
    for command in (("points", log), ("agree", log, "--agent", "offline")):
        code, _, err = focusctx("replay", *command, "--model", "gpt-4.1")
        assert code == 2
        assert "unrecognized arguments: --model" in err
