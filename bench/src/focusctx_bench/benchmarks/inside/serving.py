"""The other side of `../worker.py`: runs in the benchmark's interpreter and answers requests, JSON lines on both sides.

    python serving.py FILE      FILE has HANDLERS: name → function(ask, **arguments) → JSON

A handler runs in its own thread and may `ask` something back while it works; what it prints goes to stderr.
Standard library only: that interpreter has no focusctx, and may be as old as Python 3.9.
"""

from __future__ import annotations

import json
import os
import queue
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Ask = Callable[[Any], Any]
Handler = Callable[..., Any]


class Refused(RuntimeError):
    """There is no answer to what a handler asked."""


class Service:
    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._writing = threading.Lock()
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # a library that prints must not speak in our place

    def run(self) -> None:
        """Serve until nobody is left to ask."""
        for line in sys.stdin:
            message = json.loads(line)
            number = message["call"]
            if "do" in message:
                self._answers[number] = queue.Queue()
                threading.Thread(target=self._do, args=(number, message["do"], message["with"]), daemon=True).start()
            elif number in self._answers:
                self._answers[number].put(message)

    def _do(self, number: int, name: str, arguments: dict[str, Any]) -> None:
        def ask(what: Any) -> Any:
            self._send(call=number, ask=what)
            answer = self._answers[number].get()
            if "refusal" in answer:
                raise Refused(answer["refusal"])
            return answer["answer"]

        try:
            self._send(call=number, result=self._handlers[name](ask, **arguments))
        except BaseException as error:
            traceback.print_exc()
            self._send(call=number, error=f"{type(error).__name__}: {error}")
        finally:
            del self._answers[number]

    def _send(self, **message: Any) -> None:
        line = json.dumps(message)
        with self._writing:
            self._out.write(line + "\n")
            self._out.flush()


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [path for path in sys.path if path != here]  # our neighbours are no modules of the benchmark
    Service(runpy.run_path(sys.argv[1])["HANDLERS"]).run()
