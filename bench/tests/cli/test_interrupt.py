"""Ctrl-C while sketches are recorded: it ends at once, and what came is kept."""

from pathlib import Path

from focusctx_bench.replay.sketches import read_sketches
from helpers.interrupted import ANSWERED, PLAN, Server, busy, has_lines, interrupted, log

__all__ = ["busy", "log"]


def test_sketches_that_came_are_kept(log: Path, tmp_path: Path, busy: Server) -> None:
    path = tmp_path / "sketches.jsonl"
    draft = f"openai:some-model@http://127.0.0.1:{busy.server_address[1]}/v1"
    options = ["--budget", "400", "--draft", draft, "--out", str(path)]
    interrupted(["replay", "record", str(log), *options], lambda: has_lines(path, ANSWERED), group=True)
    assert [one.replies for one in read_sketches(path)] == [(PLAN,) * 3] * ANSWERED
