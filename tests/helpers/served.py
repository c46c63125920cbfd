"""`focusctx serve` in a process of its own, for tests that talk to it."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from helpers.histories import run

CHAT = "/v1/chat/completions"
_NOT_OURS = ("FOCUSCTX", "OPENAI", "ANTHROPIC", "OTEL")
_PROGRAM = [sys.executable, "-m", "focusctx", "serve"]


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)}
    return {**kept, "XDG_DATA_HOME": str(home), "HOME": str(home), "PYTHONUNBUFFERED": "1", **more}


@dataclass
class Served:
    process: asyncio.subprocess.Process
    url: str
    said: list[str]
    """Lines on standard error, so far."""

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 10)


@contextlib.asynccontextmanager
async def serve(home: Path, *options: str, **more: str) -> AsyncIterator[Served]:
    process = await asyncio.create_subprocess_exec(
        *_PROGRAM, *options, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(home, **more)
    )
    assert process.stderr is not None
    served = Served(process, "", [])

    async def listen() -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            served.said.append(line.decode().rstrip())

    listener = asyncio.create_task(listen())
    try:
        while not served.url:
            await asyncio.sleep(0.01)
            assert process.returncode is None, served.said
            found = re.search(r"listens on (\S+) .*, store ", "\n".join(served.said), re.DOTALL)
            served.url = found[1] if found else ""
        yield served
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await listener
        assert process.stdout is not None
        assert await process.stdout.read() == b"", "standard output is not for messages"


def history(steps: int = 12) -> bytes:
    return json.dumps({"model": "m", "messages": run(steps)}).encode()
