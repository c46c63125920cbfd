"""Questions, groups of them, and passages, from JSON lines as data sets write them."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from focusctx.errors import BenchError

SIZE = 8


class Question(NamedTuple):
    text: str
    answers: tuple[str, ...]
    """Each of them is right."""


class Passage(NamedTuple):
    title: str
    text: str


Group = tuple[Question, ...]


def questions_from(data: Path) -> list[Question | Group]:
    """Single questions (`question` and `answer` or `answers`), or prepared groups (`questions` and `answers`)."""
    found = [row for row in _rows(_file(data, "questions")) if "question" in row or "questions" in row]
    if not found:
        raise BenchError(f"no questions in {data}: lines need question and answers")
    return [_group(row) if "questions" in row else _question(row["question"], _answers(row)) for row in found]


def groups_from(questions: Sequence[Question | Group], count: int, seed: int) -> list[Group]:
    """Prepared groups in their order, or groups of eight different questions, drawn by seed."""
    prepared = [entry for entry in questions if not isinstance(entry, Question)]
    if prepared:
        return prepared[:count]
    single = list({entry.text: entry for entry in questions if isinstance(entry, Question)}.values())
    if len(single) < SIZE:
        raise BenchError(f"a group has {SIZE} questions, there are {len(single)}")
    random.Random(f"qa8 {seed}").shuffle(single)
    starts = range(0, len(single) - SIZE + 1, SIZE)
    return [tuple(single[start : start + SIZE]) for start in starts][:count]


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


def _question(text: Any, answers: Any) -> Question:
    given = [answers] if isinstance(answers, str) else answers
    if not isinstance(text, str) or not isinstance(given, list) or not given:
        raise BenchError(f"a question needs a text and answers, got {text!r} and {answers!r}")
    return Question(text, tuple(map(str, given)))


def _group(row: dict[str, Any]) -> Group:
    questions, answers = row["questions"], _answers(row)
    if not isinstance(questions, list) or not isinstance(answers, list) or len(questions) != len(answers):
        raise BenchError("a group needs as many answers as questions")
    return tuple(_question(text, given) for text, given in zip(questions, answers, strict=True))
