"""`focusctx bench acon`, from training runs to two guidelines, against a model server on loopback."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from focusctx_bench.baselines.summary import START
from focusctx_bench.benchmarks import scripted_model
from focusctx_bench.job import BenchFolder
from helpers.provider import Call, Provider, Received, Say

UT = "Variables: every id, to the letter.\nCompleted: what was done."
UTCO = "Variables: every id."


class Models:
    """The office's scripted agent, a summariser that keeps little unless the guideline tells it to, an optimiser."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, received: Received) -> Say:
        messages, model = received.messages, received.body["model"]
        self.asked.append(model)
        if model == "optimiser":
            system = messages[0]["content"]
            if "<guideline>" not in system:
                return Say("The memory left out ids.")
            return Say(f"<guideline>\n{UTCO if 'shorter' in system else UT}\n</guideline>")
        if model == "writer":
            shown = messages[-1]["content"]
            return Say("Nothing worth keeping." if START[:40] in messages[0]["content"] else shown[-6000:])
        with ThreadPoolExecutor(1) as thread:  # the provider's own loop is busy with this very request
            turn = thread.submit(asyncio.run, scripted_model("office").answer(messages, ())).result()
        calls = [call["function"] for call in turn.message.get("tool_calls", ())]
        return Say(turn.text, tuple(Call(call["name"], json.loads(call["arguments"])) for call in calls))


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command's options with a server for all three models, each with a price."""
    models = Models()
    with Provider(models) as provider:
        names = {name: f"openai:{name}@{provider.url}/v1" for name in ("agent", "writer", "optimiser")}
        prices = "".join(f'"{name}" = {{ input = 1.0, output = 1.0 }}\n' for name in names.values())
        (tmp_path / "prices.toml").write_text(f"[models]\n{prices}")
        monkeypatch.setenv("FOCUSCTX_PRICES", str(tmp_path / "prices.toml"))
        yield models, (
            "bench", "acon", "--benchmark", "office", "--model", names["agent"], "--compressor", names["writer"],
            "--optimiser", names["optimiser"], "--budget", 2000, "--tasks", 3, "--step-limit", 60,
            "--out", tmp_path / "acon",
        )  # fmt: skip


def test_from_training_runs_to_guidelines(focusctx, command, tmp_path):
    models, options = command
    code, out, err = focusctx(*options)
    assert code == 0, err
    folder: Path = tmp_path / "acon"
    assert out.splitlines() == [str(folder / "ut.md"), str(folder / "utco.md")]
    assert (folder / "start.md").read_text().strip() == START
    assert (folder / "ut.md").read_text().strip() == UT
    assert (folder / "utco.md").read_text().strip() == UTCO
    about = json.loads((folder / "ut.json").read_text())
    assert about["tasks"]
    assert all(task.startswith("office-1042-") for task in about["tasks"])
    assert about["budgets"] == {"office": [2000]}
    assert about["benchmarks"] == {"office": {"split": "", "seed": 1042}}  # not the seed of the test tasks
    assert about["optimiser"] == options[options.index("--optimiser") + 1]
    assert about["optimiser_cost"] > 0
    assert "The memory left out ids." in about["feedback"]
    spent = sum(
        json.loads(line)["cost"]
        for name in ("start", "ut")
        for line in (folder / name / "attempts.jsonl").read_text().splitlines()
    )
    total = spent + about["optimiser_cost"] + json.loads((folder / "utco.json").read_text())["optimiser_cost"]
    assert f"cost: ${total:,.2f}" in err
    assert {record.method for record in BenchFolder(folder / "start").records} == {"none", "acon-ut"}

    asked = len(models.asked)
    assert focusctx(*options)[0] == 0
    assert len(models.asked) == asked  # nothing is left to ask


def test_a_stage_that_is_missing_is_made_again_alone(focusctx, command, tmp_path):
    models, options = command
    assert focusctx(*options)[0] == 0
    (tmp_path / "acon" / "utco.md").unlink()
    models.asked.clear()
    assert focusctx(*options)[0] == 0
    assert "agent" not in models.asked
    assert models.asked.count("optimiser") >= 2  # feedback, and the shorter guideline


def test_a_limit_stops_it_and_the_same_command_goes_on(focusctx, command, tmp_path):
    _, options = command
    code, out, err = focusctx(*options, "--max-cost", "0.0001", "--concurrency", 1)
    assert (code, out) == (3, "")
    assert "training tasks are left; the same command goes on" in err
    assert not (tmp_path / "acon" / "ut.md").exists()
    assert focusctx(*options)[0] == 0


def test_test_tasks_are_refused(focusctx, tmp_path):
    code, _, err = focusctx(
        "bench", "acon", "--benchmark", "qa8", "--split", "test", "--model", "openai:x@http://127.0.0.1:1/v1",
        "--out", tmp_path,
    )  # fmt: skip
    assert code == 2
    assert "guidelines are made from training tasks, not from 'test'" in err


def test_the_scripted_agent_needs_a_model_for_the_summaries(focusctx, command, tmp_path):
    models, options = command
    place = options.index("--model")
    alone = (*options[:place], *options[place + 2 :])
    assert focusctx(*alone)[0] == 0
    assert "agent" not in models.asked
    assert json.loads((tmp_path / "acon" / "ut.json").read_text())["agent"] == "the benchmark's scripted agent"
    code, _, err = focusctx("bench", "acon", "--benchmark", "office", "--out", tmp_path / "other")
    assert code == 2
    assert "name who writes the summaries: --compressor, or --model for all" in err
