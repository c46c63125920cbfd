"""`focusctx compress`: what goes in comes out in the same shape, smaller."""

import io
import json
import os

import pytest

from focusctx import Result
from helpers import histories
from helpers.text_agents import HUMANS

LEFT = [message for number in (1, 2, 5) for message in histories.step(number)]
COMPRESSED = [*histories.run(0), *LEFT]


def test_a_list_stays_a_list(focusctx, scripted, trace):
    code, out, err = focusctx("compress", trace, "--budget", 0, "--target", 0)
    assert code == 0
    assert json.loads(out) == COMPRESSED
    assert "s_3" in err
    assert "dropped" in err


def test_an_object_keeps_its_other_fields(focusctx, scripted, tmp_path):
    request = {"model": "m", "messages": histories.run(5), "tools": [{"x": 1.0}], "n": None}
    path = tmp_path / "request.json"
    path.write_text(json.dumps(request, indent=4))
    _, out, _ = focusctx("compress", path, "--budget", 0, "--target", 0)
    assert json.loads(out) == {**request, "messages": COMPRESSED}
    assert list(json.loads(out)) == list(request)
    assert out.startswith("{\n  ")


def test_responses_input(focusctx, scripted, tmp_path):
    items = [{"role": "user", "content": "go"}]
    for number in range(1, 6):
        items.append({"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": f"c{number}", "output": "seen"})
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"model": "m", "input": items}))
    _, out, _ = focusctx("compress", path, "--budget", 0, "--target", 0)
    kept = [item["call_id"] for item in json.loads(out)["input"] if item.get("type") == "function_call"]
    assert kept == ["c1", "c2", "c5"]


def test_lines_stay_lines(focusctx, scripted, tmp_path):
    path = tmp_path / "runs.jsonl"
    lines = [json.dumps({"id": 1, "messages": histories.run(5)}), "", json.dumps(histories.run(5))]
    path.write_text("\n".join(lines))
    code, out, err = focusctx("compress", path, "--budget", 0, "--target", 0)
    assert code == 0
    first, second = out.splitlines()
    assert json.loads(first) == {"id": 1, "messages": COMPRESSED}
    assert json.loads(second) == COMPRESSED
    assert f"{path} line 1" in err
    assert f"{path} line 3" in err
    assert "2 conversations: " in err


def test_the_reading_of_user_messages_can_be_set(focusctx, tmp_path):
    messages = HUMANS["pastes logs alone"]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(messages))
    said = [message for message in messages if message["role"] == "user"]
    _, out, err = focusctx("compress", path, "--budget", 500)
    assert [message for message in json.loads(out) if message["role"] == "user"] == said
    assert "14 user messages look like tool output" in err
    assert 'set observations to "always"' in err
    _, out, err = focusctx("compress", path, "--budget", 500, "--observations", "always")
    assert [message for message in json.loads(out) if message["role"] == "user"] != said
    assert "look like tool output" not in err
    _, out, err = focusctx("compress", path, "--budget", 500, "--observations", "never")
    assert [message for message in json.loads(out) if message["role"] == "user"] == said
    assert "look like tool output" not in err
    code, _, err = focusctx("compress", path, "--observations", "sometimes")
    assert code == 2
    assert "--observations" in err


def test_lines_are_recognised_without_the_suffix(focusctx, scripted, tmp_path):
    path = tmp_path / "runs.txt"
    path.write_text("\n".join([json.dumps(histories.run(5))] * 2) + "\n")
    _, out, _ = focusctx("compress", path, "--budget", 0, "--target", 0)
    assert [json.loads(line) for line in out.splitlines()] == [COMPRESSED] * 2


def test_standard_input(focusctx, scripted, monkeypatch):
    data = json.dumps(histories.run(5)).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    code, out, _ = focusctx("compress", "-", "--budget", 0, "--target", 0)
    assert code == 0
    assert json.loads(out) == COMPRESSED


def test_what_is_not_due_comes_out_as_it_was_written(focusctx, scripted, tmp_path):
    text = '[{"role":"user",  "content":"caf\\u00e9", "n": 1.50}]'
    path = tmp_path / "small.json"
    path.write_text(text)
    code, out, err = focusctx("compress", path)
    assert (code, out) == (0, text + "\n")
    assert "nothing dropped" in err
    assert "--budget" in err


def test_a_lone_surrogate_survives(focusctx, scripted, tmp_path):
    messages = histories.run(5)
    messages[-1]["content"] = "half a pair: \ud83d"
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(messages))
    _, out, _ = focusctx("compress", path, "--budget", 0, "--target", 0)
    assert json.loads(out)[-1] == messages[-1]
    _, out, _ = focusctx("compress", path, "--budget", 0, "--target", 0, "--json")
    assert Result.from_json(out).messages[-1] == messages[-1]


def test_out_takes_the_messages_and_the_table_goes_to_standard_output(focusctx, scripted, trace, tmp_path):
    target = tmp_path / "smaller.json"
    code, out, err = focusctx("compress", trace, "--budget", 0, "--target", 0, "--out", target)
    assert code == 0
    assert json.loads(target.read_text()) == COMPRESSED
    assert "what it did" in out
    assert err == ""


def test_out_may_be_the_input(focusctx, scripted, trace):
    trace.chmod(0o640)
    code, _, _ = focusctx("compress", trace, "--budget", 0, "--target", 0, "--out", trace)
    assert code == 0
    assert json.loads(trace.read_text()) == COMPRESSED
    assert trace.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in trace.parent.iterdir()] == [trace.name]


def test_json_prints_results_in_place_of_table_and_messages(focusctx, scripted, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join([json.dumps(histories.run(5))] * 2))
    code, out, err = focusctx("compress", path, "--budget", 0, "--target", 0, "--json")
    results = [Result.from_json(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [result.dropped for result in results] == [(3, 4), (3, 4)]


def test_json_and_out_together(focusctx, scripted, trace, tmp_path):
    target = tmp_path / "smaller.json"
    _, out, _ = focusctx("compress", trace, "--budget", 0, "--target", 0, "--json", "--out", target)
    assert Result.from_json(out).dropped == (3, 4)
    assert json.loads(target.read_text()) == COMPRESSED


def test_the_options_reach_the_compressor(focusctx, scripted, say, trace):
    more = ("--optimistic", "--target", 99, "--rollouts", 2, "--threshold", 0.9, "--goal", "win", "--json")
    _, out, _ = focusctx("compress", trace, "--budget", 10, "--format", "chat_completions", *more)
    result = Result.from_json(out)
    assert result.rescued == ()
    assert len(result.sketches) == 2
    assert result.history.goal == "win"
    assert result.target == 99
    trace.write_text(json.dumps([*histories.run(1), *histories.step(2, "a line\n" * 200), *histories.run(5)[2:]]))
    cited = "Step: finish | Depends on: [s_2.2]"
    for options, fate in (((), "excerpt"), (("--whole-steps",), "kept")):
        say(cited)
        _, out, _ = focusctx("compress", trace, "--budget", 10, "--target", 0, "--json", *options)
        assert Result.from_json(out).target is None
        assert Result.from_json(out).decisions[1].fate == fate


def test_a_draft_that_fails_is_a_warning(focusctx, say, trace):
    say("I would rather not.")
    code, out, err = focusctx("compress", trace, "--budget", 0, "--target", 0)
    assert code == 0
    assert json.loads(out) == histories.run(5)
    assert f"focusctx: warning: {trace} not compressed: 0 of 3 sketches usable" in err
    assert err.count("\n") == 1, "and it is said once"


def test_a_failure_is_said_once_wherever_the_table_goes(focusctx, say, trace, tmp_path):
    say("I would rather not.")
    code, out, err = focusctx("compress", trace, "--budget", 0, "--target", 0, "--out", tmp_path / "smaller.json")
    assert (code, out) == (0, "")
    assert err.count("not compressed") == 1
    several = tmp_path / "several.jsonl"
    several.write_text("\n".join(json.dumps(histories.run(spans)) for spans in (5, 6)))
    code, out, err = focusctx("compress", several, "--budget", 0, "--target", 0, "--out", tmp_path / "smaller.json")
    assert out.startswith("2 conversations: ")
    assert err.count("not compressed") == 2


def test_more_than_the_target_is_not_left_without_a_word(focusctx, scripted, trace, tmp_path):
    small = ("compress", trace, "--budget", 10, "--target", 2)
    left = Result.from_json(focusctx(*small, "--json")[1]).tokens_after
    _, out, _ = focusctx(*small, "--out", tmp_path / "smaller.json")
    assert f"{left} tokens are left, above the target of 2: the rest may not go" in out
    _, out, _ = focusctx("compress", trace, "--budget", 10, "--target", left, "--out", tmp_path / "smaller.json")
    assert "above the target" not in out


def test_all_lines_are_checked_before_the_draft_is_asked(focusctx, scripted, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join([json.dumps(histories.run(5)), json.dumps([{"role": "user", "content": 5}])]))
    code, out, err = focusctx("compress", path, "--budget", 0, "--target", 0)
    assert (code, out) == (2, "")
    assert err.startswith(f"focusctx: {path} line 2: message 0: 'content' must be")
    assert scripted.prompts == []


def test_interrupted_leaves_no_file_behind(focusctx, scripted, trace, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("focusctx.compressor.Focus.compress", stop)
    code, out, err = focusctx("compress", trace, "--out", tmp_path / "smaller.json")
    assert (code, out, err) == (130, "", "")
    assert [path.name for path in tmp_path.iterdir()] == [trace.name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a device to write to")
def test_devices_are_written_to_not_replaced(focusctx, scripted, trace):
    code, _, _ = focusctx("compress", trace, "--budget", 0, "--target", 0, "--out", os.devnull)
    assert code == 0
    assert not os.path.isfile(os.devnull)  # noqa: PTH113


def test_answers_that_anthropics_sdk_dumped(focusctx, scripted, tmp_path):
    """They have the type of a Responses item and are none: their tool results go with them."""
    messages = [{"role": "user", "content": "go"}]
    for number in range(1, 6):
        use = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
        answer = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "content": [use]}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "seen"}
        messages += [{**answer, "stop_reason": "tool_use", "usage": {}}, {"role": "user", "content": [result]}]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(messages))
    code, out, _ = focusctx("compress", path, "--budget", 0, "--target", 0)
    assert code == 0
    assert json.loads(out) == [messages[0], *messages[1:5], *messages[9:]]
    code, out, err = focusctx("compress", path, "--budget", 0, "--target", 0, "--format", "responses")
    assert code == 0
    assert json.loads(out) == messages
    assert "not compressed: the messages are of the format anthropic, but were to be read as responses" in err
