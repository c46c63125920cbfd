"""The page of the small-model study is what its records give, and its measure has the right sign."""

import gzip
import json
import re
from types import ModuleType

import pytest

from bench_helpers.benchmark_script import ROOT, load_script

PAGE = ROOT / "docs" / "results" / "small-model.md"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return load_script("small_model/tables.py")


def test_the_page_is_what_the_records_give(tables):
    page = tables.page(*(tables.records(name) for name in (tables.QUESTIONS, tables.HELD_OUT, tables.ACTIONS)))
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


def test_a_run_of_some_arms_keeps_the_records_of_the_others(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RECORDS", tmp_path / "records")
    group = {"task": "q", "summary_cut": True, "arms": {"full": {"read": 9}, "focus": {"read": 5}}}
    tables._write(tmp_path / "records" / "questions.jsonl.gz", [group])
    full = {"tokens": 9, "scores": {"1": [-1.0, 2, 2]}, "calls": True}
    event = {"file": "f", "run": "r", "summary_cut": True, "arms": {"full": full}}
    tables._write(tmp_path / "records" / "actions.jsonl.gz", [{**event, "place": 3}, {**event, "place": 7}])

    answered = {"answer": "1: Paris", "cut": False, "read": 4}
    packed = {"file": "f", "run": "r", "place": 3}
    scored = {"tokens": 4, "scores": {"1": [-2.0, 2, 1]}}
    texts = ["system", '<tool_call>\n{"name"', "action"]
    written = {
        "answers": {"q": [["Paris"]]},
        "questions.out": [{"task": "q", "summary": None, "arms": {"focus": answered}}],
        "actions": {"texts": texts, "events": [{**packed, "arms": {"focus": {"texts": [[0, 0], [1, 0], [2, 1]]}}}]},
        "actions.out": [{**packed, "summary": None, "arms": {"focus": scored}}],
    }
    for name, value in written.items():
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(value).encode()))
    tables.collect(tmp_path)

    [asked] = tables.records("questions.jsonl.gz")
    assert asked["summary_cut"]
    assert asked["arms"]["full"] == {"read": 9}
    assert (asked["arms"]["focus"]["read"], asked["arms"]["focus"]["f1"]) == (4, [1.0])
    [left] = tables.records("actions.jsonl.gz")  # the event at 7 is no longer made
    assert left["place"] == 3
    assert left["summary_cut"]
    assert left["arms"] == {"full": full, "focus": {**scored, "calls": True}}
