"""Runs in AppWorld's interpreter: one world, whose code runs as AppWorld runs it.

It speaks as `serving.py` does, JSON lines on both sides, but works in the main thread: AppWorld stops code that
takes too long by a signal, which reaches no other thread. One call at a time, and one world in a process: AppWorld
closes all others when it opens one.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

_EXPERIMENT = "focusctx"
_exit = os._exit
_world: Any = None


def start(task: str, seconds: int) -> dict[str, Any]:
    """Return what the task says. The answers stay outside: the agent's code runs in this process."""
    global _world  # noqa: PLW0603
    try:
        engine = import_module("appworld.environment")
    except ImportError as error:
        raise RuntimeError(
            f"{sys.executable} cannot run AppWorld ({error}): `pip install appworld`, then `appworld install`"
        ) from error
    _world = engine.AppWorld(task, experiment_name=_EXPERIMENT, load_ground_truth=False, timeout_seconds=seconds)
    person = {name: str(_world.task.supervisor[name]) for name in ("first_name", "last_name", "email", "phone_number")}
    return {"instruction": _world.task.instruction, "person": person}


def run(code: str) -> dict[str, Any]:
    try:
        text = _world.execute(code)
    except BaseException as error:  # not an Exception: AppWorld lets it through, with its guard still up
        _world.safety_guard.disable()
        _world.execute("pass")  # which writes to the disk what the code has changed
        text = f"Execution failed. Traceback:\n{type(error).__name__}: {error}"
    return {"text": text, "over": bool(_world.task_completed())}


def evaluate(task: str) -> dict[str, Any]:
    """Judge what the world has left on the disk, in a process that has run no code of the agent's."""
    return dict(import_module("appworld.evaluator").evaluate_task(task, _EXPERIMENT, save_report=False).to_dict())


HANDLERS: dict[str, Callable[..., dict[str, Any]]] = {"start": start, "run": run, "evaluate": evaluate}


def main() -> None:
    """Serve until nobody is left to ask. Neither what prints nor what reads can come between."""
    asked, said = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    for line in asked:
        message = json.loads(line)
        if "do" not in message:  # nobody waits any more for a call that has ended
            continue
        answer = {"call": message["call"]}
        try:
            answer["result"] = HANDLERS[message["do"]](**message["with"])
        except Exception as error:
            traceback.print_exc()
            answer["error"] = f"{type(error).__name__}: {error}"
        said.write(json.dumps(answer) + "\n")
        said.flush()
    _exit(0)  # AppWorld's threads would keep the process


if __name__ == "__main__":
    sys.path.pop(0)  # our neighbours are no modules of AppWorld's
    main()
