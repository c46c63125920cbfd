"""`focusctx replay run` on small logs, with no key and no network."""

import json
from pathlib import Path

import pytest

from focusctx.replay.record import run_records
from helpers.text_agents import HUMANS, text_run
from replay.logs import SHOPPING, long_run, run_of, write

ANTHROPIC = [
    {"role": "user", "content": "Read all."},
    *(
        message
        for number in range(8)
        for message in (
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"t{number}", "name": "f", "input": {}}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": f"page {number} " * 30}],
            },
        )
    ),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "my-logs.jsonl", long_run(30, "a"), long_run(24, "b"), run_of(SHOPPING, "c"))


def test_a_log_a_table_and_records(focusctx, log, tmp_path):
    code, out, err = focusctx("replay", "run", log, "--budget", 400, "--jobs", 1, "--out", tmp_path / "out")
    assert code == 0
    assert "my-logs.jsonl, δ 400" in out
    for name in ("No compression", "Retrieval", "Masking, M = 3", "FOCUS-D", "FOCUS", "Masking @ FOCUS"):
        assert f"\n{name} " in out
    assert "words of the user or of system prompts lost: 0" in out
    assert "3/3 tasks" in err
    records = list(run_records(tmp_path / "out"))
    assert len(records) == 3 * (8 + 2 * 3)
    assert next(record for record in records if record.method == "none").recall == 1
    about = json.loads((tmp_path / "out" / "replay.json").read_text())
    assert set(about["data"]["my-logs.jsonl"]) == {"a", "b", "c"}
    assert f"`focusctx replay report {tmp_path / 'out'}` makes pages and pictures" in err


def test_the_same_command_goes_on_and_more_can_be_added(focusctx, log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ("replay", "run", log, "--budget", 400, "--jobs", 1, "--no-matched")
    assert focusctx(*command, "--methods", "none", "--limit", 2)[0] == 0
    path = tmp_path / "focusctx-replay" / "my-logs" / "runs.jsonl"
    first = path.read_text()
    code, _, err = focusctx(*command, "--methods", "none", "focus")
    assert code == 0
    assert path.read_text().startswith(first)
    assert "0/3 tasks" in err
    assert focusctx(*command, "--methods", "focus", "--set", "levels=false", "threshold=0.9")[0] == 0
    code, out, err = focusctx(*command, "--methods", "none", "focus")
    assert "3/3 tasks" in err
    assert out.split("\n\n")[0].count("\nFOCUS (threshold") == 2, "the table may be in two parts, by its width"
    settings = [record.settings for record in run_records(path.parent) if record.method == "focus"]
    assert [(one["threshold"], one["levels"]) for one in settings] == 3 * [(0.3, True)] + 3 * [(0.9, False)]


def test_the_budget_that_was_chosen_is_said(focusctx, log, tmp_path):
    code, out, err = focusctx("replay", "run", log, "--methods", "none", "--jobs", 1, "--out", tmp_path / "out")
    assert code == 0
    assert "budget δ, chosen by the length of the runs: my-logs.jsonl 4096" in err
    assert "No compression" in out
    assert " - " in out, "no step was due, so there is nothing to have a share of"


def test_a_budget_of_nothing_is_over_at_once(focusctx, log, tmp_path):
    options = ("--budget", 0, "--jobs", 1, "--no-matched", "--methods", "focus-d", "--out", tmp_path)
    code, out, _ = focusctx("replay", "run", log, *options)
    assert code == 0
    assert "my-logs.jsonl, δ 0" in out
    assert all(step.due for record in run_records(tmp_path) for step in record.steps)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ((), "at gpt-4.1's prices (--model;"),
        (("--model", "my-own"), "unknown, since my-own has no known price (--model)"),
    ],
)
def test_the_table_says_at_whose_prices(focusctx, log, tmp_path, model, said):
    options = ("--budget", 400, "--jobs", 1, "--methods", "none", "--out", tmp_path / "out")
    assert f"$: cost of the agent's calls per run, {said}" in focusctx("replay", "run", log, *options, *model)[1]


def test_few_facts_are_counted_and_no_share_is_printed(focusctx, tmp_path):
    path = write(tmp_path / "small.jsonl", run_of(SHOPPING, "c"))
    options = ("--budget", 20, "--jobs", 1, "--no-matched", "--methods", "none", "focus", "--out", tmp_path / "out")
    _, out, _ = focusctx("replay", "run", path, *options)
    (row,) = [line.split() for line in out.splitlines() if line.startswith("No compression")][:1]
    assert row[2:10] == ["1", "5", "5", "of", "5", "facts", "5", "of"]
    assert " 1.000 [" not in out
    assert "1 run with a median of 6 steps" in out
    assert "1 of 1 pass δ = 20: few, so replay more of them" in out
    assert "of the 5 facts that actions needed were still in view: too few to judge by" in out
    assert "Recommended: budget 20, target 0.5, draft offline." in out


def test_many_facts_have_a_share_and_a_recommendation(focusctx, log, tmp_path):
    options = ("--budget", 400, "--jobs", 1, "--methods", "none", "focus", "--out", tmp_path / "out")
    _, out, _ = focusctx("replay", "run", log, *options)
    (row,) = [line.split() for line in out.splitlines() if line.startswith("No compression")][:1]
    records = [record for record in run_records(tmp_path / "out") if record.method == "none"]
    needed = sum(step.needed for record in records for step in record.due)
    assert needed >= 30
    assert row[2:7] == ["2", "of", "3", str(needed), "1.000"], "one run of three never needs a fact over the budget"
    assert "The agent calls tools, one at a time." in out
    assert "The user speaks again in 1 run; their words are never dropped." in out
    (recommended,) = [line for line in out.splitlines() if line.startswith("Recommended: ")]
    assert "budget " in recommended
    assert "target " in recommended
    assert "draft " in recommended
    ours = sum(record.cost_cached for record in run_records(tmp_path / "out") if record.method == "focus")
    full = sum(record.cost_cached for record in records)
    said = "saved" if ours <= full else "cost"
    assert f"As replayed it would have {said} ${abs(full - ours):.4f} of ${full:.4f}" in out
    assert "on 3 runs at gpt-4.1's prices" in out


def test_a_log_within_the_budget_has_nothing_to_compress(focusctx, log, tmp_path):
    options = ("--budget", 100_000, "--jobs", 1, "--methods", "none", "focus", "--out", tmp_path / "out")
    _, out, _ = focusctx("replay", "run", log, *options)
    assert "Nothing to compress: no history would have been cut at δ = 100,000." in out
    assert "Recommended" not in out


def test_the_prices_are_those_of_the_model_that_the_log_names(focusctx, tmp_path):
    path = tmp_path / "named.jsonl"
    runs = [long_run(30, "a"), long_run(24, "b")]
    options = ("--budget", 400, "--jobs", 1, "--no-matched", "--methods", "none", "focus")

    def replayed(model, *more):
        path.write_text("".join(json.dumps({"id": r.id, "model": model, "messages": r.messages}) + "\n" for r in runs))
        return focusctx("replay", "run", path, *options, "--out", tmp_path / f"out-{model}-{len(more)}", *more)[1]

    assert "at gpt-5-mini's prices" in replayed("gpt-5-mini")
    unknown = replayed("home-made-7b")
    assert "What it would have saved is not known: home-made-7b has no known price" in unknown
    assert "at gpt-4o's prices" in replayed("home-made-7b", "--model", "gpt-4o")


def test_a_text_agent_and_doubts_are_named(focusctx, tmp_path):
    path = tmp_path / "text.jsonl"
    path.write_text(json.dumps(text_run("asked inline")) + "\n")
    _, out, _ = focusctx("replay", "run", path, "--budget", 900, "--jobs", 1, "--out", tmp_path / "out")
    assert "The agent acts in plain text" in out
    assert "may be tool output" not in out
    path.write_text(json.dumps(HUMANS["pastes logs alone"]) + "\n")
    _, out, _ = focusctx("replay", "run", path, "--budget", 900, "--jobs", 1, "--out", tmp_path / "other")
    assert "In 1 run some user messages may be tool output; they count as the user's words here." in out


def test_a_recommendation_needs_both_sides(focusctx, log, tmp_path):
    options = ("--budget", 400, "--jobs", 1, "--methods", "none", "--out", tmp_path / "out")
    assert "No recommendation: it compares `none` with `focus`" in focusctx("replay", "run", log, *options)[1]


def test_logs_in_other_formats(focusctx, tmp_path):
    path = write(tmp_path / "claude.jsonl", run_of(ANTHROPIC))
    assert focusctx("replay", "run", path, "--budget", 200, "--jobs", 1, "--out", tmp_path / "out")[0] == 0
    records = {record.method: record for record in run_records(tmp_path / "out")}
    assert set(records) == {"none", "focus-o", "focus-d", "focus"}
    assert records["focus"].events
    assert records["focus"].words_lost == 0
    code, _, err = focusctx("replay", "run", path, "--methods", "fifo", "--jobs", 1, "--out", tmp_path / "other")
    assert code == 2
    assert "fifo reads only Chat Completions" in err
    assert "--methods none focus-o focus-d focus" in err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--methods", "magic"], "unknown method 'magic'; known: none, fifo"),
        (["--methods", "oracle"], "unknown method 'oracle'"),
        (["--set", "fill"], "--set needs KEY=VALUE"),
        (["--set", "depth=3"], "unknown setting 'depth'"),
        (["--limit", "0"], "--limit must be above 0"),
        (["--budget", "many"], "'many' is neither a number of tokens nor auto"),
        (["--budget", "-1"], "'-1' is neither a number of tokens nor auto"),
        (["--embedder", "magic"], "unknown embedder 'magic'; `--help` lists the known forms\n"),
        (["--draft", "magic", "--methods", "focus"], "unknown draft 'magic'; `--help` lists the known forms\n"),
    ],
)
def test_what_a_user_can_do_wrong(focusctx, log, tmp_path, more, said):
    code, out, err = focusctx("replay", "run", log, "--jobs", 1, "--out", tmp_path / "out", *more)
    assert (code, out) == (2, "")
    assert said in err


def test_data_that_will_not_do(focusctx, tmp_path):
    assert "there is no such file" in focusctx("replay", "run", tmp_path / "no.jsonl")[2]
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n')
    assert "bad.jsonl line 1 is not a run" in focusctx("replay", "run", tmp_path / "bad.jsonl")[2]
    for nothing in ("\n", "[]\n", '{"messages": []}\n[]\n'):
        (tmp_path / "empty.jsonl").write_text(nothing)
        code, out, err = focusctx("replay", "run", tmp_path / "empty.jsonl")
        assert (code, out) == (2, "")
        assert "found no runs in" in err


def test_help_names_every_part(focusctx):
    code, _, err = focusctx("replay")
    assert code == 2
    for name in ("run", "points", "record"):
        assert f"\n    {name} " in err
