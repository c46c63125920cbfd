"""Recorded sketches of several drafts, held against each other at the points that all of them have.

    python benchmarks/recorded_drafts.py FILE.jsonl.gz FILE.jsonl.gz …

Readable: sketches that are plans. Usable: points with as many of them as FOCUS asks for. Then evidence recall, mean
over points, and the share of span tokens left, for the paper's FOCUS-D and for FOCUS as it is shipped (N = 3, half
of the span tokens as its target), and for the newest spans with as many tokens as FOCUS-D left. An event without enough
plans keeps everything.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from statistics import fmean

from focusctx.baselines.embedders import embedder_from
from focusctx.config import FocusConfig
from focusctx.pipeline.draft import read_sketch
from focusctx.replay.facts import Evidence
from focusctx.replay.runs import read_runs
from focusctx_bench.replay.ablations.settings import Variant, VariantOutcome, judge
from focusctx_bench.replay.points import Place, Point
from focusctx_bench.replay.sketches import PointSketches, points_recorded, read_sketches
from page import SHARED, are_there

PAPER = Variant("", "FOCUS-D", FocusConfig.paper())
SHIPPED = Variant("", "FOCUS", FocusConfig(), 0.5)


def readable(recorded: PointSketches) -> int:
    spans = range(1, recorded.spans + 1)
    read = (read_sketch(reply.text, spans, truncated=reply.truncated) for reply in recorded.as_replies())
    return sum(sketch.problem is None for sketch in read)


async def outcomes(variant: Variant, points: dict[Place, Point], recorded: list[PointSketches]) -> list[VariantOutcome]:
    embed = embedder_from("words")
    found = [await judge(variant, points[one.key], one, embed) for one in recorded]
    return [outcome for outcome in found if outcome is not None]


def shares(found: list[VariantOutcome]) -> str:
    return f"{fmean(one.recall for one in found if one.needed):.3f} at {fmean(one.left for one in found):.3f}"


async def row(name: str, points: dict[Place, Point], recorded: list[PointSketches]) -> list[str]:
    paper, shipped = await outcomes(PAPER, points, recorded), await outcomes(SHIPPED, points, recorded)
    newest = fmean(one.newest for one in paper if one.needed)
    plans = [readable(one) for one in recorded]
    asked = sum(len(one.replies) for one in recorded)
    usable = fmean(1 - one.failed for one in paper)
    share = f"{sum(plans) / asked:.0%}"
    return [name, f"{len(recorded)}", share, f"{usable:.0%}", shares(paper), f"{newest:.3f}", shares(shipped)]


async def main() -> int:
    parser = argparse.ArgumentParser(description="Recorded sketches of several drafts, compared.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="recorded sketches")
    parser.add_argument("--data", type=Path, default=SHARED / "trajectories")
    arguments = parser.parse_args()
    if not are_there(arguments.data):
        return 2
    drafts = [{one.key: one for one in read_sketches(path)} for path in arguments.files]
    places = set.intersection(*map(set, drafts))
    common = [one for place, one in drafts[0].items() if place in places]
    runs = read_runs([arguments.data])
    found = [point for run in runs for point in points_recorded(Evidence(run), common)]
    points = {point.place: point for point in found}
    print("| draft | points | readable | usable | FOCUS-D: recall at tokens left | newest at as many | FOCUS |")
    print("|---|---|---|---|---|---|---|")
    for draft in drafts:
        own = [draft[place] for place in points]
        print(f"| {' | '.join(await row(own[0].draft or 'recorded', points, own))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
