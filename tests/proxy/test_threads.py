"""Anthropic's message threads: the provider holds the history, and its tool runner uses them unless told otherwise."""

from typing import Any

import anthropic
import pytest
from anthropic import beta_tool

from focusctx import Focus
from helpers import task
from helpers.provider import Provider
from helpers.proxied import events, every_third_and_the_newest, proxied


def _run(name: str, **arguments: Any) -> str:
    try:
        return task.run_tool(name, arguments)
    except task.ToolFailure as failure:
        return f"Error: {failure}"


@beta_tool
def read_page(page: int) -> str:
    """Read one page of the ledger."""
    return _run("read_page", page=page)


@beta_tool
def trace_lot(page: int, lot: str) -> str:
    """Find out what happened to a lot."""
    return _run("trace_lot", page=page, lot=lot)


@beta_tool
def verify_balance(page: int, expected: int) -> str:
    """Check the balance carried on a page."""
    return _run("verify_balance", page=page, expected=expected)


def audit(url: str, **options: Any) -> str:
    with anthropic.Anthropic(base_url=url, api_key="key-of-a-test", max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="scripted",
            max_tokens=1000,
            tools=[read_page, trace_lot, verify_balance],
            messages=[{"role": "user", "content": task.TASK}],
            **options,
        )
        return str(runner.until_done().content[-1].text)


@pytest.mark.parametrize("recall", [False, True], ids=["", "recall"])
def test_the_tool_runner_goes_through_untouched(recall: bool) -> None:
    with Provider(task.model) as provider:
        assert audit(provider.url) == task.FINAL
        direct = list(provider.received)
    focus = Focus(every_third_and_the_newest, budget=100)
    with Provider(task.model) as provider, proxied(focus, provider.url, recall=recall) as (proxy, url):
        assert audit(url) == task.FINAL
        assert len(proxy.conversations) == 0
    kinds = [received.body["thread"]["type"] for received in provider.received]
    assert kinds == ["create", *["continue"] * task.STEPS]
    assert [received.raw for received in provider.received] == [received.raw for received in direct]


def test_without_threads_the_tool_runner_is_compressed() -> None:
    focus = Focus(every_third_and_the_newest, budget=2000)
    with Provider(task.model) as provider, proxied(focus, provider.url) as (proxy, url):
        assert audit(url, thread=False) == task.FINAL
        assert len(events(proxy)) > 1
    assert provider.rejected == []
    assert not any("thread" in received.body for received in provider.received)
    assert len(provider.received[-1].messages) < task.STEPS


def test_a_thread_that_was_lost_is_created_again_with_the_whole_history() -> None:
    """The provider then holds what the agent knows, and goes on from it."""
    focus = Focus(every_third_and_the_newest, budget=100)
    history: list[Any] = [{"role": "user", "content": task.TASK}]
    for page in range(1, 12):
        use = {"type": "tool_use", "id": f"toolu_{page}", "name": "read_page", "input": {"page": page}}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": _run("read_page", page=page)}
        history += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    with (
        Provider(task.model) as provider,
        proxied(focus, provider.url) as (_, url),
        anthropic.Anthropic(base_url=url, api_key="key-of-a-test", max_retries=0) as client,
    ):
        client.beta.messages.create(model="m", max_tokens=9, messages=history, thread={"type": "create"})
    assert provider.received[0].messages == history
