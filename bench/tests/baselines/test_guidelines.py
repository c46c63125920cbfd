"""The guidelines that this package carries: complete, made from training tasks, used only where they are named."""

import json

import pytest

from focusctx.errors import ConfigError
from focusctx_bench.baselines.summary import GUIDELINES, START, read_guideline
from focusctx_bench.job import Job, Variant
from focusctx_bench.protocols import Options
from focusctx_bench.run import method_of

BENCHMARKS = ("office", "qa8", "tau2")


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("kind", ["ut", "utco"])
def test_each_says_how_it_was_made(benchmark: str, kind: str) -> None:
    about = json.loads((GUIDELINES / benchmark / f"{kind}.json").read_text(encoding="utf-8"))
    made_on = about["benchmarks"][benchmark]
    assert made_on["seed"] == 1042 if benchmark == "office" else made_on["split"] == "train"
    assert about["optimiser"]
    assert "ummaries" in about["note"]
    assert about["tasks"]
    assert len(about["feedback"]) == len(about["tasks"])


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_second_is_shorter(benchmark: str) -> None:
    ut, utco = (read_guideline(f"shipped:{benchmark}/{kind}.md") for kind in ("ut", "utco"))
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


def test_a_shipped_one_is_used_by_its_name() -> None:
    method = method_of("office", variant("office", "shipped:office/ut.md"))()
    assert read_guideline("shipped:office/ut.md").strip() in method.system  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"shipped:appworld/ut\.md cannot be read"):
        method_of("appworld", variant("appworld", "shipped:appworld/ut.md"))


@pytest.mark.parametrize("benchmark", [*BENCHMARKS, "appworld"])
def test_no_run_takes_one_by_itself(benchmark: str) -> None:
    with pytest.raises(ConfigError, match="acon-ut needs the file of a guideline: `focusctx bench acon` makes one"):
        method_of(benchmark, variant(benchmark))
