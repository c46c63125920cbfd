"""Recorded sketches: kept, played, asked for again after a kill."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from focusctx import Focus, FocusConfig
from focusctx.drafts import ScriptedDraft
from focusctx.errors import BenchError, DraftError
from focusctx.jobs.runner import Tally
from focusctx.replay.facts import Evidence
from focusctx.types import Prompt, Reply, Usage
from focusctx_bench.replay.points import Point, points_of
from focusctx_bench.replay.sketches import (
    PointSketches,
    RecordedDraft,
    points_recorded,
    read_sketches,
    record_sketches,
    sketch_file,
)
from replay.logs import long_run, run_of

PLAN = "Step: go on | Depends on: [s_2]"
CONFIG = FocusConfig.paper(rollouts=2, budget=300)


def points() -> list[Point]:
    return points_of(Evidence(long_run(40)), 300)


def ask(draft: object, path: Path, at_once: int = 8) -> Tally:
    file = sketch_file(path)
    return record_sketches(draft, points(), file, config=CONFIG, at_once=at_once, watch=lambda _: None)  # type: ignore[arg-type]


def test_what_is_recorded_can_be_played(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "sketches.jsonl"
    cut = f"{PLAN}\nStep: and then | Depends on: [s_"
    draft = ScriptedDraft([Reply(PLAN, Usage(1, 100, 10)), Reply(cut, truncated=True)])
    assert ask(draft, path).done == {"log.jsonl": 3}
    recorded = read_sketches(path)
    first = recorded[0]
    assert (first.replies, first.truncated, first.draft) == ((PLAN, cut), (1,), "scripted")
    assert (first.input_tokens, first.output_tokens) == (100, 10)
    assert first.settings["rollouts"] == 2
    run = long_run(40)
    for point in points_recorded(Evidence(run), recorded):
        result = Focus(RecordedDraft(run, recorded), config=CONFIG).compress(list(point.sent))
        assert result.kept == (2, len(point.history.spans))
        assert sorted(sketch.text for sketch in result.sketches) == [PLAN, cut]


def test_a_part_of_the_recorded_is_no_matter_of_who_was_first() -> None:
    """Short sketches are finished first; three of ten must not be the three shortest."""
    recorded = [
        PointSketches(file="f", id=str(run), messages=3, spans=2, budget=9, replies=tuple("abcdefghij"), truncated=(9,))
        for run in range(200)
    ]
    drawn = [one.as_replies() for one in recorded]
    assert drawn == [one.as_replies() for one in recorded]
    assert all(sorted(reply.text for reply in replies) == list("abcdefghij") for replies in drawn)
    assert all(reply.truncated == (reply.text == "j") for replies in drawn for reply in replies)
    first = Counter(reply.text for replies in drawn for reply in replies[:3])
    assert min(first[letter] for letter in "abcdefghij") > 30  # 60 each, on average


def test_what_is_there_is_not_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "sketches.jsonl"
    assert ask(ScriptedDraft([PLAN]), path).done == {"log.jsonl": 3}
    text = path.read_text()
    path.write_text(text[: text.rindex("\n", 0, -1) + 50])  # a kill in the middle of the third line
    tally = ask(ScriptedDraft([PLAN]), path)
    assert (tally.before, tally.done, tally.failures) == ({"log.jsonl": 2}, {"log.jsonl": 1}, 0)
    assert len(read_sketches(path)) == 3


def test_points_that_fail_are_named_and_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "sketches.jsonl"
    tally = ask(ScriptedDraft([PLAN, PLAN, PLAN, DraftError("no more")]), path, at_once=1)
    assert (tally.done, tally.failures) == ({"log.jsonl": 2}, 1)
    assert tally.last_problem == "log.jsonl, long, message 22: 1 of 2 sketches, no more"
    assert ask(ScriptedDraft([PLAN]), path).done == {"log.jsonl": 1}


def test_many_points_are_asked_about_at_once(tmp_path: Path) -> None:
    class Together:
        """Answers nobody before all three are there."""

        name = "together"

        def __init__(self) -> None:
            self.there = 0

        async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
            self.there += 1
            while self.there < 3:
                await asyncio.sleep(0)
            for _ in range(n):
                yield Reply(PLAN)

    assert ask(Together(), tmp_path / "sketches.jsonl").done == {"log.jsonl": 3}


async def test_elsewhere_the_other_draft_is_asked() -> None:
    run = long_run(40)
    history = run.history(30)
    recorded = [
        PointSketches(file=run.file, id=run.id, messages=30, spans=14, budget=300, replies=("one", "two", "three")),
        PointSketches(file=run.file, id="another", messages=32, spans=15, budget=300, replies=("other",)),
    ]
    draft = RecordedDraft(run, recorded, ScriptedDraft(["otherwise"]))

    async def said(spans: int, first: int = 1, n: int = 2) -> list[str]:
        shown = history.spans[first - 1 : spans]
        prompt = Prompt("", "", history.__class__("", shown))
        return [reply.text async for reply in draft.sample(prompt, n)]

    assert await said(14) == ["one", "two"]
    assert await said(13) == ["otherwise", "otherwise"]
    assert await said(14, first=2) == ["otherwise", "otherwise"], "something was dropped before"
    alone = RecordedDraft(run, recorded)
    with pytest.raises(DraftError, match="no sketches were recorded"):
        _ = [reply async for reply in alone.sample(Prompt("", "", history.__class__("", history.spans[:3])), 1)]


def test_sketches_of_another_run_are_refused() -> None:
    run = long_run(40)
    wrong = PointSketches(file=run.file, id=run.id, messages=30, spans=9, budget=300, replies=())
    with pytest.raises(BenchError, match="has 14 spans, but its sketches are about 9"):
        points_recorded(Evidence(run), [wrong])
    assert points_recorded(Evidence(run_of(list(run.messages), id="other")), [wrong]) == []


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="make it with `focusctx replay record`"):
        read_sketches(tmp_path / "no.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"file": "x"}\n')
    with pytest.raises(BenchError, match="line 1 is not a record of this command"):
        read_sketches(tmp_path / "bad.jsonl")
