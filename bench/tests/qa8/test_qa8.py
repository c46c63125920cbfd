"""Groups of eight questions: data, search, answers, and whole groups gone through."""

import asyncio
import gzip
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_helpers.ledger import Untouched
from drafts.conftest import serve
from focusctx.baselines.rules import Fifo
from focusctx.errors import BenchError, ConfigError
from focusctx.types import Message
from focusctx_bench.agent import Agent
from focusctx_bench.benchmarks.qa8 import EightQuestions, benchmark, exact_match, f1, normalise, read_answers, scripted
from focusctx_bench.benchmarks.qa8_data import K1, B, Bm25, Passage, Question, SearchServer, terms
from focusctx_bench.metrics import of_task, summarise
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import Options, ToolCall

SHARED = Path(__file__).parents[4] / "shared" / "qa" / "nq-open-oracle.jsonl.gz"

__all__ = ["serve"]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder as a user may have it: sixteen questions and their passages."""
    questions = [{"question": f"when was bridge {n} built", "answer": [str(1800 + n)]} for n in range(16)]
    passages = [{"title": f"Bridge {n}", "text": f"Bridge {n} was built in {1800 + n} of stone."} for n in range(16)]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))
    with gzip.open(tmp_path / "passages.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, passages)) + "\n\n")
    return tmp_path


def test_groups_are_drawn_by_seed(made: Path) -> None:
    def texts(seed: int) -> list[str]:
        found = benchmark(Options(data=made, seed=seed, split="all"))
        return [asyncio.run(found.start(task)).task for task in found.tasks()]

    assert len(texts(1)) == 2
    assert texts(1) == texts(1) != texts(2)
    questions = [line for text in texts(1) for line in text.splitlines()[1:]]
    assert len({line.partition(": ")[2] for line in questions}) == 16


def test_a_whole_group_with_an_agent_that_sees_all(made: Path) -> None:
    found = benchmark(Options(data=made, split="all"))
    for task in found.tasks():
        record = asyncio.run(Agent(scripted(), Untouched).run(found, task))
        assert record.ended == "done"
        assert record.score.details["em"] == record.score.details["f1"] == record.score.success == 1
        assert len(record.steps) == 9


def test_prepared_groups_stay_as_they_are(tmp_path: Path) -> None:
    group = {"questions": [f"q{n}" for n in range(8)], "answers": [[f"a{n}"] for n in range(8)]}
    (tmp_path / "questions.jsonl").write_text(json.dumps(group))
    (tmp_path / "passages.jsonl").write_text(json.dumps({"contents": '"A title"\nsome text'}))
    found = benchmark(Options(data=tmp_path, split="all"))
    environment = asyncio.run(found.start(found.tasks()[0]))
    assert environment.task.splitlines()[1:] == [f"{n + 1}: q{n}" for n in range(8)]
    assert "[1] A title: some text" in asyncio.run(environment.act(ToolCall("1", "search", {"query": "text"})))


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({}, "no questions.jsonl"),
        ({"questions.jsonl": "{}"}, "no questions in"),
        ({"questions.jsonl": '{"question": "q", "answer": ["a"]}'}, "8 questions, there are 1"),
        ({"questions.jsonl": '{"question": "q"}'}, "needs a text and answers"),
        ({"questions.jsonl": "nonsense"}, "line 1 is not valid JSON"),
        ({"questions.jsonl": '{"questions": ["q"], "answers": []}'}, "as many answers as questions"),
        ({"questions.jsonl": '{"questions": ["q"], "answers": [["a"]]}', "passages.jsonl": "{}"}, "no passages in"),
    ],
)
def test_what_is_missing_is_told(files: dict[str, str], complaint: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BenchError, match=complaint):
        benchmark(Options(data=tmp_path, split="all"))


def _questions_of(found: EightQuestions) -> set[str]:
    return {question.text for group in found.groups for question in group}


def _many(folder: Path, **more: str) -> Path:
    lines = [{"question": f"when was bridge {n} built", "answer": [str(1800 + n)], **more} for n in range(200)]
    passages = [{"title": f"Bridge {n}", "text": f"Bridge {n} was built in {1800 + n}."} for n in range(200)]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "passages.jsonl").write_text("\n".join(map(json.dumps, passages)))
    return folder


@pytest.mark.parametrize("seeds", [(42, 42), (1, 2)])
def test_training_and_test_questions_are_never_the_same(tmp_path: Path, seeds: tuple[int, int]) -> None:
    data = _many(tmp_path)
    train = benchmark(Options(data=data, split="train", seed=seeds[0]))
    test = benchmark(Options(data=data, split="test", seed=seeds[1]))
    assert len(train.tasks()) > 8
    assert len(test.tasks()) > 8
    assert not _questions_of(train) & _questions_of(test)
    assert not {task.id for task in train.tasks()} & {task.id for task in test.tasks()}


def test_the_default_split_is_test(tmp_path: Path) -> None:
    data = _many(tmp_path)
    assert _questions_of(benchmark(Options(data=data))) == _questions_of(benchmark(Options(data=data, split="test")))


def test_the_file_may_say_which_questions_are_for_training(tmp_path: Path) -> None:
    data = _many(tmp_path, split="train")
    assert len(benchmark(Options(data=data, split="train")).tasks()) == 25
    with pytest.raises(BenchError, match="there are 0 in the split test"):
        benchmark(Options(data=data))


def test_prepared_groups_are_divided_only_by_their_file(tmp_path: Path) -> None:
    def write(**splits: str) -> None:
        groups = [{"questions": [f"q{name}"] * 8, "answers": [["a"]] * 8, **some} for name, some in _named(splits)]
        (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, groups)))

    (tmp_path / "passages.jsonl").write_text(json.dumps({"title": "t", "text": "text"}))
    write(one="train", two="test")
    assert _questions_of(benchmark(Options(data=tmp_path, split="test"))) == {"qtwo"}
    write(one="")
    with pytest.raises(BenchError, match="do not say which are for training"):
        benchmark(Options(data=tmp_path))


def _named(splits: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    return [(name, {"split": split} if split else {}) for name, split in splits.items()]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (Options(split="dev"), "qa8 has no split 'dev': it has test, train, all"),
        (Options(more={"retriver": "http://127.0.0.1:1"}), "unknown setting 'retriver' of qa8; known: groups"),
    ],
)
def test_unknown_splits_and_settings_are_refused(options: Options, complaint: str, made: Path) -> None:
    with pytest.raises(ConfigError, match=complaint):
        benchmark(replace(options, data=made))


def test_without_data_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="Give --data"):
        benchmark(Options())
    with pytest.raises(BenchError, match=r"There is no .*Give --data"):
        benchmark(Options(data=tmp_path / "nowhere"))


passages = st.lists(st.text(alphabet="abc ", max_size=12).map(lambda text: Passage("", text)), min_size=1, max_size=8)


@given(passages, st.text(alphabet="abc ", max_size=8))
@settings(deadline=None)
def test_bm25_is_the_formula(found: list[Passage], query: str) -> None:
    words = [terms(passage.text) for passage in found]
    mean = sum(map(len, words)) / len(words)

    def score(document: Sequence[str]) -> float:
        total = 0.0
        for word in terms(query):
            holding = sum(word in other for other in words)
            times = document.count(word)
            if times:
                idf = math.log(1 + (len(words) - holding + 0.5) / (holding + 0.5))
                total += idf * times / (times + K1 * (1 - B + B * len(document) / mean))
        return total

    expected = [place for place in range(len(found)) if score(words[place]) > 0]
    expected.sort(key=lambda place: (-round(score(words[place]), 9), place))
    best = asyncio.run(Bm25(found).find(query, len(found)))
    assert Counter(best) == Counter(found[place] for place in expected)
    scores = [score(terms(passage.text)) for passage in best]
    assert scores == pytest.approx(sorted(scores, reverse=True))


async def test_a_search_server_is_asked_as_it_wants(serve: Any) -> None:
    hits = [{"document": {"id": "7", "contents": '"Moon"\nIt is round.'}, "score": 1.0}]
    server = await serve(lambda body: {"result": [hits]})
    assert await SearchServer(server.url).find("moon", 3) == [Passage("Moon", "It is round.")]
    assert server.bodies == [{"queries": ["moon"], "topk": 3, "return_scores": True}]
    assert server.requests[0].path == "/retrieve"


async def test_a_search_server_that_is_none(serve: Any) -> None:
    server = await serve(lambda body: {"detail": "no"})
    with pytest.raises(BenchError, match="gave no passages"):
        await SearchServer(server.url).find("moon", 3)


@pytest.mark.parametrize(
    "text",
    [
        "1: Paris\n2: 1968\n3: Ada Lovelace",
        "Here you are.\n\n1. Paris\n2. 1968\n3. Ada Lovelace\n",
        "**1:** Paris\n**2:** 1968\n**3:** Ada Lovelace",
        "- 1) Paris\n- 2) 1968\n- 3) Ada Lovelace",
        "Answer 1: Paris\nAnswer 2: 1968\nAnswer 3: Ada Lovelace",
        "<answer>Paris; 1968; Ada Lovelace</answer>",
        "1: London\n2: 1968\n3: Ada Lovelace\nNo, wait.\n1: Paris",
        "3: Ada Lovelace\n1: **Paris**\n2: `1968`",
    ],
)
def test_answers_are_read_kindly(text: str) -> None:
    assert read_answers(text, 3) == ["Paris", "1968", "Ada Lovelace"]


def test_what_is_left_out_is_empty_and_what_is_no_answer_is_none() -> None:
    assert read_answers("2: 1968", 3) == ["", "1968", ""]
    assert read_answers("9: nine", 3) is None
    assert read_answers("I need to search more.", 3) is None
    assert read_answers("<answer>only; two</answer>", 3) is None


def test_scores_are_those_of_natural_questions() -> None:
    assert normalise("The  U.S. Army!") == "us army"
    assert exact_match("the Beatles", ["Beatles"]) == 1
    assert exact_match("Beatles band", ["Beatles"]) == 0
    assert f1("Beatles band", ["Beatles", "x"]) == pytest.approx(2 / 3)
    assert f1("", ["Beatles"]) == 0
    assert f1("14 December 1972", ["14 December 1972 UTC", "December 1972"]) == pytest.approx(6 / 7)


@given(st.text(max_size=20), st.lists(st.text(max_size=20), min_size=1, max_size=3))
def test_an_exact_match_is_a_full_overlap(answer: str, right: list[str]) -> None:
    assert 0 <= f1(answer, right) <= 1
    if exact_match(answer, right):
        assert f1(answer, right) == 1


def test_an_answer_in_no_form_is_asked_for_once_more(made: Path) -> None:
    found = benchmark(Options(data=made, split="all"))
    right = [question.answers[0] for question in found.groups[0]]

    def decide(messages: Sequence[Message]) -> Say:
        first = len(messages) == 2
        return Say("Let me think." if first else "\n".join(f"{n}: {one}" for n, one in enumerate(right, 1)))

    record = asyncio.run(Agent(FunctionModel(decide), Untouched).run(found, found.tasks()[0]))
    assert record.score.success == 1
    assert record.messages[3]["content"].startswith("Please give the final answer")
    silent = asyncio.run(Agent(FunctionModel(lambda _: Say("Hm.")), Untouched).run(found, found.tasks()[0]))
    assert (silent.ended, silent.score.success, len(silent.steps)) == ("done", 0, 2)


@pytest.mark.skipif(not SHARED.exists(), reason="no questions and passages in ../shared/qa")
def test_real_questions_and_passages() -> None:
    found = benchmark(Options(data=SHARED, split="all", more={"groups": "12"}))
    assert isinstance(found, EightQuestions)
    assert _share_found(found) > 0.8
    full = summarise([of_task(asyncio.run(Agent(scripted(), Untouched).run(found, task))) for task in found.tasks()])
    assert full.steps.mean == 9
    assert full.peak.mean > 2500
    assert 0.02 < full.details["em"].mean <= full.details["f1"].mean < 0.5
    fifo = summarise([of_task(asyncio.run(Agent(scripted(), Fifo).run(found, task))) for task in found.tasks()])
    assert fifo.peak.mean < full.peak.mean
    assert fifo.accuracy.mean < full.accuracy.mean
    assert fifo.steps.mean > full.steps.mean


def _share_found(found: EightQuestions) -> float:
    """Of the questions: how many have an answer in the best three passages."""
    questions: list[Question] = [question for group in found.groups for question in group]
    hits = 0
    for question in questions:
        best = asyncio.run(found.search.find(question.text, 3))
        hits += any(answer.lower() in passage.text.lower() for passage in best for answer in question.answers)
    return hits / len(questions)
