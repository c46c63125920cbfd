"""The official SDKs do the long task through the proxy: the same run, and valid, smaller, prefix-stable histories."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import pytest

from focusctx import Focus
from focusctx.types import Prompt
from helpers import sdk_agents, task
from helpers.prefixes import is_shortened, moves, spelled
from helpers.provider import Provider, Received
from helpers.proxied import events, every_third_and_the_newest, proxied

BUDGET = 2000


def focus(draft: str | Callable[[Prompt], str] = every_third_and_the_newest) -> Focus:
    return Focus(draft, budget=BUDGET)


def check(direct: sdk_agents.Run, whole: list[Received], run: sdk_agents.Run, sent: list[Received], drops: int) -> None:
    """The agent did the same with and without the proxy; what its provider saw shrank, and moved only to shrink."""
    assert run == direct
    assert run.final == [task.FINAL]
    assert len(sent) == len(whole) == task.STEPS + 1
    moved = moves(sent)
    assert len(moved) == drops > 1
    assert moves(whole) == []
    for before, after in zip(whole[: moved[0]], sent[: moved[0]], strict=True):
        assert after.raw == before.raw, "nothing is touched while nothing is due"
    for before, after in zip(whole[moved[0] :], sent[moved[0] :], strict=True):
        assert len(after.raw) < len(before.raw)
        assert {key: value for key, value in after.body.items() if key not in ("messages", "input")} == {
            key: value for key, value in before.body.items() if key not in ("messages", "input")
        }
        changed = set(spelled(after)) - set(spelled(before))
        assert all(is_shortened(message) for message in changed), "what is left is left word for word"
    assert len(sent[-1].raw) < 0.6 * len(whole[-1].raw)


@cache
def without_proxy(format: str, stream: bool) -> tuple[sdk_agents.Run, list[Received]]:
    with Provider(task.model) as provider:
        run = sdk_agents.run_sync(format, provider.url, stream=stream)
    assert provider.rejected == []
    return run, provider.received


@contextmanager
def same_run(format: str, stream: bool, focus: Focus) -> Iterator[tuple[str, list[sdk_agents.Run]]]:
    """Where to send the requests of a run, and where to put what it did."""
    runs: list[sdk_agents.Run] = []
    with Provider(task.model) as provider, proxied(focus, provider.url) as (proxy, url):
        yield url, runs
        check(*without_proxy(format, stream), runs[0], provider.received, len(events(proxy)))
    assert provider.rejected == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("format", sdk_agents.FORMATS)
def test_an_sdk_runs_the_same(format: str, stream: bool) -> None:
    with same_run(format, stream, focus()) as (url, runs):
        runs.append(sdk_agents.run_sync(format, url, stream=stream))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("format", sdk_agents.FORMATS)
async def test_an_async_sdk_runs_the_same(format: str, stream: bool) -> None:
    with same_run(format, stream, focus()) as (url, runs):
        runs.append(await sdk_agents.run_async(format, url, stream=stream))


@pytest.mark.parametrize("format", sdk_agents.FORMATS)
def test_the_offline_draft_does_it_too(format: str) -> None:
    with same_run(format, True, focus("offline")) as (url, runs):
        runs.append(sdk_agents.run_sync(format, url, stream=True))
