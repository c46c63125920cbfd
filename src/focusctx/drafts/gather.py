"""Run calls in parallel and yield each result as it arrives; leave nothing running afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable
from typing import Any, TypeVar

from ..errors import DraftError

T = TypeVar("T")


async def as_they_come(calls: Iterable[Coroutine[Any, Any, T]]) -> AsyncGenerator[T, None]:
    """Yield the result of each call that succeeds, then raise the first `DraftError`, if any call failed.

    Closing the generator early cancels the calls that are still running and waits until they have ended.
    """
    tasks = [asyncio.create_task(call) for call in calls]
    failure: DraftError | None = None
    try:
        for finished in asyncio.as_completed(tasks):
            try:
                result = await finished
            except DraftError as error:
                failure = failure or error
            else:
                yield result
        if failure is not None:
            raise failure
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
