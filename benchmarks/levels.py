"""Measure what levels and a target keep, with no model: the figures of docs/results/levels.md.

    python benchmarks/levels.py [--half tuning|reporting] [--out docs/results/levels.md]

Three questions, asked of the recorded runs:

1. *Events*: where a run's full history first exceeds δ, 2δ, 4δ and 8δ, it is compressed once, with a target of a share
   of the span tokens beside the text that always stays. Recall is the share of the facts that later actions use, and
   that only past steps gave, which are still there (over all facts of a file); left is the share of span tokens.
2. *Recorded sketches*: the same at the events for which a frontier model sketched plans, citing whole steps.
3. *Walks*: every τ² run goes through a session step by step. In every view the script looks for what may never be
   forgotten: finished writes, failures that still stand, the questions that the user's answers belong to.

What counts as a write, a failure or a question is said here in plain lists and patterns, not by the code that is
measured. Events and sketches are of one half of the runs, by a hash of their ids; walks are of all.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise
from statistics import fmean

from focusctx import DraftModel, Focus, FocusConfig
from focusctx.drafts import OfflineDraft, ScriptedDraft
from focusctx.replay.facts import Evidence
from focusctx.replay.runs import Half, Run, half_of, read_runs
from focusctx.types import Message
from focusctx_bench.replay.ablations.settings import Variant
from focusctx_bench.replay.points import Point, points_of
from focusctx_bench.replay.sketches import PointSketches, points_recorded, read_sketches
from page import SHARED, options, publish, quiet, table, verdict

FILES = {
    "swebench_deepseek": ("trajectories", 4096),
    "swebench_gemini-3-pro": ("trajectories", 4096),
    "tau2_gpt-4.1_airline": ("trajectories", 1024),
    "tau2_gpt-4.1_retail": ("trajectories", 1024),
    "tau2_gpt-4.1_telecom": ("trajectories", 1024),
    "office_runs": ("live", 4096),
    "tau2_runs": ("live", 1024),
}
"""Folder and δ of each file."""
MULTIPLES = (1, 2, 4, 8)
BEFORE = {
    "swebench_deepseek": (0.868, 0.480),
    "swebench_gemini-3-pro": (0.946, 0.506),
    "tau2_gpt-4.1_airline": (0.951, 0.724),
    "tau2_gpt-4.1_retail": (0.967, 0.762),
    "tau2_gpt-4.1_telecom": (0.979, 0.525),
    "office_runs": (0.817, 0.593),
    "tau2_runs": (0.932, 0.590),
}
"""Recall and share of the default before levels (whole steps, spare room within δ filled up to 0.7 of the span tokens)
at the same events of the reporting half, measured with commit bf35efe."""
WRITES = frozenset(
    {
        *("update_reservation_flights", "update_reservation_passengers", "update_reservation_baggages"),
        *("book_reservation", "cancel_reservation", "send_certificate", "transfer_to_human_agents"),
        *("return_delivered_order_items", "exchange_delivered_order_items", "cancel_pending_order"),
        *("modify_pending_order_payment", "modify_pending_order_address", "modify_pending_order_items"),
        *("modify_user_address", "enable_roaming", "refuel_data", "send_payment_request", "resume_line"),
    }
)
"""The tools of τ²-bench that change something, of those that the recorded agents called."""
_FAILED = re.compile(r"\s*error\b", re.IGNORECASE)
_ASKING = re.compile(r"[^.!?\n]+\?")
TEXT = """\
# Levels and targets, with no model

Made by `python benchmarks/levels.py --out docs/results/levels.md` from recorded runs, in some minutes. Events and
sketches are of the {half} half of each file, by a hash of the runs' ids; settings are chosen on the tuning half and
figures published from the reporting half. The live runs (`office_runs`, `tau2_runs`) repeat tasks under several
methods, so a task can be in both halves there.

- **Events**: where a run's full history first exceeds δ, 2δ, 4δ and 8δ (δ = 4,096 for coding and office, 1,024 for
  dialogues) it is compressed once by the offline draft. The target is the text that always stays and a share of the
  span tokens. *Recall* is the share of the facts that later actions use, and that only past steps gave, which are still
  there: over all facts of a file, and as a mean over events. *Above target* counts results that are larger than the
  target, and in brackets those where task, user's words and newest step are so by themselves.
- A target is a ceiling: where nothing in the rest is expected to be needed, room stays empty. So the share that is left
  is below the target in long histories. Coding runs are held against their bar at the default target, 0.5.
- *The default before* kept whole steps and filled spare room within δ; it had no target. Dialogues are compared with it
  at the largest of a row of targets that leaves no more tokens than it did.
- **Walks**: every τ² run goes through a session (offline draft, δ = 1,024, target 0.5 of it), and every view is
  searched for the call and result of each finished write, for failures after which the tool was not called again, and
  for the asking sentences before each answer of the user. What is missing in any later view counts once. *Sent per
  request* is of the full history.

Recall counts strings, which is also what the offline draft looks for: a compass, not a proof. Live runs decide.
"""


@dataclass(frozen=True)
class Kept:
    """One event under one setting."""

    needed: int
    there: int
    spans: int
    left: int
    over: bool
    """True if the result is above its target."""
    fixed: bool
    """True if task, user's words and newest step are above the target by themselves."""


LEVELS = "levels, target 0.5"
AT_BEFORE = "levels, with at most the tokens of the default before"
TARGETS = tuple(round(0.46 + 0.02 * step, 2) for step in range(25))
"""Targets among which the one that leaves as much as the default before is looked for: room may stay empty."""


def settings() -> dict[str, Variant]:
    """Return the settings that are compared at events."""
    return {
        LEVELS: Variant("", "", FocusConfig(), 0.5),
        "levels, target 0.7": Variant("", "", FocusConfig(), 0.7),
        "whole steps, target 0.5": Variant("", "", FocusConfig(levels=False), 0.5),
        "the paper's rule: whole steps, no target": Variant("", "", FocusConfig.paper()),
    }


def kept_at(point: Point, variant: Variant, draft: DraftModel) -> Kept:
    config = variant.at(point)
    result = Focus(draft, config=config).compress(point.sent, format=point.evidence.run.format)
    judged = point.judge(result.messages)
    target = config.target or point.history.tokens
    fixed = point.history.tokens - sum(span.tokens for span in point.history.spans[:-1])
    over = result.tokens_after > target
    return Kept(judged.needed, judged.there, point.span_tokens, judged.left, over, over and fixed > target)


def events_of(run: Run, budget: int, variants: Mapping[str, Variant]) -> dict[str, list[Kept]]:
    """Compress a run where it first exceeds each multiple of the budget."""
    quiet()
    points = points_of(Evidence(run), budget, MULTIPLES)
    return {name: [kept_at(point, variant, OfflineDraft()) for point in points] for name, variant in variants.items()}


def event_rows(half: Half, pool: ProcessPoolExecutor) -> Iterator[Sequence[str]]:
    for name, (folder, budget) in FILES.items():
        runs = [run for run in read_runs([SHARED / folder / f"{name}.jsonl"]) if half_of(run.id) == half]
        yield from ((name, *row) for row in setting_rows(runs, budget, settings(), pool))
        if half == "reporting":
            recall, share = BEFORE[name]
            if name.startswith("tau2"):
                targets = {f"{AT_BEFORE}: target {one}": Variant("", "", FocusConfig(), one) for one in TARGETS}
                every = setting_rows(runs, budget, targets, pool)
                yield name, *max((row for row in every if float(row[3]) <= share), key=lambda row: float(row[3]))
            yield name, "the default before", "", f"{recall:.3f}", f"{share:.3f}", "", "", ""


def setting_rows(
    runs: Sequence[Run], budget: int, variants: Mapping[str, Variant], pool: ProcessPoolExecutor
) -> Iterator[Sequence[str]]:
    found = list(pool.map(partial(events_of, budget=budget, variants=variants), runs))
    for setting in variants:
        yield setting, *figures([kept for own in found for kept in own[setting]])


def figures(every: Sequence[Kept]) -> tuple[str, ...]:
    over = [one for one in every if one.over]
    return (
        str(len(every)),
        f"{sum(one.there for one in every) / max(sum(one.needed for one in every), 1):.3f}",
        f"{sum(one.left for one in every) / max(sum(one.spans for one in every), 1):.3f}",
        f"{fmean(one.there / one.needed for one in every if one.needed):.3f}",
        f"{sum(one.there == one.needed for one in every) / len(every):.2f}",
        f"{len(over)} ({sum(one.fixed for one in over)})",
    )


def sketched(run: Run, recorded: Sequence[PointSketches], variant: Variant) -> list[Kept]:
    """Compress a run where plans were recorded, with these."""
    quiet()
    own = {one.messages: one for one in recorded if (one.file, one.id) == (run.file, run.id)}
    points = points_recorded(Evidence(run), own.values())
    return [kept_at(point, variant, ScriptedDraft(own[point.messages].as_replies())) for point in points]


def sketch_rows(half: Half, pool: ProcessPoolExecutor) -> Iterator[Sequence[str]]:
    recorded = read_sketches(SHARED / "sketches" / "sketches.jsonl")
    runs = [run for run in read_runs([SHARED / "trajectories"]) if any(one.id == run.id for one in recorded)]
    for setting, variant in {
        "levels, target 0.45": Variant("", "", FocusConfig(), 0.45),
        "whole steps, target 0.45": Variant("", "", FocusConfig(levels=False), 0.45),
        "levels, no target": Variant("", "", FocusConfig()),
        "the paper's rule: whole steps, no target": Variant("", "", FocusConfig.paper()),
    }.items():
        found = list(pool.map(partial(sketched, recorded=recorded, variant=variant), runs))
        for name, halves in ((half, {half}), ("both", {"tuning", "reporting"})):
            chosen = [own for run, own in zip(runs, found, strict=True) if half_of(run.id) in halves]
            yield name, setting, *figures([kept for own in chosen for kept in own])


@dataclass
class Walk:
    """A run, or several, step by step through a session."""

    runs: int = 0
    views: int = 0
    events: int = 0
    over: int = 0
    over_fixed: int = 0
    writes: int = 0
    writes_lost: int = 0
    failures: int = 0
    failures_lost: int = 0
    questions: int = 0
    questions_lost: int = 0
    sent: int = 0
    full: int = 0

    def __iadd__(self, other: Walk) -> Walk:
        for field in fields(Walk):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self


def walk(run: Run, config: FocusConfig) -> Walk:
    """Send a run through a session; what is lost in any view counts once."""
    quiet()
    evidence = Evidence(run)
    writes, failures, questions = set[str](), set[str](), set[int]()
    lost_writes, lost_failures, lost_questions = set[str](), set[str](), set[int]()
    found = Walk(runs=1)
    with Focus("offline", config=config).session() as session:
        for action in evidence.actions:
            messages = run.messages[: action.messages]
            view = session.view(list(messages), format=run.format)
            calls, answered = finished_calls(messages), asked_and_answered(messages)
            own = {call for call, (name, failed) in calls.items() if name in WRITES and not failed}
            still = standing_failures(calls)
            there = finished_calls(view).keys()
            said = "\n".join(str(one.get("content") or "") for one in view if one["role"] == "assistant")
            gone = {place for place, asking in answered.items() if any(one not in said for one in asking)}
            writes |= own
            failures |= still
            questions |= answered.keys()
            lost_writes |= own - there
            lost_failures |= still - there
            lost_questions |= gone
            found.views += 1
            found.full += evidence.tokens_before(action.messages)
            found.sent += session.size[1]
        for event in session.events:
            if event.happened and event.result is not None and event.result.history is not None:
                found.events += 1
                spans = event.result.history.spans
                fixed = event.result.history.tokens - sum(span.tokens for span in spans[:-1])
                target = event.result.target or event.tokens_before
                found.over += event.tokens_after > target
                found.over_fixed += event.tokens_after > target and fixed > target
    found.writes, found.writes_lost = len(writes), len(lost_writes)
    found.failures, found.failures_lost = len(failures), len(lost_failures)
    found.questions, found.questions_lost = len(questions), len(lost_questions)
    return found


def finished_calls(messages: Iterable[Message]) -> dict[str, tuple[str, bool]]:
    """Return the calls that have a result, by their ids: the tool, and whether it failed."""
    names: dict[str, str] = {}
    found: dict[str, tuple[str, bool]] = {}
    for message in messages:
        names |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls") or ()}
        if message["role"] == "tool" and message["tool_call_id"] in names:
            call = message["tool_call_id"]
            found[call] = names[call], bool(_FAILED.match(str(message["content"])))
    return found


def standing_failures(calls: Mapping[str, tuple[str, bool]]) -> set[str]:
    """Return the failed calls after which the same tool was not called again."""
    last = {name: call for call, (name, _) in calls.items()}
    return {call for call, (name, failed) in calls.items() if failed and last[name] == call}


def asked_and_answered(messages: Sequence[Message]) -> dict[int, list[str]]:
    """Return the asking sentences of what was said to the user right before an answer, by the message's place."""
    found = {}
    for place, (said, answer) in enumerate(pairwise(messages)):
        if said["role"] == "assistant" and not said.get("tool_calls") and answer["role"] == "user":
            asking = [one.strip() for one in _ASKING.findall(str(said.get("content") or ""))]
            if asking:
                found[place] = asking
    return found


def walk_rows(pool: ProcessPoolExecutor) -> Iterator[Sequence[str]]:
    for name, (folder, budget) in FILES.items():
        if not name.startswith("tau2_gpt"):
            continue
        runs = read_runs([SHARED / folder / f"{name}.jsonl"])
        for setting, config in {
            LEVELS: FocusConfig(budget=budget),
            "the paper's rule: whole steps, no target": FocusConfig.paper(budget=budget),
        }.items():
            total = Walk()
            for one in pool.map(partial(walk, config=config), runs):
                total += one
            yield (
                name,
                setting,
                f"{total.events}",
                f"{total.writes_lost} of {total.writes}",
                f"{total.failures_lost} of {total.failures}",
                f"{total.questions_lost} of {total.questions}",
                f"{total.over} ({total.over_fixed})" if config.target else "",
                f"{total.sent / total.full:.2f}",
            )


def bars(
    events: Sequence[Sequence[str]], sketches: Sequence[Sequence[str]], walks: Sequence[Sequence[str]]
) -> Iterator[Sequence[str]]:
    """Compare the figures with what must hold."""
    by_setting = {(name, setting.partition(":")[0]): cells for name, setting, *cells in events}
    for name, (recall, share) in BEFORE.items():
        if name.startswith("swebench"):
            _, ours, left, *_ = by_setting[name, LEVELS]
            met = float(ours) >= 0.96 and float(left) <= 0.5
            yield f"{name}: recall at least .96 in at most .50 (target 0.5)", f"{ours} in {left}", verdict(met)
        elif name.startswith("tau2") and (name, AT_BEFORE) in by_setting:
            _, ours, left, *_ = by_setting[name, AT_BEFORE]
            met = float(ours) >= min(recall + 0.03, 1)
            bar = f"{name}: 3 points above the default before, or all of it, with at most its tokens"
            yield bar, f"{ours} in {left} to {recall:.3f} in {share:.3f}", verdict(met)
    _, _, _, ours, left, *_ = next(row for row in sketches if row[0] == "both")
    met = float(ours) >= 0.975 and float(left) <= 0.45
    yield "recorded sketches: at least .975 in at most .45", f"{ours} in {left}", verdict(met)
    for place, what in ((3, "finished writes without a record"), (4, "standing failures"), (5, "answered questions")):
        lost = sum(int(row[place].split()[0]) for row in walks if row[1] == LEVELS)
        every = sum(int(row[place].split()[-1]) for row in walks if row[1] == LEVELS)
        yield f"τ² walks: {what} lost: 0", f"{lost} of {every}", verdict(lost == 0)


def text_of(half: Half, pool: ProcessPoolExecutor) -> str:
    measured = ("events", "recall", "span tokens left", "mean recall", "events with all of it", "above target")
    lost = ("finished writes without a record", "standing failures without a record", "answered questions cut")
    events, sketches, walks = list(event_rows(half, pool)), list(sketch_rows(half, pool)), list(walk_rows(pool))
    return "\n".join(
        [
            TEXT.format(half=half),
            "## What must hold",
            "",
            *table(("bar", "measured", ""), bars(events, sketches, walks)),
            "",
            "## Events",
            "",
            *table(("file", "setting", *measured), events),
            "",
            "## Recorded sketches of a frontier model, which cite whole steps",
            "",
            *table(("half", "setting", *measured), sketches),
            "",
            "## Walks through τ² runs",
            "",
            *table(("file", "setting", "events", *lost, "above target", "sent per request"), walks),
            "",
        ]
    )


def main() -> int:
    parser = options("What levels and a target keep of recorded runs, with no model.")
    parser.add_argument("--half", choices=("tuning", "reporting"), default="reporting")
    arguments = parser.parse_args()
    with ProcessPoolExecutor() as pool:
        return publish(lambda: text_of(arguments.half, pool), arguments.out)


if __name__ == "__main__":
    sys.exit(main())
