"""The leave-one-out pass, with a model whose probabilities are made up: a text is unlikely when its id is not shown."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from focusctx.errors import DraftError
from focusctx.replay.facts import Evidence
from focusctx.types import Prompt, Reply
from focusctx_bench.replay.likelihood import Scored
from focusctx_bench.replay.points import Point, points_of
from focusctx_bench.replay.study.events import choose
from focusctx_bench.replay.study.findings import action_divergence, hindsight
from focusctx_bench.replay.study.scoring import (
    Amounts,
    Kind,
    likelihood_file,
    plan_prompt,
    read_actions,
    score_points,
    vocabulary,
    vocabulary_prompt,
)
from replay.logs import long_run


class Literal:
    """Finds a word five nats less likely when the prompt does not show it."""

    name = "transformers:/models/literal"

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.scored = 0

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        if self.failing and self.failing in prompt.user:
            raise DraftError("out of memory")
        for k in range(n):
            yield Reply(f"1. use key_000{k + 1}\n2. `use key_0004`\n")

    async def score(self, prompts: Sequence[Prompt], continuations: Sequence[str]) -> list[list[Scored]]:
        self.scored += len(prompts)
        return [[self._score(prompt.user, text) for text in continuations] for prompt in prompts]

    def _score(self, shown: str, text: str) -> Scored:
        words = text.split()
        return Scored(tuple(range(len(words))), tuple(-1.0 if word in shown else -6.0 for word in words))


@pytest.fixture
def points() -> list[Point]:
    return [points_of(Evidence(long_run(id=f"run {n}")), 300, (1,))[0] for n in range(3)]


def test_the_span_that_gave_the_id_is_the_useful_one(points: list[Point], tmp_path: Path) -> None:
    model, file = Literal(), likelihood_file(tmp_path / "new" / "likelihoods.jsonl")
    tally = score_points(model, points, file, Amounts(actions=4), lambda _: None)
    scored = {one.place: one for one in file}
    assert scored.keys() == {point.place for point in points}
    assert tally.done == {"likelihoods": 3}
    one = scored[points[0].place]
    assert one.model == "transformers:literal"
    assert sorted(one.without) == list(points[0].at_stake)
    assert [text.text for text in one.texts if text.kind == Kind.ACTION] == [f"use key_000{k}" for k in (1, 2, 3, 4)]
    assert len(one.tokens(Kind.PLAN)) == 4
    utilities = action_divergence(one)
    assert set(sorted(utilities, key=lambda index: -utilities[index])[:4]) == {1, 2, 3, 4}
    taken = next(text.text for text in one.texts if text.kind == Kind.TAKEN)
    key = next(word for word in taken.replace('"', " ").split() if word.startswith("key_"))
    assert hindsight(one).keys() == one.without.keys()
    assert key == f"key_{points[0].history.newest + 1 - 3:04}"


def test_a_stopped_pass_goes_on(points: list[Point], tmp_path: Path) -> None:
    model, file = Literal(), likelihood_file(tmp_path / "likelihoods.jsonl")
    score_points(model, points[:2], file, Amounts(), lambda _: None)
    before = model.scored
    with file.path.open("a") as end:
        end.write('{"file": "log.js')
    tally = score_points(model, points, file, Amounts(), lambda _: None)
    assert model.scored == before * 3 // 2
    assert (tally.before, tally.done) == ({"likelihoods": 2}, {"likelihoods": 1})
    assert len(list(file)) == 3


def test_one_event_that_fails_costs_no_other(points: list[Point], tmp_path: Path) -> None:
    file = likelihood_file(tmp_path / "likelihoods.jsonl")
    odd = points_of(Evidence(long_run(14, id="odd")), 600, (1,))[0]
    model = Literal(failing=f"key_{odd.history.newest:04}")
    tally = score_points(model, [*points, odd], file, Amounts(), lambda _: None)
    assert len(list(file)) == 3
    assert (tally.failures, tally.last_problem) == (1, f"{odd}: out of memory")


@pytest.mark.parametrize(
    ("reply", "actions"),
    [
        ("1. ls -l\n2) cat a.py\n", ["ls -l", "cat a.py"]),
        ("```bash\nls -l\n```\n- ls -l\nAction 2: `grep x`", ["ls -l", "grep x"]),
        ("2024-05-15 is the date\n\n*\n", ["2024-05-15 is the date"]),
        ('do({"id": "s_3"}) [s_3] | x', ['do({"id": "s_3"}) (s_3] | x']),
    ],
)
def test_actions_are_read_without_what_is_around_them(reply: str, actions: list[str]) -> None:
    assert read_actions(reply) == actions


def test_the_vocabulary_begins_with_what_plans_begin_with() -> None:
    assert vocabulary(["a1\nb2", "b2\nc3"], ["d4\nb2", "a1"], 4) == ["d4", "a1", "b2", "c3"]


def test_prompts_show_the_trace_once(points: list[Point]) -> None:
    for prompt in (plan_prompt(points[0].history, 9000), vocabulary_prompt(points[0].history, 9000, 5)):
        assert prompt.user.count("[s_1] |") == 1
        assert prompt.user.endswith("The agent's actions:")
    assert "5 different actions" in prompt.system


def test_events_are_one_of_a_run_and_files_take_turns() -> None:
    runs = [replace(long_run(id=name), file=file) for file, name in (("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"))]
    every = [point for run in runs for point in points_of(Evidence(run), 300)]
    chosen = choose(every, 3)
    assert [(point.file, point.run) for point in chosen] == [("a", "1"), ("b", "1"), ("a", "2")]
    assert all(len(point.history.spans) >= 6 for point in choose(every, 99))
