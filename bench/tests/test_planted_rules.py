"""Runs with a planted rule are histories that a provider takes, and hold the rule once."""

import json

import pytest

from bench_helpers.benchmark_script import load_script
from focusctx.invariants import violations
from focusctx.replay.runs import Run

LONG = "\n".join(f"line {number} of the output" for number in range(20))
CUSTOMER = json.dumps({"id": "c_1", "orders": ["o_1", "o_2"], "address": "1 Main Street " * 20})


@pytest.fixture(scope="module")
def planted():
    return load_script("planted_rules.py")


def called(result):
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Please look."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
        {"role": "assistant", "content": "Done."},
    ]


def written(result):
    return [
        {"role": "user", "content": "Please look."},
        {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls\n```"},
        {"role": "user", "content": result},
        {"role": "assistant", "content": "THOUGHT: done"},
    ]


@pytest.mark.parametrize("messages", [called(CUSTOMER), called(LONG), written(LONG)], ids=["json", "lines", "text"])
def test_the_rule_is_there_once(planted, messages):
    run = Run("file.jsonl", "id", tuple(messages), "chat_completions")
    for wording in planted.WORDINGS:
        for place in planted.PLACES:
            case = planted.Case(run, "service", 1024, wording, place)
            made = planted.with_rule(case)
            assert "\n".join(str(one["content"]) for one in made).count(case.rule) == 1
            assert not violations(made, "chat_completions")
            assert made[-1] == messages[-1]
            assert len(made) == len(messages) + (0 if place == "passing" else 2)


def test_a_json_result_stays_json(planted):
    run = Run("file.jsonl", "id", tuple(called(CUSTOMER)), "chat_completions")
    case = planted.Case(run, "service", 1024, "only", "passing")
    assert json.loads(planted.with_rule(case)[3]["content"])["note"] == case.rule


def test_wordings_without_a_cue_word_have_none(planted):
    cues = ("never", "do not", "don't", "at most", "always", "must", "may not", "forbidden", "allowed", "rule")
    for text in planted.PLAIN.values():
        assert not any(cue in text.lower() for cue in cues)
