"""A draft that does not answer: said before anything is done, or counted, warned of and asked again."""

import socket

import pytest

from focusctx.replay.record import run_records
from focusctx_bench.job import BenchFolder
from focusctx_bench.replay.judge import point_records
from focusctx_bench.run import run_bench
from helpers.plan_server import PlanServer
from replay.logs import long_run, write

NOBODY = "openai:some-model@http://127.0.0.1:1/v1"


@pytest.fixture
def log(tmp_path):
    return write(tmp_path / "log.jsonl", long_run(20, "a"), long_run(24, "b"))


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr("focusctx.replay.job._PROBE_RETRIES", 0)


@pytest.mark.parametrize("command", ["run", "points", "record"])
def test_a_replay_does_not_begin(focusctx, log, tmp_path, command):
    options = ("--budget", 400, "--draft", NOBODY, "--out", tmp_path / "out")
    code, out, err = focusctx("replay", command, log, *options)
    assert (code, out) == (2, "")
    assert f"focusctx: {NOBODY}: no answer from 127.0.0.1:1: " in err
    assert not list(tmp_path.glob("out/*.jsonl"))
    assert not (tmp_path / "out").is_file()


def test_a_bench_does_not_begin(focusctx, tmp_path):
    command = ("bench", "run", "--benchmark", "office", "--tasks", 1, "--out", tmp_path / "run", "--draft", NOBODY)
    code, out, err = focusctx(*command, "--methods", "none", "focus-d")
    assert (code, out) == (2, "")
    assert f"focusctx: {NOBODY}: no answer from 127.0.0.1:1: " in err
    assert not list(BenchFolder(tmp_path / "run").records)
    assert focusctx(*command[:-1], "offline", "--methods", "none")[0] == 0, "the folder is free for another draft"
    code, _, err = focusctx(*command, "--methods", "none")
    assert (code, "holds a run with other settings" in err) == (2, True), "and now it is not"
    command = (*command[:-3], tmp_path / "other", "--draft", NOBODY)
    assert focusctx(*command, "--methods", "none")[0] == 0, "nobody needs to be asked"


def test_a_walk_without_answers_is_counted_and_walked_again(focusctx, log, tmp_path):
    folder = tmp_path / "out"
    options = ("--budget", 400, "--methods", "none", "focus-d", "--out", folder)
    with PlanServer(fails_after=2) as server:  # the first question, and the first event
        command = ("replay", "run", log, "--draft", server.draft, *options)
        code, out, err = focusctx(*command)
        assert code == 3
        failed = sum(record.failures for record in run_records(folder).latest().values())
        assert failed > 1
        assert f"warning: {failed} of {failed + 1} events failed: 0 of 3 sketches usable: 127.0.0.1" in err
        assert "the model is gone\n" in err
        assert f"a model gave no answer at {failed} events; run the same command again to retry\n" in err
        rows = out.splitlines()
        heads, focus = (next(row for row in rows if row.startswith(name)) for name in ("method", "FOCUS-D"))
        assert "failed" in heads.split()
        assert f" {failed} " in focus
        kept = {record.run for record in run_records(folder).latest().values() if record.unanswered}
        assert kept
        assert kept.isdisjoint(record.run for record in run_records(folder).latest().values() if "@" in record.method)

        server.fails_after = None
        assert focusctx(*command)[0] == 0
    records = list(run_records(folder).latest().values())
    assert len({record.key for record in records}) == len(records) == 2 * (2 + 3)
    assert not any(record.failures for record in records)
    code, _, err = focusctx(*command)
    assert (code, "failed" in err) == (0, False), "nobody needs to be asked for what is there"


def test_points_without_answers_are_judged_again(focusctx, log, tmp_path):
    folder = tmp_path / "out"
    options = ("--budget", 400, "--methods", "focus-d", "--out", folder)
    with PlanServer(fails_after=2) as server:
        command = ("replay", "points", log, "--draft", server.draft, *options)
        code, _, err = focusctx(*command)
        assert code == 3
        points = len(list(point_records(folder)))
        assert "events failed: 0 of 3 sketches usable" in err
        server.fails_after = None
        assert focusctx(*command)[0] == 0
        records = [record for record in point_records(folder).latest().values() if record.method == "focus-d"]
        assert not any(record.failure for record in records)
        assert len(list(point_records(folder))) > points, "comparators were waiting"
        asked = server.asked
        assert focusctx(*command)[0] == 0
        assert server.asked == asked


def test_sketches_that_are_no_plans_are_a_result(focusctx, log, tmp_path):
    with PlanServer("I feel fine, thank you.") as server:
        options = ("--budget", 400, "--methods", "focus-d", "--out", tmp_path / "out")
        command = ("replay", "run", log, "--draft", server.draft, *options)
        code, _, err = focusctx(*command)
        assert code == 0
        assert "events failed: 0 of 3 sketches usable: no line says what it depends on" in err
        asked = server.asked
        assert focusctx(*command)[0] == 0
        assert server.asked == asked


def test_a_summary_that_never_came_is_asked_for_again(focusctx, log, tmp_path):
    with PlanServer("What was done so far.", fails_after=1) as server:
        options = ("--budget", 400, "--methods", "prompting", "--out", tmp_path / "out")
        command = ("replay", "run", log, "--draft", "offline", "--compressor", server.draft, *options)
        code, _, err = focusctx(*command)
        assert code == 3
        assert "events failed: 127.0.0.1" in err
        server.fails_after = None
        assert focusctx(*command)[0] == 0
    assert [record.failures for record in run_records(tmp_path / "out").latest().values()] == [0, 0]


def test_a_task_whose_draft_goes_silent_is_run_again(focusctx, tmp_path, monkeypatch):
    monkeypatch.setitem(run_bench.__kwdefaults__, "waits", ())
    with PlanServer(fails_after=1) as server:
        command = ("bench", "run", "--benchmark", "office", "--tasks", 1, "--methods", "focus-d", "--budget", 1000)
        command = (*command, "--draft", server.draft, "--out", tmp_path / "run")
        code, _, err = focusctx(*command)
        assert code == 3
        assert "focus-d got no answer: 0 of 3 sketches usable: 127.0.0.1" in err
        assert not list(BenchFolder(tmp_path / "run").records)
        server.fails_after = None
        assert focusctx(*command)[0] == 0
    assert len(list(BenchFolder(tmp_path / "run").records)) == 1


def test_a_draft_that_hangs_is_given_the_deadline_and_named_with_the_option_that_changes_it(focusctx, log):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        draft = f"openai:some-model@http://127.0.0.1:{silent.getsockname()[1]}/v1"
        code, _, err = focusctx("compress", log, "--budget", 400, "--draft", draft, "--deadline", 0.3)
    assert code == 0
    assert f"no answer from {draft} within 0.3 s; `deadline` (--deadline) allows more" in err
