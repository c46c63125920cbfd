"""Counting rules in live runs, on runs of the scripted agent."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench_helpers.benchmark_script import ROOT, load_script
from focusctx.errors import BenchError

TASKS = ("office-rules-13-0002", "office-rules-13-0005")
"""A rule in a note of its own, and one in passing."""


def _run(out: Path, method: str, *more: str, tasks: tuple[str, ...] = TASKS) -> str:
    command = [sys.executable, "-m", "focusctx", "bench", "run", "--benchmark", "office", "--seed", "13"]
    command += ["--methods", method, "--out", str(out), "--task", *tasks, *more]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return f"{method}={out}"


@pytest.fixture(scope="module")
def script():
    return load_script("live_rules.py")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    return [_run(base / method, method, "--set", "rules=true", "tasks=6") for method in ("none", "fifo")]


def test_whoever_sees_everything_is_shown_the_rule_and_keeps_it(script, folders):
    cases = {case.task: case for case in script.read_cases(folders[:1])}
    assert [cases[task].place for task in TASKS] == ["policy", "passing"]
    for case in cases.values():
        assert (case.outcome, case.done, case.read_again) == ("kept", True, 0)
        assert case.shown_at_end
        assert case.shown_when_needed
        assert case.value_when_needed


def test_a_rule_that_left_the_request_is_not_counted_as_shown(script, folders):
    policy, passing = sorted(script.read_cases(folders[1:]), key=lambda case: case.task)
    assert (policy.shown_at_end, policy.shown_when_needed, policy.value_when_needed) == (False, False, False)
    assert policy.outcome in ("broken", "not reached")
    assert passing.read_again > 0, "the passwords were needed again, and the rule stands beside them"


def test_the_table_has_a_row_for_each_arm_and_place(script, folders):
    lines = script.table(script.read_cases(folders)).splitlines()
    assert lines[2] == "| none | a note read first | 1 | 1 | 1 | 1 | 1 | 0 | 0 | 0 | 1 |"
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| none", "a note read first"],
        ["| none", "another note, in passing"],
        ["| fifo", "a note read first"],
        ["| fifo", "another note, in passing"],
    ]


def test_runs_without_a_rule_and_folders_without_a_name_are_refused(script, folders, tmp_path):
    plain = _run(tmp_path / "plain", "none", "--set", "tasks=6", tasks=("office-13-0002",))
    with pytest.raises(BenchError, match="office-13-0002 has no rule"):
        script.read_cases([plain])
    with pytest.raises(BenchError, match="NAME=FOLDER"):
        script.read_cases([folders[0].partition("=")[2]])
