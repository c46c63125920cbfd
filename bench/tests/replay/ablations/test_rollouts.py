"""Three ways to get N sketches: what each asks for, and that it is asked once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from focusctx.config import FocusConfig
from focusctx.errors import BenchError, DraftError
from focusctx.replay.facts import Evidence
from focusctx.types import Prompt, Reply, Usage
from focusctx_bench.replay.ablations.rollouts import WAYS, measure, tables, taken_file
from focusctx_bench.replay.points import Point, points_of
from replay.logs import long_run


class Metered:
    """Bills the prompt once for each request."""

    name = "transformers:/models/metered"

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.running = self.most = 0
        self.fails = False

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        import asyncio

        if self.fails:
            raise DraftError("gone")
        self.asked.append((n, prompt.seed))
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.1)
        self.running -= 1
        for k in range(n):
            yield Reply("Step: x | Depends on: []", Usage(1, 1000, 0) + Usage(0, 0, 9) if k == 0 else Usage(0, 0, 9))


@pytest.fixture
def points() -> list[Point]:
    return [points_of(Evidence(long_run(id=f"run {n}")), 300, (1,))[0] for n in range(2)]


def test_what_each_way_asks_for(points: list[Point], tmp_path: Path) -> None:
    draft, file = Metered(), taken_file(tmp_path / "new" / "rollouts.jsonl")
    config = FocusConfig.paper(rollouts=3)
    measure(draft, points[:1], file, config, lambda _: None)
    taken = {one.way: one for one in file}
    assert list(taken) == list(WAYS)
    billed = {way: (one.requests, one.input_tokens, one.output_tokens) for way, one in taken.items()}
    assert billed == {"sequential": (3, 3000, 27), "parallel": (3, 3000, 27), "one request": (1, 1000, 27)}
    assert draft.asked == [(1, 42), *[(1, 42), (1, 43), (1, 44)] * 2, (3, 42)]
    assert draft.most == 3
    assert taken["sequential"].seconds > 2 * taken["one request"].seconds
    assert taken["sequential"].draft == "transformers:metered"
    [table] = tables(taken.values())
    assert [row.name for row in table.rows] == list(WAYS)


def test_nothing_is_measured_twice(points: list[Point], tmp_path: Path) -> None:
    draft, file = Metered(), taken_file(tmp_path / "rollouts.jsonl")
    config = FocusConfig.paper(rollouts=2)
    measure(draft, points[:1], file, config, lambda _: None)
    with file.path.open("a") as end:
        end.write('{"half')
    asked = len(draft.asked)
    measure(draft, points, file, config, lambda _: None)
    assert len(list(file)) == 6
    assert len(draft.asked) == 2 * asked
    file.path.write_text("{}\n")
    with pytest.raises(BenchError, match="line 1"):
        list(file)


def test_a_draft_that_fails_is_counted(points: list[Point], tmp_path: Path) -> None:
    draft = Metered()
    draft.fails = True
    tally = measure(draft, points, taken_file(tmp_path / "rollouts.jsonl"), FocusConfig.paper(), lambda _: None)
    assert tally.failures == 6
    assert tally.last_problem.endswith("gone")
