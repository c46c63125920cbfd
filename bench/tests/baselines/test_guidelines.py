"""The guidelines that this package carries: complete, made from training tasks, used unless others are given."""

import json
from pathlib import Path

import pytest

from focusctx.errors import ConfigError
from focusctx_bench.baselines.acon import GUIDELINES, START, read_guideline, shipped
from focusctx_bench.components import method_of
from focusctx_bench.job import Job, Variant
from focusctx_bench.protocols import Options

BENCHMARKS = ("office", "qa8", "tau2")


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("kind", ["ut", "utco"])
def test_each_says_how_it_was_made(benchmark: str, kind: str) -> None:
    about = json.loads((GUIDELINES / benchmark / f"{kind}.json").read_text(encoding="utf-8"))
    made_on = about["benchmarks"][benchmark]
    assert made_on["seed"] == 1042 if benchmark == "office" else made_on["split"] == "train"
    assert about["optimiser"]
    assert about["tasks"]
    assert len(about["feedback"]) == len(about["tasks"])


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_second_is_shorter(benchmark: str) -> None:
    ut, utco = (read_guideline(shipped(benchmark, kind) or "") for kind in ("ut", "utco"))
    assert len({START.strip(), ut.strip(), utco.strip()}) == 3
    assert len(utco) < len(ut)


def variant(benchmark: str, guideline: str | None = None) -> Variant:
    job = Job(
        benchmarks={benchmark: Options()},
        methods=("acon-ut",),
        drafts=("openai:x@http://127.0.0.1:1/v1",),
        guideline_ut=guideline,
    )
    (only,) = job.variants(benchmark)
    return only


def test_a_run_uses_the_shipped_one_unless_another_is_given(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("Keep ids.")
    own = variant("office", str(tmp_path / "mine.md"))
    assert variant("office").settings["guideline_ut"] == "shipped:office/ut.md"
    assert "Keep ids." in method_of("office", own)().system  # type: ignore[attr-defined]
    assert read_guideline("shipped:office/ut.md").strip() in method_of("office", variant("office"))().system  # type: ignore[attr-defined]


def test_a_benchmark_without_one_needs_a_file() -> None:
    assert shipped("appworld", "ut") is None
    with pytest.raises(ConfigError, match="acon-ut needs the file of a guideline: `focusctx bench acon` makes one"):
        method_of("appworld", variant("appworld"))
