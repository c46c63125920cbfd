"""CONTRIBUTING.md names every session file that an event passes through, and says how many files it passes in all."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_walk_of_a_session_event_is_written_down() -> None:
    spec = importlib.util.spec_from_file_location("walk", ROOT / "scripts" / "walk.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    files = script.walk()
    entered = {file for file in files if file.startswith("session/")}
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    section = contributing.split("## The walk of a session event")[1].split("\n## ")[0]
    assert {"session/session.py", "session/conversation.py"} <= entered
    assert not [file for file in entered if f"`{file}`" not in section]
    assert f"It is {len(files)} files today" in section
    assert f"{len(entered)} of them in `session/`" in section
