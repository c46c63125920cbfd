"""What tests of the proxy have at hand: a bound in time, an eye on what is left behind, and a real Redis."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import FrameType

import pytest

from helpers.stored import redis_binary, redis_server

_BOUND = 30.0
"""Seconds that any one of the tests that ask for it may take."""


@pytest.fixture
def bounded() -> Iterator[None]:
    """The test fails where it would hang."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"not done after {_BOUND:.0f} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, _BOUND)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
async def nothing_left(bounded: None) -> AsyncIterator[None]:
    """After the test there are no tasks, sockets and files that were not there before."""
    loop = asyncio.get_running_loop()
    tasks, files = asyncio.all_tasks(), _files()
    yield
    end = loop.time() + 2
    while True:
        left = asyncio.all_tasks() - tasks - {asyncio.current_task()}
        more = _files() - files
        if not left and not more:
            return
        assert loop.time() < end, f"left behind: {left or ''} {more or ''}"
        await asyncio.sleep(0.01)


def _files() -> set[str]:
    """Open descriptors, and what they are."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name} {entry.readlink()}")
        except OSError:  # the one with which the folder was listed
            continue
    return found


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if redis_binary() is None:
        pytest.skip("no redis-server on PATH (scripts/redis installs it)")
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url
