"""Records made up by hypothesis: any sizes, any ending."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from focusctx.types import Usage
from focusctx_bench.protocols import Score
from focusctx_bench.record import Event, Record, Step

tokens = st.integers(0, 100_000)
seconds = st.floats(0, 1000, allow_nan=False)
money = st.none() | st.floats(0, 10, allow_nan=False)
usages = st.builds(Usage, st.integers(0, 9), tokens, tokens, money)
events = st.builds(Event, st.booleans(), seconds, usages, tokens, tokens, st.none() | st.text(max_size=9))


@st.composite
def records(draw: st.DrawFn) -> Record:
    steps = draw(
        st.lists(
            st.builds(
                Step, tokens, tokens, tokens, seconds, usages, tokens, money,
                sent=st.just(((0, 2), -1)), reply=st.integers(2, 99), event=st.none() | events,
            ),
            max_size=8,
        )
    )  # fmt: skip
    words: list[dict[str, Any]] = [{"role": "user", "content": draw(st.text(max_size=20))} for _ in range(3)]
    return Record(
        benchmark="made",
        task=draw(st.text(min_size=1, max_size=12)),
        difficulty=draw(st.sampled_from(["", "easy", "hard"])),
        model="scripted",
        method="none",
        ended=draw(st.sampled_from(["done", "steps", "context", "model"])),
        problem=None,
        score=Score(draw(st.floats(0, 1)), {"f1": draw(st.floats(0, 1)), "why": "because"}),
        seconds=draw(seconds),
        started="2026-11-15T12:00:00+00:00",
        steps=tuple(steps),
        messages=tuple(words),
        made=({"role": "user", "content": "a summary"},),
        settings={"budget": 4096},
    )


def a_record(task: str = "a task", success: float = 1.0) -> Record:
    """One in which everything has its most ordinary value."""
    event = Event(True, 0.5, Usage(3, 900, 60, 0.001), 5000, 3000)
    step = Step(1000, 50, 1000, 2.0, Usage(1, 1200, 50, 0.003), 800, 0.002, ((0, 2),), 2)
    return Record(
        benchmark="made",
        task=task,
        difficulty="easy",
        model="scripted",
        method="focus-d",
        ended="done",
        problem=None,
        score=Score(success),
        seconds=9.5,
        started="2026-11-15T12:00:00+00:00",
        steps=(step, replace(step, event=event, sent=((0, 1), -1), reply=3)),
        messages=tuple({"role": "user", "content": f"word {number}"} for number in range(4)),
        made=({"role": "user", "content": "a summary"},),
    )
