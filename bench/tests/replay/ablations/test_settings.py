"""Settings at recorded points: what each keeps, against what can be told by hand."""

from pathlib import Path
from statistics import fmean

import pytest

from focusctx.baselines.embedders import embedder_from
from focusctx.compressor import Focus
from focusctx.config import FocusConfig
from focusctx.replay.facts import Evidence
from focusctx.replay.runs import read_runs
from focusctx_bench.replay.ablations.settings import (
    GROUPS,
    Variant,
    figures,
    judge,
    judge_variants,
    tables,
    variants,
)
from focusctx_bench.replay.points import Point, points_of
from focusctx_bench.replay.sketches import PointSketches, read_sketches
from focusctx_bench.report.document import Number
from replay.logs import chat, long_run, run_of, step

SHARED = Path(__file__).parents[5] / "shared"


def recorded(point: Point, *cited: str) -> PointSketches:
    return PointSketches.at(point, (f"Step: go on | Depends on: [{labels}]" for labels in cited))


@pytest.fixture
def point() -> Point:
    return points_of(Evidence(long_run()), 400, (1,))[0]


def test_every_group_has_the_row_it_is_held_against() -> None:
    names = {(variant.group, variant.name) for variant in variants()}
    assert set(GROUPS.items()) <= names
    assert {group for group, _ in names} == set(GROUPS)


async def test_one_variant_at_one_point(point: Point) -> None:
    embed = embedder_from("words")
    spans = len(point.history.spans)
    needed = {fact for fact in point.needed if fact.startswith("key_")}
    holders = sorted(int(fact.removeprefix("key_")) for fact in needed)
    paper = FocusConfig.paper()
    cites = ", ".join(f"s_{index}" for index in holders)
    all_cited = await judge(Variant("N", "N = 3", paper), point, recorded(point, *[cites] * 3), embed)
    assert all_cited is not None
    assert (all_cited.needed, all_cited.recall, all_cited.complete) == (len(needed), 1.0, 1.0)
    assert all_cited.left < 1
    assert all_cited.sketches == 3
    none_cited = await judge(Variant("N", "N = 3", paper), point, recorded(point, "", "", ""), embed)
    assert none_cited is not None
    assert none_cited.recall == (spans in holders) / len(needed)  # the newest span stays
    assert none_cited.left == pytest.approx(point.history.spans[-1].tokens / point.span_tokens)


async def test_only_levels_cut_a_step() -> None:
    """The history of a point is cut into passages, whatever a variant makes of it."""
    lines = "\n".join(f"line {number} has key_{number:04} among other words" for number in range(60))
    steps = [step(number, {"page": f"page_{number}"}, lines) for number in range(1, 7)]
    long = points_of(Evidence(run_of(chat(*steps, task="Read."))), 400, (4,))[0]
    sent = {id(message) for message in long.sent}
    for levels in (True, False):
        config = Variant("", "", FocusConfig(levels=levels), 0.5).at(long)
        result = await Focus("offline", config=config).acompress(long.history)
        assert result.compressed
        assert bool(result.shortened) == levels
        assert all(id(message) in sent for message in result.messages) != levels


async def test_groups_of_sketches_are_averaged_and_too_few_are_no_outcome(point: Point) -> None:
    embed = embedder_from("words")
    one = Variant("N", "N = 1", FocusConfig.paper(rollouts=1))
    cited = ("", ", ".join(span.label for span in point.history.spans))
    both = await judge(one, point, recorded(point, *cited), embed)
    nothing, everything = [await judge(one, point, recorded(point, labels), embed) for labels in cited]
    assert both is not None
    assert nothing is not None
    assert everything is not None
    assert (everything.recall, everything.left) == (1.0, 1.0)
    assert both.recall == pytest.approx((nothing.recall + 1) / 2)
    assert both.left == pytest.approx((nothing.left + 1) / 2)
    assert both.sketches == 1
    five = Variant("N", "N = 5", FocusConfig.paper(rollouts=5))
    assert await judge(five, point, recorded(point, *cited), embed) is None


async def test_a_draft_that_fails_leaves_everything(point: Point) -> None:
    nonsense = PointSketches(
        file=point.file, id=point.run, messages=point.messages, spans=1, budget=point.budget, replies=("no",) * 3
    )
    outcome = await judge(Variant("N", "N = 3", FocusConfig.paper()), point, nonsense, embedder_from("words"))
    assert outcome is not None
    assert (outcome.failed, outcome.recall, outcome.left) == (1.0, 1.0, 1.0)


@pytest.mark.skipif(not (SHARED / "sketches").is_dir(), reason="the recorded sketches are not here")
def test_the_recorded_sketches_give_the_known_figures() -> None:
    sketches = read_sketches(SHARED / "sketches" / "sketches.jsonl")
    small = [one for one in sketches if one.file.startswith("swebench_deepseek")]
    runs = read_runs([SHARED / "trajectories" / "swebench_deepseek.jsonl"])
    found, tally = judge_variants(runs, small, 1, lambda _: None)
    assert (tally.done, tally.failures) == ({"runs": len(small)}, 0)
    names = {(group, name): outcomes for group, rows in found.items() for name, outcomes in rows.items()}
    paper = names["FOCUS-O against FOCUS-D", "FOCUS-D"]
    assert len(paper) == len(small) == 8
    assert ("N", "N = 10") not in names
    assert names["N", "N = 3"] == paper == names["τ at N = 3", "τ = 0.3"]
    assert all(outcome.failed == 0 for outcomes in names.values() for outcome in outcomes)
    on_top, off = "Levels and targets on top of the paper", "Levels and targets off the default"
    whole = [names[on_top, f"whole steps, target {share}"] for share in (0.3, 0.5, 0.7)]
    assert [fmean(one.left for one in some) for some in whole] == sorted(
        fmean(one.left for one in some) for some in whole
    )
    default, levels_off = names[off, "default: levels, target 0.5"], names[off, "levels off"]
    assert levels_off == whole[1], "with whole-step citations only the levels differ"
    assert fmean(one.recall for one in default) > fmean(one.recall for one in levels_off)
    assert all(one.left <= 0.5 for one in default)
    made = {table.key: table for table in tables(found)}
    base = made["n"].rows[-1]
    assert base.name == "N = 3"
    assert isinstance(base.cells[0], Number)
    assert base.cells[0].value == pytest.approx(sum(one.recall for one in paper) / 8)
    assert [figure.key for figure in figures(found)] == ["front"]
