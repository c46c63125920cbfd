"""Make docs/results/small-model.md from what a small model answered and scored. Needs no model and no GPU.

    python benchmarks/small_model/tables.py --out docs/results/small-model.md
    python benchmarks/small_model/tables.py --collect .small-model     # first add what gpu.py wrote to the records
    python benchmarks/small_model/tables.py --collect .small-model/held-out --held-out

The records are in docs/results/live/small-model. All differences are paired. Intervals are 95 % percentile intervals of
a bootstrap (scipy): over groups of questions, and over tasks for actions, since events of one task are not independent.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy import stats

from focusctx_bench.benchmarks.qa8 import exact_match, f1, read_answers

RECORDS = Path(__file__).parents[2] / "docs" / "results" / "live" / "small-model"
QUESTIONS, HELD_OUT, ACTIONS = "questions.jsonl.gz", "held-out.jsonl.gz", "actions.jsonl.gz"
FULL, FOCUS, NOTHING, CLEARING = "full", "focus", "nothing", "clear-tool-uses"
ARMS = {
    FULL: "full history",
    FOCUS: "**focusctx, offline draft**",
    "focus-0.7": "focusctx, target 0.7",
    "focus-before": "focusctx before (145cd48)",
    "focus-d": "the paper's rule (`focus-d`), offline draft",
    CLEARING: "clear tool uses, newest 3 stay",
    "random": "whole steps at random, at focusctx's tokens",
    "newest": "newest steps, at focusctx's tokens",
    "summary": "running summary by the same model, at most 512 tokens",
    NOTHING: "no history",
}
"""`focus-o` is not shown: the offline draft rescues next to nothing, so its views are those of `focus-d`. Neither is
`focus-again`: the views of `focus-before`, read a second time in other batches."""
QUESTION_ARMS = {**ARMS, "focus-5f31c47": "focusctx of 16 November (5f31c47)"}
TEXTUAL = "swebench_gemini-3-pro"
"""Its agent writes commands as text. Clearing knows results of tool calls only, and left all of its events alone."""
STEPS = (1, 5, 10)
ALL = tuple(range(1, 11))
Event = Mapping[str, Any]


def collect(folder: Path, *, held_out: bool = False) -> None:
    """Score what gpu.py wrote into a folder and record it, without texts that are not needed.

    Arms that it did not run keep their records. Events that views.py no longer makes are dropped.
    """
    if (folder / "questions.out.json.gz").exists():
        collect_questions(folder, HELD_OUT if held_out else QUESTIONS)
    if (folder / "actions.out.json.gz").exists():
        collect_actions(folder)


def collect_questions(folder: Path, file: str) -> None:
    right = _read(folder / "answers.json.gz")
    groups = {group["task"]: group for group in records(file)}
    for group in _read(folder / "questions.out.json.gz"):
        own = groups.setdefault(group["task"], {"task": group["task"], "arms": {}})
        if group["summary"]:
            own["summary_cut"] = group["summary"][1]
        for name, arm in group["arms"].items():
            wanted = right[group["task"]]
            answers = read_answers(arm["answer"], len(wanted)) or [""] * len(wanted)
            own["arms"][name] = {
                "read": arm["read"],
                "answers": answers,
                "f1": [round(f1(answer, one), 4) for answer, one in zip(answers, wanted, strict=True)],
                "em": [exact_match(answer, one) for answer, one in zip(answers, wanted, strict=True)],
                "cut": arm["cut"],
            }
    _write(RECORDS / file, groups.values())


def collect_actions(folder: Path) -> None:
    packed = _read(folder / "actions.json.gz")
    views = {_place(event): event["arms"] for event in packed["events"]}
    events = {_place(event): event for event in records(ACTIONS) if _place(event) in views}
    for event in _read(folder / "actions.out.json.gz"):
        summary, arms = event.pop("summary"), event.pop("arms")
        own = events.setdefault(_place(event), {**event, "arms": {}})
        if summary:
            own["summary_cut"] = summary[1]
        for name in sorted(arms, key=lambda name: name != FULL):  # the full history says which steps are scored
            scores = {step: [round(log, 4), *rest] for step, (log, *rest) in arms[name]["scores"].items()}
            own["arms"][name] = {**arms[name], "scores": scores}
            texts = views[_place(event)][name]["texts"]
            own["arms"][name]["calls"] = shows_call(texts, packed["texts"], own["arms"][FULL]["scores"])
    _write(RECORDS / ACTIONS, events.values())


def _place(event: Event) -> tuple[str, str, int]:
    return event["file"], event["run"], event["place"]


def shows_call(parts: Sequence[tuple[int, int]], texts: Sequence[str], scored: Mapping[str, Any]) -> bool:
    """Return True if a tool call can be seen before the first action that is scored. The system prompt is left out."""
    before = itertools.takewhile(lambda part: str(part[1]) not in scored, parts)
    return any("<tool_call>\n{" in texts[text] for text, _ in list(before)[1:])


def interval(numbers: Sequence[float], digits: int = 3, *, signed: bool = True) -> str:
    """Return the mean with its interval."""
    if len(numbers) < 5:
        return "too few"
    found = stats.bootstrap(
        (np.array(numbers),), np.mean, method="percentile", n_resamples=9999, rng=np.random.default_rng(42)
    ).confidence_interval
    sign = "+" if signed else ""
    shown = (f"{value:{sign}.{digits}f}".replace("-", "−") for value in (fmean(numbers), found.low, found.high))
    return "{} [{}, {}]".format(*shown)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


# Questions


def question_rows(groups: Sequence[Any]) -> Iterable[Sequence[str]]:
    full = fmean(group["arms"][FULL]["read"] for group in groups)
    for name, title in QUESTION_ARMS.items():
        if name not in groups[0]["arms"]:
            continue
        scores = [fmean(group["arms"][name]["f1"]) for group in groups]
        ours = [fmean(group["arms"][FOCUS]["f1"]) - score for group, score in zip(groups, scores, strict=True)]
        halves = [
            fmean(value for group in groups for value in group["arms"][name]["f1"][half])
            for half in (slice(0, 4), slice(4, 8))
        ]
        tokens = fmean(group["arms"][name]["read"] for group in groups)
        yield (
            title,
            interval(scores, signed=False),
            "" if name == FOCUS else interval(ours),
            f"{fmean(value for group in groups for value in group['arms'][name]['em']):.3f}",
            f"{halves[0]:.2f}, {halves[1]:.2f}",
            f"{tokens:,.0f} ({tokens / full:.0%})",
        )


# Actions


def lost(event: Event, arm: str, steps: Iterable[int]) -> float | None:
    """Return by how much less likely a view makes the recorded actions than the full history, in nats per token."""
    found = []
    for step in map(str, steps):
        if step in event["arms"][FULL]["scores"]:
            with_full, tokens, _ = event["arms"][FULL]["scores"][step]
            found.append((with_full - event["arms"][arm]["scores"][step][0]) / tokens)
    return fmean(found) if found else None


def by_run(events: Iterable[Event], measure: Callable[[Event], float | None]) -> list[float]:
    """Return the mean over the events of each run; several runs of one task count as one."""
    runs: defaultdict[str, list[float]] = defaultdict(list)
    for event in events:
        value = measure(event)
        if value is not None:
            runs[event["run"].split(" (line")[0]].append(value)
    return [fmean(values) for values in runs.values()]


def files_of(events: Iterable[Event]) -> dict[str, list[Event]]:
    files: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        files[event["file"]].append(event)
    return dict(files)


def applies(file: str, arm: str) -> bool:
    return not (file == TEXTUAL and arm == CLEARING)


def loss_rows(files: Mapping[str, Sequence[Event]], steps: Sequence[int]) -> Iterable[Sequence[str]]:
    for name, title in ARMS.items():
        if name != FULL:
            yield (
                title,
                *(
                    interval(by_run(events, partial(lost, arm=name, steps=steps)))
                    if applies(file, name)
                    else "does nothing"
                    for file, events in files.items()
                ),
            )


def share_rows(files: Mapping[str, Sequence[Event]]) -> Iterable[Sequence[str]]:
    for name, title in ARMS.items():
        if name != FULL:
            yield title, *(f"{fmean(sent(event, name) for event in events):.2f}" for events in files.values())


def sent(event: Event, arm: str) -> float:
    """Return the share of the full history that a view holds. A summary counts with its limit: most reached it."""
    tokens = event["arms"][arm]["tokens"] + (512 if arm == "summary" else 0)
    return float(tokens / event["arms"][FULL]["tokens"])


def both_call(event: Event, arm: str) -> bool:
    """Return True if the views of focus and of the arm still show a call."""
    return bool(event["arms"][FOCUS]["calls"] and event["arms"][arm]["calls"])


def ahead_rows(
    files: Mapping[str, Sequence[Event]],
    every_steps: Sequence[Sequence[int]],
    counts: Callable[[Event, str], bool] = lambda event, arm: True,  # noqa: ARG005
) -> Iterable[Sequence[str]]:
    """Compare focus with every arm: how much less it lost, by file and steps, over events that count for both."""
    for file, events in files.items():
        for steps in every_steps:
            counted = sum(lost(event, FOCUS, steps) is not None and counts(event, FOCUS) for event in events)
            cells = []
            for name in ARMS:
                if name in (FULL, FOCUS):
                    continue

                def ahead(event: Event, name: str = name, steps: Sequence[int] = steps) -> float | None:
                    ours, theirs = lost(event, FOCUS, steps), lost(event, name, steps)
                    return None if ours is None or theirs is None else theirs - ours

                own = [event for event in events if counts(event, name)]
                cells.append(interval(by_run(own, ahead)) if applies(file, name) else "does nothing")
            yield file, "1 to 10" if len(steps) > 1 else str(steps[0]), str(counted), *cells


def page(groups: Sequence[Any], held_out: Sequence[Any], events: Sequence[Event]) -> str:
    files = files_of(events)
    talks = {file: own for file, own in files.items() if file.startswith("tau2")}
    heads = ("file", "step", "events", *(title for name, title in ARMS.items() if name not in (FULL, FOCUS)))
    names = [f"{file} ({len(own)} events)" for file, own in files.items()]
    text = (Path(__file__).parent / "page.md").read_text(encoding="utf-8")
    question_heads = ("F1", "focusctx minus this", "exact match", "F1 of questions 1–4, 5–8", "tokens read")
    tables = {
        "questions": table(("240 groups of 8 questions, δ = 2,048", *question_heads), question_rows(groups)),
        "held_out": table((f"{len(held_out)} other groups, δ = 2,048", *question_heads), question_rows(held_out)),
        "all": table(("nats per token lost, steps 1 to 10", *names), loss_rows(files, ALL)),
        "first": table(("nats per token lost, step 1", *files), loss_rows(files, (1,))),
        "shares": table(("share of the full history", *files), share_rows(files)),
        "ahead": table(heads, ahead_rows(files, (*((step,) for step in STEPS), ALL))),
        "calls": table(heads, ahead_rows(talks, (ALL,), both_call)),
    }
    counts = {
        "cut_answers": sum(group["arms"]["summary"]["cut"] for group in groups),
        "cut_summaries": sum(group["summary_cut"] for group in groups),
        "groups_held_out": len(held_out),
        "cut_summaries_held_out": sum(group["summary_cut"] for group in held_out),
        "cut_event_summaries": sum(event["summary_cut"] for event in events),
        "events": len(events),
    }
    return text.format(**{name: "\n".join(rows) for name, rows in tables.items()}, **counts)


def records(name: str) -> list[Any]:
    if not (RECORDS / name).exists():
        return []
    with gzip.open(RECORDS / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _read(path: Path) -> Any:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def _write(path: Path, lines: Iterable[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Tables of what a small model answered and scored.")
    parser.add_argument("--collect", type=Path, metavar="FOLDER", help="first add what gpu.py wrote to the records")
    parser.add_argument("--held-out", action="store_true", help="they are the groups behind the first 240")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the page there too")
    arguments = parser.parse_args()
    if arguments.collect:
        collect(arguments.collect, held_out=arguments.held_out)
    text = page(records(QUESTIONS), records(HELD_OUT), records(ACTIONS))
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
