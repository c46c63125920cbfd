"""Reading logs as people keep them, and the budget that fits them."""

import json
from pathlib import Path

import pytest

from focusctx.errors import BenchError
from focusctx.replay.runs import budgets_for, read_runs
from replay.logs import SHOPPING, long_run, run_of

ANTHROPIC = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}]},
]
RESPONSES = [
    {"type": "message", "role": "user", "content": "go"},
    {"type": "message", "role": "assistant", "content": ""},
]


def test_every_shape_of_a_line(tmp_path: Path) -> None:
    lines = [
        SHOPPING,
        {"id": "a", "messages": SHOPPING, "more": 1},
        {"id": 7, "messages": ANTHROPIC},
        {"input": RESPONSES},
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n\n".join(json.dumps(line) for line in lines))
    runs = read_runs([path])
    assert [run.id for run in runs] == ["line 1", "a", "7", "line 7"]
    assert [run.format for run in runs] == ["chat_completions", "chat_completions", "anthropic", "responses"]
    assert list(runs[0].messages) == SHOPPING
    assert {run.file for run in runs} == {"log.jsonl"}
    assert [run.id for run in read_runs([path], limit=2)] == ["line 1", "a"]


def test_ids_are_made_unique(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(2 * (json.dumps({"id": "a", "messages": SHOPPING}) + "\n"))
    assert [run.id for run in read_runs([tmp_path])] == ["a", "a (line 2)"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not a run"),
        ('{"text": 1}', "not a list of messages"),
        ('"hello"', "not a list of messages"),
        ("[1]", "not a list of messages"),
        ('[{"role": 5, "content": "x"}]', "'role' must be a str, got int"),
    ],
)
def test_a_line_that_is_no_run_is_named(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "log.jsonl").write_text(f"{json.dumps(SHOPPING)}\n{line}\n")
    with pytest.raises(BenchError, match=f"line 2 is not a run: .*{said}|line 2 {said}"):
        read_runs([tmp_path / "log.jsonl"])


def test_files_that_will_not_do(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="there is no such file"):
        read_runs([tmp_path / "no.jsonl"])
    with pytest.raises(BenchError, match=r"no \.jsonl file in"):
        read_runs([tmp_path])
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "log.jsonl").write_text("[]\n")
    with pytest.raises(BenchError, match=r"two files are named log\.jsonl"):
        read_runs([tmp_path / "a", tmp_path / "b"])


def test_short_dialogues_have_a_smaller_budget() -> None:
    dialogue = run_of(SHOPPING, file="talk.jsonl")
    assert budgets_for([dialogue, long_run()]) == {"talk.jsonl": 1024, "log.jsonl": 4096}
    assert budgets_for([dialogue], 77) == {"talk.jsonl": 77}
    long_talk = run_of([*long_run(200).messages, {"role": "user", "content": "and?"}, *SHOPPING[-2:]])
    assert budgets_for([long_talk]) == {"log.jsonl": 4096}


def test_the_folder_of_a_bench_run_is_read_by_its_records(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (run := tmp_path / name).mkdir()
        (run / "run.json").write_text("{}")
        (run / "attempts.jsonl").write_text('{"benchmark": "office", "task": "t1"}\n')
        record = {"task": "t1", "variant": "focus-d budget=1", "messages": [{"role": "user", "content": "go"}]}
        (run / "records.jsonl").write_text(json.dumps(record) + "\n")
    for path in (tmp_path / "one", tmp_path / "one" / "records", tmp_path / "one" / "records.jsonl"):
        (found,) = read_runs([path])
        assert (found.file, found.id) == ("one-records.jsonl", "t1, focus-d budget=1")
    assert len(read_runs([tmp_path / "one", tmp_path / "two"])) == 2
