"""Records: what is written is what is read, and nothing half-written is ever seen."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings

from focusctx.errors import BenchError
from focusctx_bench.record import Record, file_name, read_record, read_records, write_record
from made import a_record, records


@given(records())
@settings(max_examples=50, deadline=None)
def test_written_and_read_again(tmp_path_factory: pytest.TempPathFactory, record: Record) -> None:
    path = tmp_path_factory.mktemp("records") / "deep" / file_name(record.task)
    write_record(path, record)
    assert read_record(path) == record
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@given(records())
@settings(max_examples=10, deadline=None)
def test_a_file_holds_every_message_once(tmp_path_factory: pytest.TempPathFactory, record: Record) -> None:
    path = tmp_path_factory.mktemp("records") / "one.json"
    write_record(path, record)
    assert len(json.loads(path.read_text())["messages"]) == len(record.messages)


@pytest.mark.parametrize("task", ["ff58e36_1", "a/b", "../up", "retail 7", "ünï: 100 %", ".", "CON|*?"])
def test_any_task_id_makes_a_file_name(task: str) -> None:
    name = file_name(task)
    assert "/" not in name
    assert Path(name).name == name
    assert name != file_name(task + "x")


def test_records_are_read_one_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "bad.json").write_text("{")
    record = a_record()
    write_record(tmp_path / "a" / "good.json", record)
    found = read_records(tmp_path)
    assert next(found) == record
    with pytest.raises(BenchError, match=r"bad\.json is no record"):
        next(found)


def test_a_record_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"version": 0}')
    with pytest.raises(BenchError, match="version 0, this program reads 1"):
        read_record(tmp_path / "old.json")


def test_killed_while_writing(tmp_path: Path) -> None:
    """The process is gone before the last byte: the record that was there before is still there, whole."""
    path = tmp_path / "task.json"
    first = a_record()
    write_record(path, first)
    program = f"""
        import os, pathlib
        from focusctx_bench import record
        whole = record.read_record(pathlib.Path({str(path)!r}))
        os.fsync = lambda _: os._exit(9)
        record.write_record(pathlib.Path({str(path)!r}), whole.with_settings({{"second": True}}))
    """
    code = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False).returncode
    assert code == 9
    assert read_record(path) == first
    assert list(read_records(tmp_path)) == [first]
