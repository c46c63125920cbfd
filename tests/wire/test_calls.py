"""Does a call only look something up? By its name, by the command it runs, or because the user says so."""

import json
from types import SimpleNamespace

import pytest

from focusctx.types import Call, Span
from focusctx.wire.calls import calls_of, failed_calls, is_reading, read_only_tools


def call(name: str, **arguments: object) -> Call:
    return Call("c", f"{name}({json.dumps(arguments)})")


@pytest.mark.parametrize(
    "name",
    [
        "get_order",
        "search_direct_flight",
        "list-files",
        "readFile",
        "mcp__github__get_issue",
        "HTTPGet",
        "find",
        "think",
    ],
)
def test_names_that_read(name: str) -> None:
    assert is_reading(call(name))


@pytest.mark.parametrize(
    "name",
    [
        "cancel_order", "book_reservation", "write_file", "mcp__github__create_issue", "sendMail", "do", "getaway", "",
        "find_and_replace", "get_or_create_user", "login", "update_status", "transfer_to_human_agents", "str_replace",
    ],
)  # fmt: skip
def test_names_that_write_or_say_nothing(name: str) -> None:
    assert not is_reading(call(name))


def test_the_user_knows_better() -> None:
    assert is_reading(call("frobnicate"), reads=("frobnicate",))
    assert is_reading(call("bash", command="make"), reads=("bash",))
    assert not is_reading(call("frobnicate"), reads=("other",))


@pytest.mark.parametrize(
    "command",
    [
        "ls -la /tmp", "cat a.py | head -20", "ls | xargs -n 1 wc -l", "find . -exec grep x {} +", "env A=1",
        "cd src && git status", "git -P log --oneline -3", "git diff HEAD~1", "sed -n 1,20p a.py",
        "find . -name '*.py'", "python -m pytest tests 2>&1 | tail -3", "ls > /dev/null", "ls 2>/dev/null",
        "FOO=1 python run.py", "/usr/bin/env", "# only a comment", "pytest -x; echo done",
        'grep -E "(a|b)" x.py', "grep -rn 'a;b > c' .", 'grep "a\\"b|c" x.py', "x=$(cat f) && echo $x",
    ],
)  # fmt: skip
def test_commands_that_only_show(command: str) -> None:
    assert is_reading(call("bash", command=command))


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build", "sed -i s/a/b/ a.py", "sed --in-place=.bak s/a/b/ a.py", "echo hi > a.txt",
        "echo hi >> a.txt", "cat <<'EOF' > a.py\nx\nEOF", "python - <<'E'\nprint(1)\nE", "git commit -m x",
        "git checkout a.py", "git", "ls && rm a", "cat a | tee b", "find . -delete",
        "find . -name x -exec rm {} \\;", "ls | xargs -I {} rm {}", "env A=1 rm a", "pip install x",
        "curl -X POST http://h", "git -C x push", "cd src; make install", "ls\nmv a b",
        'echo "$(rm x)"', "echo `rm x`", "ls # don't\nrm x; echo 'a'", "awk '{print > \"f\"}' a",
    ],
)  # fmt: skip
def test_commands_that_change_something(command: str) -> None:
    assert not is_reading(call("bash", command=command))


def test_a_command_in_other_arguments() -> None:
    assert is_reading(call("shell", cmd=["git", "status"]))
    assert not is_reading(call("execute_bash", script="rm a"))
    assert is_reading(Call("c", "bash(ls -l)"))
    assert not is_reading(Call("c", "bash(rm -r a)"))


def test_an_editor_that_views_and_one_that_edits() -> None:
    assert is_reading(call("str_replace_based_edit_tool", command="view", path="a.py"))
    assert not is_reading(call("str_replace_based_edit_tool", command="create", path="a.py"))


def test_the_actions_of_a_text_agent_are_calls() -> None:
    read, wrote = (Span(1, action=f"Let me see.\n```bash\n{one}\n```") for one in ("ls", "rm a"))
    assert [is_reading(one) for one in calls_of(read)] == [True]
    assert [is_reading(one) for one in calls_of(wrote)] == [False]
    assert [one.name for one in calls_of(Span(1, action="Action: search\nAction Input: x"))] == ["search"]
    assert [*calls_of(Span(1, thought="well"))] == []
    made = (Call("a", "look()"),)
    assert (*calls_of(Span(1, action="look()", calls=made)),) == made


def test_an_action_that_names_no_tool_is_one_call() -> None:
    assert [one.name for one in calls_of(Span(1, action='web_search_call({"type": "search"})'))] == ["the action"]


@pytest.mark.parametrize(
    "action",
    [
        "Action: search\nAction Input: x",
        "Action 3: search[x]",
        '```json\n{"action": "search", "action_input": "x"}\n```',
        '```\n{"thought": "hm", "tool": "search", "args": {"q": "x"}}\n```',
        "<tool>search</tool><tool_input>x</tool_input>",
        '<invoke name="search">x</invoke>',
        "<function=search>x</function>",
        "Calling tools:\n[{'id': 'a', 'type': 'function', 'function': {'name': 'search', 'arguments': {'q': 'x'}}}]",
    ],
)
def test_a_text_action_names_its_tool_in_many_notations(action: str) -> None:
    (call,) = calls_of(Span(1, action=action))
    assert call.name == "search"
    assert "x" in call.text
    assert is_reading(call)


def test_failures_of_parallel_calls_are_told_apart() -> None:
    calls = [{"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}} for name in "ab"]
    messages = (
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "fine"},
        {"role": "tool", "tool_call_id": "b", "content": "Error: no such order"},
    )
    span = Span(1, messages=messages, calls=(Call("a", "look({})"), Call("b", "look({})")))
    assert failed_calls(span, "chat_completions") == {"b"}
    assert failed_calls(Span(1, action="x", observation="Traceback (most recent call last)"), "spans") == {""}


def test_tools_that_are_annotated_as_reading() -> None:
    """MCP's tools as plain data and as objects of both spellings, and LangChain's, which keep the hints as metadata."""
    tools = [
        {"name": "quote", "annotations": {"readOnlyHint": True}},
        {"name": "order", "annotations": {"readOnlyHint": False}},
        {"name": "silent", "annotations": None},
        {"name": "unknown"},
        SimpleNamespace(name="old", annotations=SimpleNamespace(readOnlyHint=True)),
        SimpleNamespace(name="new", annotations=SimpleNamespace(read_only_hint=True)),
        SimpleNamespace(name="chain", metadata={"readOnlyHint": True, "_meta": None}),
        SimpleNamespace(name="other", metadata=None),
    ]
    names = read_only_tools(tools)
    assert names == ("quote", "old", "new", "chain")
    assert is_reading(call("quote"), names)
    assert not is_reading(call("quote"))
