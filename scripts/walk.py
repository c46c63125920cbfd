"""Print the files of focusctx that one session event passes through, in the order in which they are entered.

    python scripts/walk.py

The event asks the offline draft and applies its decision, with a store in memory. The agent's earlier calls, and the
imports, are not counted. CONTRIBUTING.md describes the walk, and tests/session/test_walk.py holds the two together.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import focusctx
from focusctx import Focus

PACKAGE = Path(focusctx.__file__).parent


def files_entered(work: Callable[[], object]) -> dict[str, int]:
    """Return the files of the package that `work` enters, on any thread, each with its number of functions."""
    seen: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{PACKAGE}/") and code.co_name != "<module>":
            seen.setdefault(code.co_filename, set()).add(code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {str(Path(file).relative_to(PACKAGE)): len(functions) for file, functions in seen.items()}


def history(steps: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find the port of the staging database."}]
    for number in range(1, steps + 1):
        function = {"name": "read", "arguments": f'{{"path": "config/{number}.toml"}}'}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": f"Look at file {number}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": f"setting_{number} = 1\n" * 60})
    return messages


def walk() -> dict[str, int]:
    """Return the files of one session event, after a call that stayed within the budget."""
    long = history(8)
    session = Focus("offline", budget=2000).session(ahead=1.0)
    session.view(long[:-8])
    Focus("offline", budget=500).session(ahead=1.0).view(history(4))  # imports everything
    entered = files_entered(lambda: session.view(long))
    assert [event.happened for event in session.events] == [True], "the event did not happen"
    return entered


if __name__ == "__main__":
    found = walk()
    for file, functions in found.items():
        print(f"{functions:4} functions  {file}")
    print(f"{len(found)} files, {sum(found.values())} functions")
