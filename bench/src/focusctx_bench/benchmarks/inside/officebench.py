"""Runs in the sandbox, in the interpreter of OfficeBench's apps: actions become commands, evaluators judge.

Commands are put together and quoted as OfficeBench does it for docker, its oddities included: what an action does
must not depend on where it runs.
"""

from __future__ import annotations

import os
import posixpath
import re
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_Ask = Callable[[Any], Any]
_CD = re.compile(r"cd\s+(\S+)")
_folder = "/"
"""The working directory of the agent's shell."""


def describe(ask: _Ask) -> dict[str, Any]:  # noqa: ARG001
    """Return every app's own description of itself and its actions."""
    apps = _import("apps")
    return {
        name: {
            "intro": app.INTRO,
            "actions": {
                action: {"demo": module.DEMO, "file": module.__file__}
                for action, module in apps.AVAILABLE_ACTIONS[name].items()
            },
        }
        for name, app in apps.AVAILABLE_APPS.items()
    }


def act(ask: _Ask, app: str, file: str, arguments: dict[str, Any], seconds: float) -> str:  # noqa: ARG001
    """`file` is that of the action: the other apps, which take seconds to import, are not needed for it."""
    try:
        line = _line(app, file, {name: _single(value) for name, value in arguments.items()})
        command = shlex.split(f'/bin/bash -c """ {line.strip()} """')  # as docker takes it apart
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return f"Error: this action cannot be carried out, something is missing or wrong in it: {error!r}"
    return _run(command, line, seconds)


def finish(ask: _Ask, answer: str) -> str:  # noqa: ARG001
    """The answer goes where OfficeBench puts it, without quotes, as there."""
    path = Path("/testbed/data/answer.txt")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(answer.replace('"', "").replace("'", "") + "\n", encoding="utf-8")
    except OSError as error:  # the agent may have put anything in the way
        return f"Error: no answer can be written: {error}"
    return "The task is finished."


def evaluate(ask: _Ask, testbed: str, evaluation: list[Mapping[str, Any]]) -> list[dict[str, Any]]:  # noqa: ARG001
    """Judge each check by OfficeBench's own function. One that raises is not passed, as it is there."""
    judges = _import("utils.evaluate")
    return [_judged(getattr(judges, check["function"]), testbed, check) for check in evaluation]


HANDLERS = {"describe": describe, "act": act, "finish": finish, "evaluate": evaluate}


def _import(name: str) -> Any:
    import importlib

    if "/" not in sys.path:
        sys.path.insert(0, "/")  # where the sandbox shows them
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise RuntimeError(f"{sys.executable} lacks what OfficeBench needs: {error}; docs/bench.md lists it") from error


def _line(app: str, file: str, arguments: dict[str, Any]) -> str:
    if app == "shell":
        command = arguments["command"]
        return " ".join(command) if isinstance(command, list) else str(command)
    return str(runpy.run_path(file)["construct_action"](_folder, args=arguments))


def _single(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _run(command: list[str], line: str, seconds: float) -> str:
    global _folder  # noqa: PLW0603
    if not Path(_folder).is_dir():
        _folder = "/"  # the agent has removed the ground it stood on
    try:
        process = subprocess.Popen(
            command,
            cwd=_folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # too long, or with a character that no command can have
        return f"Error: this action cannot be carried out: {error}"
    assert process.stdout is not None
    try:
        output = process.communicate(timeout=seconds)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()  # what got away may hold the other end for ever
        process.wait()
        return f"Error: not finished after {seconds:g} seconds, stopped."
    if process.returncode == 0 and (moved := _CD.fullmatch(line.strip())):
        _folder = posixpath.normpath(Path(_folder, moved[1]).as_posix())
    said = output.split("OBSERVATION:")[-1].strip()
    return said or f"Nothing was printed; exit status {process.returncode}."


def _judged(judge: Callable[..., bool], testbed: str, check: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"check": check["function"], "passed": bool(judge(testbed, check["args"]))}
    except Exception as error:
        return {"check": check["function"], "passed": False, "error": repr(error)}
