"""Renamed groups: what is replaced, what is left out, and the limits on searches."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench_helpers.ledger import Untouched
from focusctx.errors import BenchError
from focusctx.types import Message
from focusctx_bench.agent import Agent
from focusctx_bench.benchmarks.qa8 import EightQuestions, benchmark
from focusctx_bench.benchmarks.qa8_data import Passage, Question, questions_from, renamed
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import Options

SHARED = Path(__file__).parents[4] / "shared" / "qa" / "nq-open-oracle.jsonl.gz"


def _one(answer: str, text: str, question: str = "who was it", title: str = "A page") -> tuple[Question, Passage]:
    return Question(question, (answer,), pages=(title,)), Passage(title, text)


def _renamed(answer: str, text: str, seed: int = 1, **more: str) -> tuple[str, str]:
    """Return the new answer and the new passage."""
    question, passage = _one(answer, text, **more)
    found, search = renamed([question], [passage], seed)
    return found[0].answers[0], search.best(f"{question.text} {text}", 1)[0].text


def test_a_name_is_replaced_by_an_invented_one_also_where_only_its_last_word_stands() -> None:
    text = "It was Ada Lovelace. Lovelace, who was it, wrote notes on the Lovelaces."
    answer, passage = _renamed("Ada Lovelace", text)
    first, last = answer.split()
    assert passage == f"It was {first} {last}. {last}, who was it, wrote notes on the Lovelaces."
    assert {first, last}.isdisjoint({"Ada", "Lovelace"})
    assert answer == "Varromar Boni", "the same in every process: it does not depend on the order of a set"
    assert _renamed("Ada Lovelace", text, seed=2)[0] != answer


@pytest.mark.parametrize(
    ("answer", "form"),
    [
        ("1972", r"(19|20)\d\d"),
        ("May 18, 2018", r"[A-Z][a-z]+ \d{1,2}, (19|20)\d\d"),
        ("14 December 1972", r"\d{1,2} [A-Z][a-z]+ 19\d\d|\d{1,2} [A-Z][a-z]+ 20\d\d"),
        ("1,350 feet", r"[1-9],\d{3} feet"),
        ("18.5", r"[1-9]\d\.\d"),
    ],
)
def test_a_figure_keeps_its_form(answer: str, form: str) -> None:
    new, passage = _renamed(answer, f"When was it? It was {answer}, not 1{answer} or {answer}7.")
    assert re.fullmatch(form, new)
    assert new != answer
    assert passage == f"When was it? It was {new}, not 1{answer} or {answer}7."


@pytest.mark.parametrize(
    ("answer", "question", "title"),
    [
        ("in the legs", "who was it", "A page"),
        ("5", "who was it", "A page"),
        ("Ada Lovelace", "who was ada lovelace", "A page"),
        ("Ada Lovelace", "who was it", "Ada Lovelace"),
        ("Ada Lovelace and Charles Babbage", "who was it", "A page"),
    ],
)
def test_an_answer_that_cannot_be_replaced_safely_is_left_out(answer: str, question: str, title: str) -> None:
    with pytest.raises(BenchError, match="no question can be renamed"):
        _renamed(answer, f"It was {answer}.", question=question, title=title)


def test_a_question_that_another_page_answers_truly_is_left_out() -> None:
    question, passage = _one("Ada Lovelace", "It was Ada Lovelace.")
    with pytest.raises(BenchError, match="no question can be renamed"):
        renamed([question], [passage, Passage("Another page", "Who was it? Ada Lovelace.")], 1)


def test_of_two_questions_about_one_page_the_first_is_taken() -> None:
    one, passage = _one("Ada Lovelace", "It was Ada Lovelace in 1843.")
    two, _ = _one("1843", "", question="when was it")
    found, search = renamed([one, two], [passage], 1)
    assert [question.text for question in found] == ["who was it"]
    assert "in 1843" in search.best("page", 1)[0].text


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Sixteen questions, each with its passage, as the open data has them."""
    lines = [
        {
            "question": f"when was bridge {name} built",
            "answers": [str(1800 + number)],
            "ctxs": [{"title": f"Bridge {name}", "text": f"Bridge {name} was built in {1800 + number} of stone."}],
        }
        for number, name in enumerate("abcdefghijklmnop")
    ]
    path = tmp_path / "made.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def _benchmark(data: Path, **more: str) -> EightQuestions:
    return benchmark(Options(data=data, split="all", more={"renamed": "true", "passages": "1", **more}))


class _Reader:
    """Searches for all questions, so many in a turn, and answers from the results."""

    def __init__(self, group: Sequence[Question], at_once: int) -> None:
        self._left = [question.text for question in group]
        self._count, self._at_once = len(group), at_once

    def __call__(self, messages: Sequence[Message]) -> Say:
        now, self._left = self._left[: self._at_once], self._left[self._at_once :]
        if now:
            return Say("", [("search", {"query": query}) for query in now])
        results = [str(message["content"]) for message in messages if message["role"] == "tool"]
        years = [text.partition("built in ")[2][:4] for text in results]
        return Say("\n".join(f"{number}: {year}" for number, year in enumerate(years, 1)))


def _run(found: EightQuestions, at_once: int) -> Any:
    reader = _Reader(found.groups[0], at_once)
    return asyncio.run(Agent(FunctionModel(reader), Untouched).run(found, found.tasks()[0]))


def test_who_searches_finds_the_new_answers_and_memory_fails(made: Path) -> None:
    found = _benchmark(made, per_turn="2", searches="8")
    assert found.tasks()[0].id == "qa8-renamed-42-all-000"
    record = _run(found, 2)
    assert (record.score.success, len(record.steps)) == (1, 5)
    system = record.messages[0]["content"]
    assert "were changed" in system
    assert system.endswith("A turn has at most 2 searches. You have 8 searches in all.")
    true = {question.text: question.answers[0] for question in questions_from(made) if isinstance(question, Question)}
    assert all(true[question.text] != question.answers[0] for question in found.groups[0])


def test_calls_above_the_limit_of_a_turn_are_refused(made: Path) -> None:
    record = _run(_benchmark(made, per_turn="2"), 8)
    results = [message["content"] for message in record.messages if message["role"] == "tool"]
    assert len(results) == 8
    assert [text.startswith("Results for") for text in results] == [True, True, *[False] * 6]
    assert results[2] == "Error: not done, a turn has at most 2 calls."
    assert record.score.success == 0.25


def test_searches_can_be_used_up(made: Path) -> None:
    record = _run(_benchmark(made, searches="3"), 1)
    results = [message["content"] for message in record.messages if message["role"] == "tool"]
    assert sum(text.startswith("Results for") for text in results) == 3
    assert results[3].startswith("Error: no searches are left.")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"renamed": "yes"}, "renamed must be true or false"),
        ({"retriever": "http://127.0.0.1:1"}, "leave retriever out"),
        ({"per_turn": "0"}, "per_turn must be a whole number above 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(more: dict[str, str], complaint: str, made: Path) -> None:
    with pytest.raises(BenchError, match=complaint):
        _benchmark(made, **more)


def test_prepared_groups_cannot_be_renamed(tmp_path: Path) -> None:
    group = {"questions": [f"q{n}" for n in range(8)], "answers": [[f"a{n}"] for n in range(8)]}
    (tmp_path / "questions.jsonl").write_text(json.dumps(group))
    (tmp_path / "passages.jsonl").write_text(json.dumps({"title": "t", "text": "some text"}))
    with pytest.raises(BenchError, match="prepared groups do not name their pages"):
        _benchmark(tmp_path)


@pytest.mark.skipif(not SHARED.exists(), reason="no questions and passages in ../shared/qa")
def test_real_groups_can_be_answered_only_from_the_passages() -> None:
    found = benchmark(Options(data=SHARED, seed=11, more={"renamed": "true", "groups": "12"}))
    true = {one.text: one.answers for one in questions_from(SHARED) if isinstance(one, Question)}
    questions = [question for group in found.groups for question in group]
    assert len(questions) == 96
    for question in questions:
        assert question.answers[0] not in true[question.text]
        best = asyncio.run(found.search.find(question.text, 3))
        assert any(question.answers[0] in passage.text for passage in best)
