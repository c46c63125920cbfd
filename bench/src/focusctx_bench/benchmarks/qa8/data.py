"""Questions, groups of them, and passages, from JSON lines as data sets write them."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from focusctx.errors import BenchError, ConfigError

SIZE = 8
SPLITS = ("test", "train", "all")


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    answers: tuple[str, ...]
    """Each of them is right."""
    split: str = ""
    """The split that the file names; "" if it names none."""
    pages: tuple[str, ...] = ()
    """Titles of the question's own passages (`ctxs`) that hold an answer."""

    @property
    def part(self) -> str:
        """The split: the file's, else by the question's words, so that no seed moves a question to the other one."""
        return self.split or ("train" if crc32(self.text.encode()) % 2 else "test")


@dataclass(frozen=True, slots=True)
class Passage:
    title: str
    text: str


Group = tuple[Question, ...]


def questions_from(data: Path) -> list[Question | Group]:
    """Single questions (`question` and `answer` or `answers`), or prepared groups (`questions` and `answers`)."""
    found = [row for row in _rows(_file(data, "questions")) if "question" in row or "questions" in row]
    if not found:
        raise BenchError(f"no questions in {data}: lines need question and answers")
    return [_group(row) if "questions" in row else _question(row["question"], row) for row in found]


def groups_from(questions: Sequence[Question | Group], count: int, seed: int, split: str = "all") -> list[Group]:
    """Return the split's prepared groups in their order, or groups of eight different questions, drawn by seed."""
    if split not in SPLITS:
        raise ConfigError(f"qa8 has no split {split!r}: it has {', '.join(SPLITS)}")
    prepared = [entry for entry in questions if not isinstance(entry, Question)]
    if prepared:
        return _prepared(prepared, split)[:count]
    single = list({entry.text: entry for entry in questions if isinstance(entry, Question)}.values())
    single = [question for question in single if split in ("all", question.part)]
    if len(single) < SIZE:
        whole = "" if split == "all" else f" in the split {split}; --split all takes every question"
        raise BenchError(f"a group has {SIZE} questions, there are {len(single)}{whole}")
    random.Random(f"qa8 {seed}").shuffle(single)
    starts = range(0, len(single) - SIZE + 1, SIZE)
    return [tuple(single[start : start + SIZE]) for start in starts][:count]


def _prepared(groups: Sequence[Group], split: str) -> list[Group]:
    """Return the groups of a split. They share questions as they like, so only their file can divide them."""
    if split == "all":
        return list(groups)
    if not all(group[0].split for group in groups):
        raise BenchError(
            f"these prepared groups do not say which are for training: give each line a field split (train or test) "
            f"to use --split {split}, or take them all with --split all"
        )
    found = [group for group in groups if group[0].split == split]
    if not found:
        raise BenchError(f"no prepared group belongs to the split {split}")
    return found


def passages_from(data: Path) -> list[Passage]:
    """Lines of `title` and `text`, of `contents` with the title on its first line, or of questions with `ctxs`."""
    found: dict[str, Passage] = {}
    for row in _rows(_file(data, "passages")):
        for entry in row.get("ctxs", [row]):
            passage = passage_of(entry)
            if passage.text:
                found.setdefault(passage.text, passage)
    return list(found.values())


def passage_of(entry: dict[str, Any]) -> Passage:
    if "contents" in entry:
        title, _, text = str(entry["contents"]).partition("\n")
        return Passage(title.strip('" '), text)
    return Passage(str(entry.get("title", "")), str(entry.get("text", "")))


def _file(data: Path, name: str) -> Path:
    """The file itself, or the one of that name in the folder."""
    if data.is_file():
        return data
    candidates = [data / f"{name}.jsonl", data / f"{name}.jsonl.gz"]
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise BenchError(f"{data} has no {name}.jsonl (or {name}.jsonl.gz)")
    return path


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise BenchError(f"{path}, line {number} is not valid JSON: {error}") from error
            if not isinstance(row, dict):
                raise BenchError(f"{path}, line {number} must be an object")
            yield row


def _answers(row: dict[str, Any]) -> Any:
    return row.get("answers", row.get("answer"))


def _question(text: Any, row: dict[str, Any]) -> Question:
    answers = _answers(row)
    given = [answers] if isinstance(answers, str) else answers
    if not isinstance(text, str) or not isinstance(given, list) or not given:
        raise BenchError(f"a question needs a text and answers, got {text!r} and {answers!r}")
    right = tuple(map(str, given))
    own = [passage_of(entry) for entry in row.get("ctxs", ())]
    pages = dict.fromkeys(passage.title for passage in own if any(answer in passage.text for answer in right))
    return Question(text, right, _split(row), tuple(pages))


def _group(row: dict[str, Any]) -> Group:
    questions, answers = row["questions"], _answers(row)
    if not isinstance(questions, list) or not isinstance(answers, list) or len(questions) != len(answers):
        raise BenchError("a group needs as many answers as questions")
    return tuple(_question(text, {**row, "answers": given}) for text, given in zip(questions, answers, strict=True))


def _split(row: dict[str, Any]) -> str:
    split = row.get("split", "")
    if split not in ("", "train", "test"):
        raise BenchError(f"the split of a question is train or test, got {split!r}")
    return str(split)
