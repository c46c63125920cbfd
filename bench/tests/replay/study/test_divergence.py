"""Leave-one-out divergences, from log-likelihoods that were written by hand."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.errors import BenchError
from focusctx_bench.replay.study.findings import action_divergence, hindsight, kl, plan_divergence, sampled_curve
from focusctx_bench.replay.study.scoring import Kind, Likelihoods, Text, likelihood_file

TEXTS = (
    Text(Kind.ACTION, "open a", 2),
    Text(Kind.ACTION, "open b", 2),
    Text(Kind.PLAN, "open a\nclose a", 4),
    Text(Kind.TAKEN, "open a", 2),
)
SCORED = Likelihoods(
    place=("file.jsonl", "run", 9),
    budget=100,
    model="transformers:tiny",
    texts=TEXTS,
    full=(math.log(0.08), math.log(0.02), -4.0, -2.0),
    without={
        1: (math.log(0.05), math.log(0.05), -8.0, -5.0),
        2: (math.log(0.08), math.log(0.02), -4.0, -2.0),
        3: (math.log(0.04), math.log(0.01), -3.0, -2.5),
    },
)


def test_the_divergence_over_actions() -> None:
    found = action_divergence(SCORED)
    # .08 to .02 over two tokens each is two to one for a token.
    assert found[1] == pytest.approx(2 / 3 * math.log(4 / 3) + 1 / 3 * math.log(2 / 3))
    assert found[2] == 0.0
    assert found[3] == pytest.approx(0.0, abs=1e-12)  # both became half as likely: the choice is the same


def test_a_short_action_has_no_advantage() -> None:
    texts = (Text(Kind.ACTION, "go", 1), Text(Kind.ACTION, "go on and on", 10))
    scored = Likelihoods(("f", "r", 1), 1, "m", texts, (-1.0, -10.0), {1: (-1.0, -20.0)})
    e = math.e
    assert action_divergence(scored)[1] == pytest.approx(
        0.5 * math.log(0.5 / (e / (1 + e))) + 0.5 * math.log(0.5 / (1 / (1 + e)))
    )


def test_falls_per_token() -> None:
    assert plan_divergence(SCORED) == {1: 1.0, 2: 0.0, 3: -0.25}
    assert hindsight(SCORED) == {1: 1.5, 2: 0.0, 3: 0.25}


CHANCES = st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(lambda row: [one / sum(row) for one in row])


@given(CHANCES, CHANCES)
def test_a_divergence_is_never_negative(p: list[float], q: list[float]) -> None:
    assert kl(p, q) >= 0
    assert kl(p, p) == pytest.approx(0, abs=1e-12)


def test_the_sampled_divergence_comes_to_the_exact_one() -> None:
    curve = sampled_curve([SCORED], [1], draws=10)
    assert curve.error[0][-1] < 0.2 < curve.error[0][0]
    assert curve.jaccard[0][-1] == 1.0
    assert curve.jaccard[0][0] < 1.0


def test_lines_come_back_as_they_were(tmp_path: Path) -> None:
    file = likelihood_file(tmp_path / "likelihoods.jsonl")
    file.add(SCORED)
    [again] = file
    assert again.texts == SCORED.texts
    assert again.full == pytest.approx(SCORED.full, abs=1e-5)
    assert again.without.keys() == SCORED.without.keys()
    file.path.write_text('{"file": 1}\n{}\n')
    with pytest.raises(BenchError, match="line 1"):
        list(file)
