"""Records: what is written is what is read, and nothing half-written is ever seen."""

import json
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from bench_helpers.made import a_record, records
from focusctx.errors import BenchError
from focusctx_bench.job import BenchFolder
from focusctx_bench.record import Record
from helpers.thorough import examples


@given(records())
@settings(max_examples=examples(50), deadline=None)
def test_written_and_read_again(tmp_path_factory: pytest.TempPathFactory, record: Record) -> None:
    folder = tmp_path_factory.mktemp("records") / "deep"
    BenchFolder(folder).records.add(record)
    assert list(BenchFolder(folder).records) == [record]
    line, _ = (folder / "records.jsonl").read_text("utf-8").split("\n")
    assert len(json.loads(line)["messages"]) == len(record.messages), "every message once"


def test_records_are_read_one_at_a_time(tmp_path: Path) -> None:
    record = a_record()
    BenchFolder(tmp_path).records.add(record)
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write("{}\n")
    found = iter(BenchFolder(tmp_path).records)
    assert next(found) == record
    with pytest.raises(BenchError, match="version None, this program reads"):
        next(found)


def test_killed_while_writing(tmp_path: Path) -> None:
    """The process is gone before the last byte is on disk: the record that was there before is still there, whole."""
    first = a_record()
    BenchFolder(tmp_path).records.add(first)
    program = f"""
        import os, pathlib
        from dataclasses import replace
        from focusctx_bench.job import BenchFolder
        records = BenchFolder(pathlib.Path({str(tmp_path)!r})).records
        os.fsync = lambda descriptor: (os.ftruncate(descriptor, os.fstat(descriptor).st_size - 30), os._exit(9))
        records.add(replace(next(iter(records)), task="second"))
    """
    code = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False).returncode
    assert code == 9
    assert list(BenchFolder(tmp_path).records) == [first]
    third = replace(first, task="third")
    BenchFolder(tmp_path).records.add(third)
    assert list(BenchFolder(tmp_path).records) == [first, third]
