"""Asking a model at points of runs, and how far its actions agree."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from focusctx.errors import BenchError, ModelError
from focusctx.jobs.engines import Meter
from focusctx.replay.facts import Evidence
from focusctx.replay.methods import Methods, ReplaySettings
from focusctx.types import Message
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import ModelAnswer
from focusctx_bench.replay.agreement.answers import (
    AGAIN,
    FULL,
    RECORDED,
    Answer,
    MethodView,
    answer_file,
    ask_all,
    requests,
    sample,
    views_at,
)
from focusctx_bench.replay.agreement.compare import Agreed, compare
from focusctx_bench.replay.agreement.local import tools_by_file
from focusctx_bench.replay.points import Point, points_of
from replay.logs import long_run

RUNS = [long_run(30, "a"), long_run(24, "b")]
SETTINGS = ReplaySettings(methods=("none", "fifo", "focus"))
POINTS = [point for run in RUNS for point in points_of(Evidence(run), 300)]
METHODS = {FULL, AGAIN, "fifo", "focus", "fifo@focus", "retrieval@focus", "masking@focus"}


def views() -> list[MethodView]:
    async def every() -> list[MethodView]:
        methods = Methods(SETTINGS)
        return [view for point in POINTS for view in await views_at(methods, (), point, Meter())]

    return asyncio.run(every())


VIEWS = views()


def oldest_key(messages: Sequence[Message]) -> Say:
    """Uses the oldest key that it still sees: another one as soon as the first pages are gone."""
    text = " ".join(str(message.get("content")) for message in messages if message["role"] == "tool")
    keys = sorted(word for word in text.split() if word.startswith("key_"))
    return Say(calls=[("read", {"use": keys[0] if keys else "none"})])


class Counted:
    """The scripted model, with its requests counted; refuses the first so many."""

    def __init__(self, refusals: int = 0) -> None:
        self.model = FunctionModel(oldest_key)
        self.name = "counted"
        self.requests = 0
        self.refusals = refusals

    async def answer(self, messages: Sequence[Message], tools: Sequence[object]) -> ModelAnswer:
        assert [tool["function"]["name"] for tool in tools] == ["read"]  # type: ignore[index]
        self.requests += 1
        if self.requests <= self.refusals:
            raise ModelError("busy")
        return await self.model.answer(messages, ())


def asked(folder: Path, model: Counted) -> tuple[list[Answer], int]:
    answers = answer_file(folder)
    tally = ask_all(
        model, VIEWS, answers, settings=SETTINGS, tools=tools_by_file(RUNS), at_once=4, watch=lambda _: None
    )
    assert sum(tally.planned.values()) == model.requests
    return list(answers), tally.failures


def by_method(answers: Sequence[Answer]) -> dict[str, Agreed]:
    return {one.method: one for one in compare(answers)}


def test_every_method_has_a_view_at_every_point() -> None:
    assert len(POINTS) == 6
    for point in POINTS:
        own = {view.method: view for view in VIEWS if view.point is point}
        assert own.keys() == METHODS
        assert own[FULL].tokens == own[AGAIN].tokens == point.history.tokens
        assert own["focus"].left < point.span_tokens
        assert (own["fifo"].left < point.span_tokens) == (len(point.history.spans) > 5)


def test_each_prompt_is_asked_once_but_the_full_one_twice() -> None:
    made = requests(VIEWS)
    assert sum(map(len, made)) == len(VIEWS)
    assert len(made) < len(VIEWS), "some methods leave the same"
    for request in made:
        assert len({id(view.point) for view in request}) == 1
        assert all(list(view.messages) == list(request[0].messages) for view in request)
        assert AGAIN not in {view.method for view in request} or len(request) == 1
    sizes = [request[0].tokens for request in made]
    assert sizes == sorted(sizes)


def test_what_is_answered_is_not_asked_again(tmp_path: Path) -> None:
    model = Counted(refusals=3)
    first, failed = asked(tmp_path, model)
    assert failed == 3
    path = answer_file(tmp_path).path
    with path.open("a") as file:
        file.write('{"file": "log.js')  # cut short by a kill
    assert len(list(answer_file(tmp_path))) == len(first)
    again = Counted()
    answers, failed = asked(tmp_path, again)
    assert (again.requests, failed) == (3, 0)
    assert len(answers) == len(VIEWS) + len(POINTS)
    assert len({answer.key for answer in answers}) == len(answers)
    nobody = Counted()
    asked(tmp_path, nobody)
    assert nobody.requests == 0


def test_agreement_tells_who_lost_the_first_page(tmp_path: Path) -> None:
    found = by_method(asked(tmp_path, Counted())[0])
    assert found.keys() == METHODS
    assert found[AGAIN].full("exact").mean == 1
    assert found["fifo"].full("tool").mean == 1, "it calls the same tool"
    whole = sum(len(point.history.spans) <= 5 for point in POINTS)
    assert found["fifo"].full("exact").mean == pytest.approx(whole / len(POINTS)), "the first page is gone elsewhere"
    assert 0 < whole < len(POINTS)
    assert found["fifo"].span_share < 1
    assert found[FULL].recorded("tool").mean == 1, "the recorded agent calls that tool, too"
    assert found[FULL].recorded("exact").mean < 1
    focus, newest = found["focus"], found["fifo@focus"]
    difference = focus.ahead_of(newest, "exact")
    assert difference is not None
    assert difference.mean == pytest.approx(focus.full("exact").mean - newest.full("exact").mean)


def test_only_points_at_which_all_have_an_answer_count(tmp_path: Path) -> None:
    answers = asked(tmp_path, Counted())[0]
    place = answers[0].place
    fewer = [answer for answer in answers if answer.method != "focus" or answer.place != place]
    assert {one.points for one in compare(fewer)} == {len(POINTS) - 1}
    assert compare([answer for answer in answers if answer.method != RECORDED]) == []
    assert compare([]) == []


def test_a_sample_is_even_over_files_and_the_same_every_time() -> None:
    def some(file: str, count: int) -> list[Point]:
        run = long_run(30, "a")
        evidence = Evidence(type(run)(file, run.id, run.messages, run.format))
        return points_of(evidence, 100, range(1, count + 1))

    many, few = some("many.jsonl", 9), some("few.jsonl", 2)
    chosen = sample([*many, *few], 6, longest=10**6)
    assert [point.file for point in chosen].count("few.jsonl") == 2
    assert len({id(point) for point in chosen}) == 6
    assert [str(point) for point in chosen] == [str(point) for point in sample([*many, *few], 6, longest=10**6)]
    longest = many[3].history.tokens
    assert len(sample(many, 99, longest)) == 4


def test_points_at_which_the_agent_only_spoke_are_left_out() -> None:
    acted, run = POINTS[0], RUNS[0]
    said = (*run.messages[: acted.messages], {"role": "assistant", "content": "Well."})
    (spoke,) = points_of(Evidence(type(run)(run.file, run.id, said, run.format)), 300)
    assert spoke.messages == acted.messages
    assert sample([spoke, acted], 9, longest=10**6) == [acted]


def test_a_file_of_something_else(tmp_path: Path) -> None:
    answer_file(tmp_path).path.write_text('{"file": "x"}\n')
    with pytest.raises(BenchError, match=r"answers.jsonl line 1 is not a record of this command"):
        list(answer_file(tmp_path))
