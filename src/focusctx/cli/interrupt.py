"""Handle Ctrl-C in a long command: end at once and say how to continue."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

GOES_ON = "run the same command again to continue"


@contextmanager
def interruptible(and_then: str = GOES_ON) -> Iterator[None]:
    """Guard work that Ctrl-C or SIGTERM may stop at any moment; its files are written whole or not at all."""
    from asyncio import CancelledError  # not above: all commands are loaded for `--help`

    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except (KeyboardInterrupt, CancelledError):
        sys.stderr.write(f"stopped: interrupted; {and_then}\n")
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _: object) -> None:
    import asyncio

    signal.signal(number, signal.default_int_handler)  # a second signal stops at once
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise KeyboardInterrupt from None
    # Raised inside a task, KeyboardInterrupt would be reported as that task's failure, with a traceback.
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.call_soon_threadsafe(lambda: None)  # wake the loop, which may be asleep
