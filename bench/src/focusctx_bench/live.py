"""Live runs compared arm by arm, from their records: the score, and what the agent did under compression.

Arms are paired by task, with intervals. Tokens are cl100k_base, without system prompt and tool definitions. For
runs through a proxy they are the proxy's.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from scipy import stats

from focusctx.errors import BenchError
from focusctx.replay.lines import Interval
from focusctx.types import Message, Usage

from .job import runs_below
from .record import Record, Step
from .report.document import markdown_table
from .report.drawing import Figure, Theme, bars, drawn
from .sizes import size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CACHED = 0.1
"""Price of a token that the provider has in its cache, in tokens at full price."""

_SENTENCE = re.compile(r"[^.!?\n]+\?")
_CONTENT = re.compile(r"[a-z]{4,}")
_NO_FACT = re.compile(
    r"anything else|help you|proceed|confirm|would you like|shall I|should I|correct\?", re.IGNORECASE
)
"""Questions that ask for consent, or for nothing."""
_FILLER = frozenset(re.findall(r"\w+", "could please what which your have with that this there about provide tell"))
_ALIKE = 0.6
"""Share of content words that two questions have in common if they ask for the same thing."""
_WRITES = re.compile(r"add|book|buy|cancel|create|delete|edit|modify|move|pay|post|put|remove|send|set|update|write")
"""A word of a tool's name that says it changes something, whatever the other words say."""
_READS = re.compile(
    r"read|list|get|find|search|show|view|look|lookup|fetch|check|query|describe|help|history|status|sent|inbox|calculate|"
    r"compute|think|login|authenticate|scroll|browse|screenshot|cat|ls"
)
"""A word that says it changes nothing. A login is among them: doing it again only costs a step."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FAILED = re.compile(r"\s*(error|failed|failure|exception|traceback|\{\s*\"error\")", re.IGNORECASE)
_SEED = 42
_RESAMPLES = 9999
_PAIRED = {
    "success": "score",
    "tokens_per_request": "tokens per request",
    "cache_priced": "tokens at cache prices",
    "steps": "steps",
    "deeds_twice": "deeds done twice",
    "lookups_repeated": "look-ups repeated",
    "asked_again": "asked again",
}
_NOTES = f"""\
Done: the benchmark's own score, with a 95 % Wilson interval. Won and lost: tasks in which only this arm, or only the \
reference, succeeded, with the p value of an exact McNemar test. Everything else is a mean per task. Tokens are \
cl100k_base, without system prompt and tool definitions; of the full history: tokens sent, as a share of what the same \
run would have sent uncompressed. At cache prices: tokens in the unchanged beginning of a request count {CACHED:g}. \
Deeds done twice: a call that changes something, repeated with equal arguments after it had succeeded. Look-ups \
repeated: a call that only reads, repeated with equal arguments when its result was no longer sent (through a proxy: \
when anything was left out). Asked again: questions whose words an earlier, answered question had; an estimate."""


def write(arms: Sequence[Arm], out: Path, reference: str | None = None) -> list[Path]:
    """Write all files into the folder, and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    runs = [asdict(run) for arm in arms for run in arm.runs.values()]
    with (out / "runs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(LiveRun)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(runs)
    (out / "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
    files, parts = [out / "table.md", out / "runs.csv", out / "runs.jsonl"], ["# Live runs"]
    # Sorting is stable: arms stay in the order they were given.
    for benchmark, group in groupby(sorted(arms, key=lambda arm: arm.benchmark), key=lambda arm: arm.benchmark):
        some = list(group)
        base = reference_of(some, reference)
        parts += [f"## {benchmark}", _main(some, base), f"![success against tokens per request]({benchmark}.svg)"]
        if len(some) > 1:
            heading = f"Difference to {base.name}, task by task, with 95 % bootstrap intervals:"
            parts += [heading, _paired(some, base)]
        note = "In bars: 95 % confidence."
        figure = Figure(benchmark, f"{benchmark}: success against tokens per request", note, partial(_draw, some))
        for form in ("svg", "png"):
            path = out / f"{benchmark}.{form}"
            path.write_bytes(drawn(figure, form=form))
            files.append(path)
    (out / "table.md").write_text("\n\n".join([*parts, _NOTES]) + "\n", encoding="utf-8")
    return files


def _main(arms: Sequence[Arm], base: Arm) -> str:
    rows = []
    for arm in arms:
        against, success = pair(arm, base), arm.success
        done = sum(run.success for run in arm.runs.values())
        compared = arm is not base and against.tasks > 0
        p = f"{against.p:.2f}" if against.p >= 0.01 else "< 0.01"
        row = {
            "arm": arm.name,
            "done": f"{done:g} of {len(arm.runs)} [{success.low:.0%}, {success.high:.0%}]",
            "won / lost": f"{against.won} / {against.lost} of {against.tasks}" if compared else "–",
            "p": p if compared else "–",
            "tokens per request": f"{arm.mean('tokens_per_request'):,.0f}",
            "of the full history": f"{arm.mean('share'):.0%}",
            "tokens in all": f"{arm.mean('tokens'):,.0f}",
            "at cache prices": f"{arm.mean('cache_priced'):,.0f}",
            "draft's tokens": f"{arm.mean('draft_tokens'):,.0f}",
            "steps": f"{arm.mean('steps'):.1f}",
            "deeds done twice": f"{arm.mean('deeds_twice'):.1f}",
            "look-ups repeated": f"{arm.mean('lookups_repeated'):.1f}",
            "asked again": f"{arm.mean('asked_again'):.1f}",
            "prefix moves": f"{arm.mean('prefix_moves'):.1f}",
        }
        rows.append(row)
    return markdown_table([*rows[0]], [[*row.values()] for row in rows])


def _paired(arms: Sequence[Arm], base: Arm) -> str:
    rows = []
    for arm in arms:
        if arm is not base and pair(arm, base).tasks:
            cells = [arm.name]
            for number in _PAIRED:
                found = difference(arm, base, number)
                digits = 0 if abs(found.mean) >= 100 else 2
                cells.append(f"{found.mean:+,.{digits}f} [{found.low:+,.{digits}f}, {found.high:+,.{digits}f}]")
            rows.append(cells)
    return markdown_table(["arm", *_PAIRED.values()], rows)


def _draw(arms: Sequence[Arm], axes: Axes, theme: Theme) -> None:
    for number, arm in enumerate(arms):
        found = arm.success
        axes.errorbar(
            [arm.mean("tokens_per_request")],
            [100 * found.mean],
            yerr=bars([found], 100),
            **theme.look(number),
            capsize=3,
            linestyle="none",
            label=f"{arm.name} ({len(arm.runs)})",
        )
    axes.set_xlabel("tokens per request, mean")
    axes.set_ylabel("tasks done, %")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 105)
    axes.legend(loc="lower left")


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    benchmark: str
    runs: dict[str, LiveRun]
    """Runs by task."""

    def mean(self, number: str) -> float:
        return fmean(getattr(run, number) for run in self.runs.values())

    @property
    def success(self) -> Interval:
        """Mean score, with Wilson's interval where every run either succeeded or failed."""
        scores = [run.success for run in self.runs.values()]
        if not set(scores) <= {0.0, 1.0}:
            return bootstrapped(scores)
        interval = stats.binomtest(int(sum(scores)), len(scores)).proportion_ci(method="wilson")
        return Interval(fmean(scores), interval.low, interval.high)


@dataclass(frozen=True, slots=True)
class Pairing:
    """An arm against a reference, over the tasks that both have run."""

    tasks: int
    won: int
    """Tasks in which only this arm succeeded …"""
    lost: int
    """… and in which only the reference did."""

    @property
    def p(self) -> float:
        """Exact McNemar test of "neither is better"."""
        different = self.won + self.lost
        return stats.binomtest(self.won, different).pvalue if different else 1.0


def pair(arm: Arm, reference: Arm) -> Pairing:
    common = [(run, reference.runs[task]) for task, run in arm.runs.items() if task in reference.runs]
    won = sum(ours.success > theirs.success for ours, theirs in common)
    return Pairing(len(common), won, sum(ours.success < theirs.success for ours, theirs in common))


def difference(arm: Arm, reference: Arm, number: str) -> Interval:
    """Return the mean of arm minus reference over common tasks, with a bootstrap interval."""
    paired = [
        float(getattr(run, number) - getattr(reference.runs[task], number))
        for task, run in arm.runs.items()
        if task in reference.runs
    ]
    if not paired:
        raise BenchError(f"{arm.name} and {reference.name} have no task in common")
    return bootstrapped(paired)


def bootstrapped(values: Sequence[float]) -> Interval:
    """Return the mean with a 95 % percentile interval of a bootstrap with a fixed seed."""
    mean = fmean(values)
    if len(set(values)) == 1:
        return Interval(mean, mean, mean)
    found = stats.bootstrap((values,), fmean, n_resamples=_RESAMPLES, vectorized=False, method="percentile", rng=_SEED)
    return Interval(mean, found.confidence_interval.low, found.confidence_interval.high)


def read_arms(folders: Sequence[str]) -> list[Arm]:
    """Read the runs of `[NAME=]FOLDER`s. Without a name, an arm is called after its method."""
    arms: dict[tuple[str, str], Arm] = {}
    for text in folders:
        name, equals, path = text.partition("=")
        for folder in runs_below(Path(path if equals else text)):
            records = list(folder.records)
            several = len({record.variant for record in records}) > 1
            for record in records:
                label = record.variant if several else record.method
                if equals:
                    label = f"{name} {label}" if several else name
                arm = arms.setdefault((record.benchmark, label), Arm(label, record.benchmark, {}))
                if record.task in arm.runs:
                    raise BenchError(f"two runs of {record.task} under {label!r}: give the folders names, NAME=FOLDER")
                arm.runs[record.task] = measure(record, label)
    if not arms:
        raise BenchError("no finished run in these folders")
    return list(arms.values())


def reference_of(arms: Sequence[Arm], name: str | None) -> Arm:
    """Return the arm that others are compared with: the named one, else `full`, `none`, or the first."""
    if name is not None:
        found = next((arm for arm in arms if arm.name == name), None)
        if found is None:
            raise BenchError(f"no arm {name!r}; arms: {', '.join(arm.name for arm in arms)}")
        return found
    return next((arm for arm in arms if arm.name in ("full", "none")), arms[0])


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A task under one arm."""

    arm: str
    benchmark: str
    task: str
    success: float
    ended: str
    steps: int
    tokens_per_request: float
    share: float
    """Tokens sent, as a share of what the run's own full history would have taken."""
    tokens: int
    """Tokens of all requests together."""
    cache_priced: float
    """Tokens in all, with cached tokens at a tenth; everything behind a moved prefix is read anew."""
    draft_tokens: int
    """Tokens that drafts, summarisers and embedders read and wrote."""
    deeds_twice: int
    """Calls that change something, made again with equal arguments after they had succeeded."""
    lookups_repeated: int
    """Calls that only read, made again with equal arguments after their result was no longer sent."""
    asked_again: int
    """Questions to the user that the user had answered before; by their words, so an estimate."""
    prefix_moves: int
    """Requests that did not begin with the whole request before."""


def measure(record: Record, arm: str) -> LiveRun:
    steps = record.steps
    sent = sum(step.input_tokens for step in steps)
    full = sum(step.history_tokens for step in steps)
    moved, priced = _through_proxy(record) if record.proxy else _as_sent(record)
    drafted = sum((step.event.usage for step in steps if step.event), Usage())
    told: Mapping[str, int] = (record.proxy or {}).get("draft", {})
    by_proxy = told.get("input", 0) + told.get("output", 0)
    calls = repeated(calls_of(record.messages))
    at_turn = {step.reply: step for step in steps}
    return LiveRun(
        arm=arm,
        benchmark=record.benchmark,
        task=record.task,
        success=record.score.success,
        ended=record.ended,
        steps=len(steps),
        tokens_per_request=sent / max(len(steps), 1),
        share=sent / max(full, 1),
        tokens=sent,
        cache_priced=priced,
        draft_tokens=drafted.input_tokens + drafted.output_tokens + by_proxy,
        deeds_twice=sum(not call.is_read for call, _ in calls),
        lookups_repeated=sum(
            call.is_read and _was_cut(record, at_turn[call.turn], [one.result for one in before if one.result])
            for call, before in calls
        ),
        asked_again=asked_again(record.messages),
        prefix_moves=moved,
    )


def asked_again(messages: Sequence[Message]) -> int:
    """Count questions to the user whose words an earlier question had, which the user answered."""
    answered: list[set[str]] = []
    pending: list[set[str]] = []
    found = 0
    for message in messages:
        if message["role"] == "user":
            answered += pending
            pending = []
        elif message["role"] == "assistant" and not message.get("tool_calls"):
            sentences = _SENTENCE.findall(str(message.get("content") or ""))
            asked = [set(_CONTENT.findall(text.lower())) - _FILLER for text in sentences if not _NO_FACT.search(text)]
            pending = [words for words in asked if len(words) > 1]
            found += sum(
                any(len(words & other) / len(words | other) >= _ALIKE for other in answered) for words in pending
            )
    return found


def _as_sent(record: Record) -> tuple[int, float]:
    """Return prefix moves and cache-priced tokens, from the requests as they were sent."""
    before: list[Message] = []
    moves, priced = 0, 0.0
    for step in record.steps:
        now = record.sent(step)
        same = next((place for place, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), None)
        shared = min(len(before), len(now)) if same is None else same
        moves += shared < len(before)
        priced += step.input_tokens - (1 - CACHED) * size(now[:shared])
        before = now
    return moves, priced


def _through_proxy(record: Record) -> tuple[int, float]:
    """Return both for a run through a proxy, which does not say where a prefix moved: all of it counts as new."""
    assert record.proxy is not None
    moved = {entry["request"] for entry in record.proxy.get("log", ()) if entry["happened"]}
    priced = 0.0
    before = 0
    for number, step in enumerate(record.steps, 1):
        priced += step.input_tokens - (0 if number in moved else (1 - CACHED) * min(before, step.input_tokens))
        before = step.input_tokens
    return len(moved), priced


def _was_cut(record: Record, step: Step, results: Sequence[Message]) -> bool:
    """Return True if none of these results was in the request of a step; through a proxy: if anything was cut."""
    if record.proxy:
        return step.input_tokens < step.history_tokens
    sent = record.sent(step)
    return not any(result is message or result == message for result in results for message in sent)


@dataclass(frozen=True, slots=True)
class PastCall:
    """A tool call with its result."""

    turn: int
    """Position of the assistant message in the history."""
    name: str
    arguments: str
    """Canonical JSON."""
    result: Message | None
    """None if the run ended before there was one."""

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.arguments

    @property
    def is_read(self) -> bool:
        """True if the tool's name says that it changes nothing."""
        words = [word.lower() for word in _WORD.findall(self.name)]
        return any(map(_READS.fullmatch, words)) and not any(map(_WRITES.fullmatch, words))

    @property
    def succeeded(self) -> bool:
        return self.result is not None and not _FAILED.match(str(self.result.get("content") or ""))


def calls_of(messages: Sequence[Message]) -> list[PastCall]:
    """Return the calls of a history, in order."""
    results = {message["tool_call_id"]: message for message in messages if message["role"] == "tool"}
    return [
        PastCall(turn, call["function"]["name"], _canonical(call["function"]["arguments"]), results.get(call["id"]))
        for turn, message in enumerate(messages)
        for call in message.get("tool_calls") or ()
    ]


def repeated(calls: Sequence[PastCall]) -> list[tuple[PastCall, list[PastCall]]]:
    """Return each call that had succeeded before with equal arguments, and the calls that had."""
    done: dict[tuple[str, str], list[PastCall]] = {}
    found = []
    for call in calls:
        if before := done.get(call.key):
            found.append((call, list(before)))
        if call.succeeded:
            done.setdefault(call.key, []).append(call)
    return found


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True, ensure_ascii=False)
    except ValueError:
        return arguments
