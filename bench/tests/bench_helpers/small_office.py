"""A checkout built like OfficeBench, with one app and three tasks, that any Python can run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

APPS = """
from . import notes_app
AVAILABLE_APPS = {"notes": notes_app, "shell": notes_app, "llm": notes_app}
AVAILABLE_ACTIONS = {"notes": {"write": notes_app.write}, "shell": {"command": notes_app.command}}
AVAILABLE_ACTIONS["llm"] = {"complete_text": notes_app.llm}
"""
ACTIONS = {
    "__init__": "INTRO = 'notes: an app for notes'\nfrom . import write, command, llm",
    "command": "DEMO = \"run: {'app': 'shell', 'action': 'command', 'command': [THE_COMMAND]}\"",
    "llm": "DEMO = \"ask: {'app': 'llm', 'action': 'complete_text', 'prompt': [PROMPT]}\"",
    "write": """
import sys
DEMO = "write a note: {'app': 'notes', 'action': 'write', 'name': [NAME], 'line_idx': [LINE_INDEX], 'text': [TEXT]}"
def construct_action(folder, args):
    return "python3 /apps/notes_app/write.py {} '''{}'''".format(args["name"], args["text"])
if __name__ == "__main__":
    with open("/testbed/data/" + sys.argv[1], "a") as file:
        file.write(sys.argv[2])
    print("chatter OBSERVATION: wrote " + sys.argv[1])
""",
}
EVALUATE = """
import os
def evaluate_contain(testbed, args):
    return args["keyword"] in open(os.path.join(testbed, args["file"])).read()
def evaluate_emails(testbed, args):  # OfficeBench reads emails at this path, wherever the testbed is
    return os.listdir("/testbed/emails") == args["names"]
def evaluate_same(testbed, args):
    read = [open(os.path.join(testbed, args[name])).read() for name in ("file", "other")]
    return read[0] == read[1]
"""
GIVEN = "../../../../cache/0/testbed/data/given.txt"
CHECKS: list[Mapping[str, Any]] = [
    {"function": "evaluate_contain", "args": {"file": "./data/note.txt", "keyword": "milk"}},
    {"function": "evaluate_emails", "args": {"names": []}},
    {"function": "evaluate_same", "args": {"file": "data/given.txt", "other": GIVEN}},
    {"function": "evaluate_same", "args": {"file": "data/note.txt", "other": "../../../../reference/note.txt"}},
]


def make(root: Path) -> Path:
    files = {f"apps/notes_app/{name}.py": text for name, text in ACTIONS.items()}
    files |= {"apps/__init__.py": APPS, "utils/evaluate.py": EVALUATE}
    for task in ("1-2", "1-10", "3-1"):
        config = {"username": "Bob", "date": "2020-05-01", "weekday": "Friday", "time": "10:00 AM"}
        files[f"tasks/{task}/subtasks/0.json"] = json.dumps({**config, "task": "Note: milk", "evaluation": CHECKS})
        files[f"tasks/{task}/testbed/data/given.txt"] = "as it was"
        files[f"tasks/{task}/reference/note.txt"] = "milk"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root
