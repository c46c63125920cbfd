"""What a user can do wrong: one line that says what, exit code 2, no traceback."""

import json

import pytest

from helpers import histories


@pytest.fixture
def complaint(focusctx):
    """The one line a command complains with."""

    def complain(*arguments):
        code, out, err = focusctx(*arguments)
        assert code == 2
        assert out == ""
        assert err.startswith("focusctx: ")
        assert err.count("\n") == 1
        return err.removeprefix("focusctx: ").rstrip()

    return complain


@pytest.mark.parametrize("command", ["compress", "explain"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; it should hold a JSON list of messages"),
        (" \n\n", "is empty"),
        ('[\n  {"role": "user",\n   "content": }\n]', "is not valid JSON: line 3, column 15: Expecting value"),
        ('{"messages": []}\n{"messages": [}\n', "is not valid JSONL: line 2, column 15: Expecting value"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("[" + "9" * 5000 + "]", "cannot be read as JSON"),
        ('"hello"', "holds a string; it should hold a list of messages"),
        ("null", "holds a null"),
        ('{"trajectory": []}', "holds an object without 'messages', 'input' or 'contents'"),
        ('{"role": "user", "content": "hi"}', "is a single message; put the messages in a list"),
        ('{"role": "user", "content": "a"}\n{"role": "assistant", "content": "b"}', "line 1 is a single message"),
        ('{"messages": "hi"}', ": expected a list of messages, got str"),
        ('[{"role": "user", "content": "hi"}, 7]', ": message 1: expected a dict, got int"),
        ('[{"role": "user", "content": "hi"}, {"content": "x"}]', ": message 1: 'role' must be a str, got None"),
        ('[{"role": "user", "parts": "hi"}]', "the only message is not understood: the first has role 'user'"),
        ('[{"type": "human", "data": {"content": "hi"}}]', "they look like LangChain messages; convert them with"),
        ('[{"role": "human", "content": "hi"}]', "the only message is not understood: their roles are not"),
        ('[{"role": "user", "content": [{"text": "hi"}]}]', "they look like Bedrock Converse messages"),
        ('[{"role": "critic", "content": "hi"}]', "the first has role 'critic'; convert them"),
    ],
)
def test_traces(complaint, tmp_path, command, text, said):
    path = tmp_path / "trace.json"
    path.write_text(text)
    assert said in complaint(command, path)


def test_missing_file(complaint):
    assert "there is no such file" in complaint("compress", "nowhere.json")


def test_a_folder(complaint, tmp_path):
    assert "cannot be read" in complaint("compress", tmp_path)


def test_not_text(complaint, tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(b'[{"role": "user", "content": "\xff\xfe"}]')
    assert "is not UTF-8 text: byte 30 is 0xff" in complaint("compress", path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--draft", "foo"], "unknown draft 'foo'; `focusctx compress --help` lists the drafts"),
        (["--draft", "deepseek:m"], "set the environment variable DEEPSEEK_API_KEY"),
        (["--budget", "many"], "argument --budget: invalid int value: 'many'; see `focusctx compress --help`"),
        (["--budget", "-1"], "budget must be 0 or more, got -1"),
        (["--rollouts", "0"], "rollouts must be 1 or more, got 0"),
        (["--threshold", "2"], "threshold must be above 0 and at most 1, got 2.0"),
        (["--threshold", "nan"], "threshold must be a finite number, got nan"),
        (["--deadline", "inf"], "deadline must be a finite number, got inf"),
        (["--target", "nan"], "target must be a finite number or None, got nan"),
        (["--target", "-1"], "target must be None, a share of the budget above 0, or a number of tokens, got -1.0"),
        (["--format", "xml"], "argument --format: invalid choice: 'xml'"),
        (["--budgets", "1"], "unrecognized arguments: --budgets 1"),
        (["--out", "no/such/folder/x.json"], "no/such/folder/x.json cannot be written: No such file or directory"),
    ],
)
def test_options(complaint, trace, monkeypatch, options, said):
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    assert said in complaint("compress", trace, *options)


@pytest.mark.parametrize("command", ["compress x.json", "serve", "bench run", "replay run x.jsonl", "replay", ""])
def test_an_unknown_option_points_to_the_help_of_its_command(complaint, command):
    known = " ".join(["focusctx", *(word for word in command.split() if not word.startswith("x."))])
    assert complaint(*command.split(), "--nonsense") == f"unrecognized arguments: --nonsense; see `{known} --help`"


def test_out_is_a_folder(complaint, trace, tmp_path):
    assert "is a folder" in complaint("compress", trace, "--out", tmp_path)


def test_a_missing_argument(complaint):
    assert "the following arguments are required: TRACE" in complaint("compress")


def test_an_unknown_command(complaint):
    assert "invalid choice: 'shrink'" in complaint("shrink")


def test_a_saved_result_is_not_compressed_again(focusctx, complaint, scripted, trace):
    _, out, _ = focusctx("compress", trace, "--budget", 0, "--json")
    trace.write_text(out)
    assert complaint("compress", trace) == f"{trace} is a saved Result; `focusctx explain` shows it"


def test_a_damaged_result(focusctx, complaint, scripted, trace):
    _, out, _ = focusctx("compress", trace, "--budget", 0, "--json")
    trace.write_text(json.dumps({**json.loads(out), "surprise": 1}))
    assert "not a saved Result: unknown field 'surprise'" in complaint("explain", trace)


def test_no_command_shows_the_help(focusctx):
    code, out, err = focusctx()
    assert (code, out) == (2, "")
    assert "compress" in err


def test_a_fault_of_ours_is_no_traceback_either(focusctx, scripted, trace, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("focusctx.compressor.Focus.compress", fail)
    code, _, err = focusctx("compress", trace)
    assert code == 1
    assert err.startswith("focusctx: unexpected ZeroDivisionError: by zero")
    monkeypatch.setenv("FOCUSCTX_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        focusctx("compress", trace)


def test_utf_16_and_byte_order_marks_are_read(focusctx, scripted, tmp_path):
    for encoding in ("utf-8-sig", "utf-16"):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps(histories.run(1)), encoding=encoding)
        code, out, _ = focusctx("compress", path)
        assert code == 0
        assert json.loads(out) == histories.run(1)
