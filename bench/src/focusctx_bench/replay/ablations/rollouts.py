"""N sketches one after the other, all at once in N requests, or as one request for N: what each way costs and takes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from focusctx.config import FocusConfig
from focusctx.errors import BenchError, FocusError
from focusctx.pipeline.draft import build_prompt
from focusctx.replay.files import short_name
from focusctx.replay.points import Point
from focusctx.replay.record import end_the_last_line
from focusctx.types import DraftModel, Prompt, Reply, Usage

WAYS = ("sequential", "parallel", "one request")


@dataclass(frozen=True, slots=True)
class Taken:
    """One event, one way."""

    file: str
    run: str
    messages: int
    draft: str
    way: str
    rollouts: int
    requests: int
    input_tokens: int
    output_tokens: int
    seconds: float

    @property
    def key(self) -> tuple[str, str, int, str, str, int]:
        return self.file, self.run, self.messages, self.draft, self.way, self.rollouts


async def measure(
    draft: DraftModel,
    points: Sequence[Point],
    path: Path,
    config: FocusConfig,
    watch: Callable[[int, int, str | None], None],
) -> None:
    """Each point each way, one after the other, for what the file does not have yet."""
    done = {taken.key for taken in read_taken(path)}
    path.parent.mkdir(parents=True, exist_ok=True)
    finished = 0
    rollouts = config.rollouts
    warm = False
    for number, point in enumerate(points):
        prompt = build_prompt(point.history, config)
        # Whoever comes second finds more in the server's cache: each way is first at every third point.
        for way in (*WAYS[number % 3 :], *WAYS[: number % 3]):
            finished += 1
            problem = None
            if (point.file, point.run, point.messages, short_name(draft.name), way, rollouts) not in done:
                try:
                    if not warm:
                        await _ask(draft, prompt, 1)  # loading a model is nobody's way
                        warm = True
                    _add(path, await _taken(draft, point, prompt, way, rollouts))
                except FocusError as error:
                    problem = f"{point}, {way}: {error}"
            watch(finished, len(points) * len(WAYS), problem)


def read_taken(path: Path) -> Iterator[Taken]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], 1):
        try:
            yield Taken(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise BenchError(f"{path} line {number} is no record of rollouts: {error}") from error


async def _taken(draft: DraftModel, point: Point, prompt: Prompt, way: str, rollouts: int) -> Taken:
    began = time.perf_counter()
    if way == "sequential":
        replies = [reply for k in range(rollouts) for reply in await _ask(draft, _seeded(prompt, k), 1)]
    elif way == "parallel":
        every = await asyncio.gather(*(_ask(draft, _seeded(prompt, k), 1) for k in range(rollouts)))
        replies = [reply for some in every for reply in some]
    else:
        replies = await _ask(draft, prompt, rollouts)
    seconds = time.perf_counter() - began
    usage = sum((reply.usage for reply in replies), Usage())
    return Taken(
        file=point.file,
        run=point.run,
        messages=point.messages,
        draft=short_name(draft.name),
        way=way,
        rollouts=len(replies),
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        seconds=round(seconds, 4),
    )


def _seeded(prompt: Prompt, k: int) -> Prompt:
    """With the seed that the k-th of N sketches has: every way samples the same ones where seeds count."""
    return Prompt(
        prompt.system, prompt.user, prompt.history, prompt.temperature, prompt.max_tokens, prompt.seed + k
    )  # fmt: skip


async def _ask(draft: DraftModel, prompt: Prompt, n: int) -> list[Reply]:
    arriving: AsyncIterator[Reply] = draft.sample(prompt, n)
    return [reply async for reply in arriving]


def _add(path: Path, taken: Taken) -> None:
    end_the_last_line(path)
    with path.open("ab", buffering=0) as file:
        file.write(f"{json.dumps(asdict(taken), ensure_ascii=False)}\n".encode())
