"""Files of records: what is written is what is read, half a line costs no other, packed files are only read."""

import gzip
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.errors import BenchError
from focusctx.jobs.records import PlainRecord, RecordFile


@dataclass(frozen=True)
class Note(PlainRecord):
    id: int
    text: str

    @property
    def key(self) -> tuple[int]:
        return (self.id,)


def notes(path: Path) -> RecordFile[Note]:
    return RecordFile(path, Note.from_json)


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=20), min_size=1))
@settings(max_examples=60)
def test_written_and_read_again(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    """Texts a model may write: line ends, other separators, lone surrogates."""
    file = notes(tmp_path_factory.mktemp("notes") / "deep" / "notes.jsonl")
    made = [Note(number, text) for number, text in enumerate(texts)]
    file.add(*made[:1])
    file.add(*made[1:])
    assert list(file) == made


@given(st.integers(1, 60))
@settings(max_examples=60)
def test_cut_anywhere_only_the_last_record_is_lost(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    file = notes(tmp_path_factory.mktemp("notes") / "notes.jsonl")
    file.add(Note(1, "one"), Note(2, "a text that is long enough to be cut at many places"))
    file.path.write_bytes(file.path.read_bytes()[:-cut])
    left = list(file)
    assert left[0] == Note(1, "one")
    assert len(left) == (2 if cut == 1 else 1), "without its line end, the record is whole"
    file.add(Note(3, "three"))
    assert list(file) == [*left, Note(3, "three")]


def test_of_records_made_again_the_last_one_counts(tmp_path: Path) -> None:
    file = notes(tmp_path / "notes.jsonl")
    file.add(Note(1, "failed"), Note(2, "fine"))
    file.add(Note(1, "fine, too"))
    assert file.latest() == {(1,): Note(1, "fine, too"), (2,): Note(2, "fine")}


def test_a_missing_file_holds_no_record(tmp_path: Path) -> None:
    assert list(notes(tmp_path / "none.jsonl")) == []


def test_a_line_of_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"id": 1, "text": "fine"}\n{"thing": 1}\n')
    with pytest.raises(BenchError, match=r"notes\.jsonl line 2 is not a record of this command"):
        list(notes(path))


def test_a_packed_file_is_read_and_not_added_to(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    notes(path).add(Note(1, "é"))
    packed = path.with_name("notes.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    before = packed.read_bytes()
    for name in (path, packed):
        assert list(notes(name)) == [Note(1, "é")]
        with pytest.raises(BenchError, match="gunzip"):
            notes(name).add(Note(2, "more"))
    assert packed.read_bytes() == before
    path.touch()
    assert list(notes(path)) == [], "the plain file counts where there is one"
