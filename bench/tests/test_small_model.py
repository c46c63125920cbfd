"""The page of the small-model study is what its records give, and its measure has the right sign."""

import re
from types import ModuleType

import pytest

from bench_helpers.benchmark_script import ROOT, load_script

PAGE = ROOT / "docs" / "results" / "small-model.md"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return load_script("small_model/tables.py")


def test_the_page_is_what_the_records_give(tables):
    page = tables.page(tables.records("questions.jsonl.gz"), tables.records("actions.jsonl.gz"))
    assert _without_intervals(page) == _without_intervals(PAGE.read_text(encoding="utf-8"))


def _without_intervals(text):
    """Resampling may differ between releases of scipy; means do not."""
    return re.sub(r" \[[−+]?\d\.\d+, [−+]?\d\.\d+\]", "", text)


def test_a_view_that_makes_actions_less_likely_loses(tables):
    event = {
        "arms": {
            "full": {"scores": {"1": [-10.0, 20, 5], "3": [-4.0, 10, 8]}},
            "newest": {"scores": {"1": [-12.0, 20, 4], "3": [-3.0, 10, 9]}},
        }
    }
    assert tables.lost(event, "newest", (1,)) == pytest.approx(0.1)
    assert tables.lost(event, "newest", (3,)) == pytest.approx(-0.1)
    assert tables.lost(event, "newest", (1, 3)) == pytest.approx(0.0)
    assert tables.lost(event, "newest", (5,)) is None


def test_runs_of_one_task_count_once(tables):
    events = [{"run": "a", "x": 1.0}, {"run": "a (line 7)", "x": 3.0}, {"run": "b", "x": 5.0}, {"run": "c", "x": None}]
    assert tables.by_run(events, lambda event: event["x"]) == [2.0, 5.0]


def test_a_call_in_the_system_prompt_does_not_count_as_shown(tables):
    texts = ["system <tool_call>\n{}", "words", '<tool_call>\n{"name"', "later"]
    assert not tables.shows_call([(0, 0), (1, 0), (2, 4)], texts, {"4": ...})
    assert tables.shows_call([(0, 0), (2, 0), (3, 4)], texts, {"4": ...})
