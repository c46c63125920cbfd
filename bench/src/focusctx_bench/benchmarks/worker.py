"""A program in another interpreter that we ask for things, and that may ask back (`inside/serving.py`).

A call is one line to the program and one back, with any number of questions and answers between. Calls from several
tasks, and from several event loops, go side by side. The program ends with the last one who holds the worker.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError, FocusError

SERVING = Path(__file__).with_name("inside") / "serving.py"

Answer = Callable[[Any], Awaitable[Any]]
_Inbox = Callable[[dict[str, Any]], object]

_PATIENCE = 5.0
"""Seconds a program gets to end by itself."""


class Worker:
    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str], cwd: Path | None = None) -> None:
        """`name` is what errors call the program."""
        self._name = name
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                cwd=cwd,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # an interrupt is for us; the program ends when its input does
            )
        except OSError as error:
            raise BenchError(f"{name}: {command[0]} could not be started: {error}") from error
        self._line = _Line(process)
        self._numbers = itertools.count()
        self.close = weakref.finalize(self, _end, process)
        """Ends the program; blocks until it has ended."""

    @property
    def is_alive(self) -> bool:
        return self.close.alive and self._line.is_open

    async def call(self, do: str, arguments: Mapping[str, Any], answer: Answer | None = None) -> Any:
        """Return what the program's handler returns. `answer` is asked whatever the handler asks."""
        number = next(self._numbers)
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self._line.inboxes[number] = lambda message: loop.call_soon_threadsafe(inbox.put_nowait, message)
        refused: FocusError | None = None
        try:
            self._send({"call": number, "do": do, "with": arguments})
            while True:
                message = await inbox.get()
                if "result" in message:
                    return message["result"]
                if "ask" not in message:
                    raise refused or BenchError(f"{self._name}: {message.get('error') or self._line.last_words()}")
                try:
                    if answer is None:
                        raise BenchError(f"nobody answers {message['ask']!r}")
                    self._send({"call": number, "answer": await answer(message["ask"])})
                except FocusError as error:
                    refused = error
                    self._send({"call": number, "refusal": str(error)})
        except asyncio.CancelledError:
            with suppress(BenchError):  # nobody will answer any more: let the handler end
                self._send({"call": number, "refusal": "cancelled"})
            raise
        finally:
            del self._line.inboxes[number]

    def _send(self, message: Mapping[str, Any]) -> None:
        if not self._line.send(json.dumps(message)):
            raise BenchError(f"{self._name}: {self._line.last_words()}")


class _Line:
    """The pipes of a program. Its threads hold this and not the worker, so that the worker can be let go."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._writing = threading.Lock()
        self._said: deque[str] = deque(maxlen=12)
        self.inboxes: dict[int, _Inbox] = {}
        self._ended = False
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        self._errors.start()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def is_open(self) -> bool:
        return not self._ended and self._process.poll() is None

    def send(self, line: str) -> bool:
        """Send a line; False if the program has ended."""
        assert self._process.stdin is not None
        if self._ended:
            return False
        try:
            with self._writing:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
        except (OSError, ValueError):  # broken, or closed by us
            self._errors.join(_PATIENCE)
            return False
        return True

    def last_words(self) -> str:
        said = "".join(self._said).strip()
        return f"the program ended{': ' + said if said else ''}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                message = json.loads(line)
                self._deliver(message["call"], message)
        self._errors.join(_PATIENCE)
        self._ended = True
        for number in list(self.inboxes):
            self._deliver(number, {"error": None})

    def _deliver(self, number: int, message: dict[str, Any]) -> None:
        if inbox := self.inboxes.get(number):
            with suppress(RuntimeError):  # its event loop is closed: nobody waits any more
                inbox(message)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._said.extend(lines)


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
