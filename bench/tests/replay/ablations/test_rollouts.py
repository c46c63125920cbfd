"""Three ways to get N sketches: what each asks for, and that it is asked once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from focusctx.config import FocusConfig
from focusctx.errors import BenchError, DraftError
from focusctx.replay.evidence import Evidence
from focusctx.replay.points import Point, points_of
from focusctx.types import Prompt, Reply, Usage
from focusctx_bench.replay.ablations.rollouts import WAYS, measure, read_taken
from focusctx_bench.replay.ablations.rollouts_report import tables
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
        await asyncio.sleep(0.01)
        self.running -= 1
        for k in range(n):
            yield Reply("Step: x | Depends on: []", Usage(1, 1000, 0) + Usage(0, 0, 9) if k == 0 else Usage(0, 0, 9))


@pytest.fixture
def points() -> list[Point]:
    return [points_of(Evidence(long_run(id=f"run {n}")), 300, (1,))[0] for n in range(2)]


async def test_what_each_way_asks_for(points: list[Point], tmp_path: Path) -> None:
    draft, path = Metered(), tmp_path / "new" / "rollouts.jsonl"
    config = FocusConfig.paper(rollouts=3)
    await measure(draft, points[:1], path, config, lambda *_: None)
    taken = {one.way: one for one in read_taken(path)}
    assert list(taken) == list(WAYS)
    billed = {way: (one.requests, one.input_tokens, one.output_tokens) for way, one in taken.items()}
    assert billed == {"sequential": (3, 3000, 27), "parallel": (3, 3000, 27), "one request": (1, 1000, 27)}
    assert draft.asked == [(1, 42), *[(1, 42), (1, 43), (1, 44)] * 2, (3, 42)]
    assert draft.most == 3
    assert taken["sequential"].seconds > 2 * taken["one request"].seconds
    assert taken["sequential"].draft == "transformers:metered"
    [table] = tables(taken.values())
    assert [row.name for row in table.rows] == list(WAYS)


async def test_nothing_is_measured_twice(points: list[Point], tmp_path: Path) -> None:
    draft, path = Metered(), tmp_path / "rollouts.jsonl"
    config = FocusConfig.paper(rollouts=2)
    await measure(draft, points[:1], path, config, lambda *_: None)
    with path.open("a") as file:
        file.write('{"half')
    asked = len(draft.asked)
    await measure(draft, points, path, config, lambda *_: None)
    assert len(list(read_taken(path))) == 6
    assert len(draft.asked) == 2 * asked
    path.write_text("{}\n")
    with pytest.raises(BenchError, match="line 1"):
        list(read_taken(path))


async def test_a_draft_that_fails_is_told(points: list[Point], tmp_path: Path) -> None:
    draft, seen = Metered(), list[tuple[int, int, str | None]]()
    draft.fails = True
    await measure(draft, points, tmp_path / "rollouts.jsonl", FocusConfig.paper(), lambda *told: seen.append(told))
    assert len(seen) == 6
    assert all(problem and problem.endswith("gone") for *_, problem in seen)
