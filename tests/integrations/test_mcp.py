"""MCP: the real client, over stdio, asks the server about steps that sessions have stored."""

import sys
from pathlib import Path
from typing import Any

import pytest

from focusctx import Focus, read_only_tools
from helpers import task
from integrations.conformance import ROOT, compressing, loaded, moved
from integrations.page import run_page

pytest.importorskip("mcp", reason="scripts/test-integrations mcp")

from mcp import Client, StdioServerParameters

from focusctx.session.session import Session


def history(steps: int) -> list[Any]:
    """An agent's history after that number of steps of the task."""
    messages: list[Any] = [{"role": "user", "content": task.TASK}]
    for step in range(1, steps + 1):
        function = {"name": "read_page", "arguments": f'{{"page": {step}}}'}
        call = {"id": f"call_{step}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": f"Next is page {step}.", "tool_calls": [call]})
        text = "It is locked." if step == task.FAILING else task.run_tool("read_page", {"page": step})
        messages.append({"role": "tool", "tool_call_id": f"call_{step}", "content": text})
    return messages


def work(session: Session, first: int, last: int) -> None:
    for step in range(first, last + 1):
        session.view(history(step))


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'focus.db'}"


def server(store: str, *more: str) -> Client:
    """A client whose server is a process of its own."""
    command = ["-m", "focusctx.integrations.mcp", "--store", store, "--tenant", "audit", *more]
    return Client(StdioServerParameters(command=sys.executable, args=command))


async def asked(client: Client, tool: str, **arguments: str) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error
    return "".join(block.text for block in result.content)


async def test_steps_come_back_word_for_word(store: str) -> None:
    async with server(store) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["recall_step", "explain_step"]
        assert read_only_tools(tools) == ("recall_step", "explain_step"), "they are annotated so"
        assert "Left out: nothing" in await asked(client, "recall_step", query="s_2")
        session = compressing().session(store, tenant="audit")
        work(session, 1, 12)
        gone = session.recall("s_2")[0]
        assert await asked(client, "recall_step", query="s_2") == f"[s_2]\n{gone.text}"
        assert task.run_tool("read_page", {"page": 2}) in gone.text
        assert gone.text in await asked(client, "recall_step", query=f"what happened to lot {task.lot(2)}?")
        session.close()


async def test_why_a_step_was_left_out(store: str) -> None:
    async with server(store) as client:
        session = compressing().session(store, tenant="audit")
        work(session, 1, 20)
        session.close()
        first, *_, last = [event for event in session.events if event.happened]
        why = await asked(client, "explain_step", query="s_2")
        assert why.startswith("s_2, ")
        assert "0% of the sketches cite it" in why
        assert f"when s_{first.span} was new: {first.tokens_before} → {first.tokens_after} tokens." in why
        summary = (await asked(client, "explain_step")).splitlines()
        assert f"{session.savings.tokens_saved} tokens less sent" in summary[0]
        assert f"{last.tokens_before} → {last.tokens_after} tokens." in summary[1]
        assert len(summary) == 1 + sum(event.happened for event in session.events)


async def test_only_the_steps_of_one_tenant(store: str) -> None:
    async with server(store) as client:
        other = compressing().session(store, tenant="someone else")
        work(other, 1, 12)
        other.close()
        assert "Left out: nothing" in await asked(client, "recall_step", query="s_2")
        assert (await asked(client, "explain_step")).startswith("0 events")


async def test_of_two_conversations_neither_answers_for_the_other(store: str) -> None:
    """They have the same words at first, and the same ids of steps."""
    session = Focus("offline", budget=1000).session(store, tenant="audit")
    other = [{**message, "content": message["content"].replace("page", "sheet")} for message in history(12)]
    session.view(history(12), id="one")
    session.view(other, id="two")
    async with server(store) as client:
        for query in ("s_2", "Next"):
            which = await asked(client, "recall_step", query=query)
            assert which.startswith("There are such steps in 2 conversations.")
            assert which == await asked(client, "explain_step", query=query)
        assert "Next is page 2." in await asked(client, "recall_step", query="s_2", conversation="one")
        assert "Next is sheet 2." in await asked(client, "recall_step", query="s_2", conversation="two")
        assert "Left out: nothing" in await asked(client, "recall_step", query="s_2", conversation="three")
    async with server(store, "--conversation", "two") as client:
        assert "Next is sheet 2." in await asked(client, "recall_step", query="s_2")
        assert "Left out: nothing" in await asked(client, "recall_step", query="s_2", conversation="one")
        assert (await asked(client, "explain_step")).count("two: s_") == 1


async def test_a_store_that_cannot_be_read(store: str) -> None:
    async with server(store) as client:
        Path(store.removeprefix("sqlite:///")).write_text("no database " * 100)
        for tool in ("recall_step", "explain_step"):
            assert "cannot be read" in await asked(client, tool, query="s_2")


def test_importing_it_imports_mcp_only() -> None:
    assert loaded("focusctx.integrations.mcp") - loaded("mcp.server") <= {"focusctx"}


def test_the_code_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert moved(run_page(ROOT / "docs" / "integrations" / "mcp.md", 12))
