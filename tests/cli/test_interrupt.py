"""Ctrl-C while a replay is at work: it ends at once and says how to go on, and what is written is whole."""

from pathlib import Path

import pytest

from focusctx.replay.record import run_records
from helpers.interrupted import ANSWERED, Server, busy, has_lines, interrupted, log

__all__ = ["busy", "log"]


@pytest.mark.parametrize("group", [True, False])
def test_worker_processes_end_too(log: Path, tmp_path: Path, group: bool) -> None:
    out = tmp_path / "out"
    options = ["--budget", "400", "--methods", "none", "focus", "--jobs", "2", "--out", str(out)]
    interrupted(["replay", "run", str(log), *options], lambda: has_lines(out / "runs.jsonl", 2), group=group)
    records = list(run_records(out))
    assert 2 <= len(records) < 2 * 40
    assert {record.method for record in records} == {"none", "focus"}, "a unit's records come together"


def test_runs_that_wait_for_a_model(log: Path, tmp_path: Path, busy: Server) -> None:
    draft = f"openai:some-model@http://127.0.0.1:{busy.server_address[1]}/v1"
    options = ["--budget", "400", "--methods", "focus-d", "--draft", draft, "--out", str(tmp_path / "out")]
    interrupted(["replay", "run", str(log), *options], lambda: busy.asked > 1 + ANSWERED, group=True)
    assert list(run_records(tmp_path / "out")) == []
