"""An agent for OfficeBench with the answer key in its hand: what a task's evaluators will look for, made with its apps.

It shows that a task can be driven to its end and passed. It does not do the task: a report that must name Bob is a
file with the word Bob in it.
"""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from focusctx_bench.models.scripted import FunctionModel, Say

Call = tuple[str, dict[str, Any]]
FREE_ROW = 500
SENDER = "Office"  # in whose own mailbox no evaluator looks
TIME = re.compile(r"DTSTART:(\d{8})(?:T(\d{6}))?$")

REFERENCE = """
import json, sys, openpyxl
sheet = openpyxl.load_workbook(sys.argv[1]).active
cells = [[cell.row, cell.column, cell.value] for row in sheet.iter_rows() for cell in row if cell.value is not None]
print(json.dumps(cells, default=str))
"""


def model(root: Path, task: str, python: str) -> FunctionModel:
    """Play the plan, one call per turn, whatever the agent is sent: a method may have dropped its earlier turns."""
    calls = opened(Key(root, task, python).plan())
    return FunctionModel(lambda _: Say(calls=[next(calls, ("finish_task", {}))]))


def opened(calls: Iterable[Call]) -> Iterator[Call]:
    """The plan with the switches between apps that it needs."""
    current = ""
    for name, arguments in calls:
        app = "" if name == "finish_task" else name.split("_")[0]
        if app and app != current:
            yield "switch_app", {"target_app": app}
            current = app
        yield name, arguments


class Key:
    def __init__(self, root: Path, task: str, python: str) -> None:
        apps, number, subtask = task.split("-")
        self.folder = root / "tasks" / f"{apps}-{number}"
        config = json.loads((self.folder / "subtasks" / f"{subtask}.json").read_text(encoding="utf-8"))
        self.checks: list[Mapping[str, Any]] = config["evaluation"]
        self.python = python
        self.made: set[str] = set()

    def plan(self) -> Iterator[Call]:
        for check in sorted(self.checks, key=lambda check: check["function"] != "evaluate_not_contain"):
            yield from getattr(self, check["function"].removeprefix("evaluate_"))(check["args"])
        yield "finish_task", {"answer": " ".join(self.answer())}

    def answer(self) -> Iterator[str]:
        for check in self.checks:
            if check["function"] == "evaluate_contain" and check["args"].get("file", "").endswith("answer.txt"):
                yield from check["args"]["keywords"]

    # One method for each of OfficeBench's evaluators.

    def file_exist(self, told: Mapping[str, Any]) -> Iterator[Call]:
        yield from self.make(path_of(told["file"]))

    def file_not_exist(self, told: Mapping[str, Any]) -> Iterator[Call]:
        yield shell(f"rm -f {path_of(told['file'])}")

    def contain(self, told: Mapping[str, Any]) -> Iterator[Call]:
        if told["doc_type"] == "email":
            content = f"Note: {' ; '.join(told['keywords'])}"  # the app takes no number
            subject = f"For {told['username']}"  # an email of the same name, sent or received, would be overwritten
            email = {"sender": SENDER, "recipient": told["username"], "subject": subject, "content": content}
            yield "email_send_email", email
        elif not told["file"].endswith("answer.txt"):
            yield from self.write(path_of(told["file"]), told["keywords"])

    def not_contain(self, told: Mapping[str, Any]) -> Iterator[Call]:
        """One keyword fewer is enough: without the file there is none. A mailbox must be there."""
        if told["doc_type"] == "email":
            yield "email_list_emails", {"username": told["username"]}
        elif self.exists(path := path_of(told["file"])):
            yield shell(f"rm {path}")
            self.made.add(f"-{path}")

    def excel_cell_value(self, told: Mapping[str, Any]) -> Iterator[Call]:
        if "file" in told:
            path = path_of(told["file"])
            yield from self.make(path)
            yield from (cell(path, match["row"], match["col"], match["value"]) for match in told["matches"])

    def excel_cell_comparator(self, told: Mapping[str, Any]) -> Iterator[Call]:
        path = path_of(told["file"])
        yield from (cell(path, match["row"], match["col"], "1") for match in told["matches"])

    def diff_contain_text(self, told: Mapping[str, Any]) -> Iterator[Call]:
        yield from self.write(path_of(told["output_file"]), told["keywords"])

    def exact_match(self, told: Mapping[str, Any]) -> Iterator[Call]:
        path = path_of(told["result_file"])
        yield shell(f"rm -f {path}")
        self.made.add(f"-{path}")
        yield from self.make(path)
        reference = self.folder / "reference" / PurePosixPath(told["expected_file"]).name
        if told["doc_type"] == "xlsx" and reference.exists():
            read = subprocess.run([self.python, "-c", REFERENCE, reference], capture_output=True, check=True)
            yield from (cell(path, row, column, value) for row, column, value in json.loads(read.stdout))

    def calendar_no_overlap(self, told: Mapping[str, Any]) -> Iterator[Call]:
        yield "calendar_list_events", {"username": told["username"]}

    # Files, by their kind.

    def exists(self, path: str) -> bool:
        given = (self.folder / "testbed" / PurePosixPath(path).relative_to("/testbed")).exists()
        return path in self.made or (given and f"-{path}" not in self.made)

    def make(self, path: str) -> Iterator[Call]:
        if self.exists(path):
            return
        self.made.add(path)
        where = PurePosixPath(path)
        yield shell(f"mkdir -p {where.parent}")
        if where.suffix == ".xlsx":
            yield "excel_create_new_file", {"file_path": path}
        elif where.suffix == ".docx":
            yield "word_create_new_file", {"file_path": path}
        elif where.suffix == ".pdf":
            source = str(where.with_suffix(".docx"))
            yield from self.make(source)
            yield "word_convert_to_pdf", {"word_file_path": source, "pdf_file_path": path}
        elif where.suffix == ".eml" and "emails" in where.parts:
            email = {"sender": SENDER, "recipient": where.parent.name, "subject": where.stem, "content": "Hello"}
            yield "email_send_email", email
        elif where.suffix == ".ics" and "calendar" in where.parts:
            yield "calendar_list_events", {"username": where.stem}
        elif where.suffix in (".jpg", ".png") and (pdfs := sorted((self.folder / "testbed").rglob("*.pdf"))):
            source = f"/testbed/{pdfs[0].relative_to(self.folder / 'testbed')}"
            yield "pdf_convert_to_image", {"pdf_file_path": source, "image_file_path": path}
        else:
            yield shell(f"touch {path}")

    def write(self, path: str, keywords: list[str]) -> Iterator[Call]:
        where = PurePosixPath(path)
        yield from self.make(path)
        if where.suffix == ".xlsx":
            yield from (cell(path, FREE_ROW + place, 1, word) for place, word in enumerate(keywords))
        elif where.suffix == ".docx":
            for word in keywords:
                yield "word_write_to_file", {"file_path": path, "contents": f"Note: {word}"}  # it takes no number
        elif where.suffix == ".pdf":
            source = str(where.with_suffix(".docx"))
            yield from self.write(source, keywords)
            yield "word_convert_to_pdf", {"word_file_path": source, "pdf_file_path": path}
        elif where.suffix == ".ics" and (start := next(filter(None, map(TIME.match, keywords)), None)):
            yield event(where.stem, keywords, start[1], start[2] or "090000")
        else:  # what no app writes
            yield from (shell(f"echo {word} >> {path}") for word in keywords)


def event(user: str, keywords: list[str], day: str, time: str) -> Call:
    date = f"{day[:4]}-{day[4:6]}-{day[6:]}"
    words = " ".join(word for word in keywords if not word.startswith("DT"))
    ends = next((word[6:] for word in keywords if word.startswith("DTEND:")), "")
    ended = f"{ends[:4]}-{ends[4:6]}-{ends[6:8]}" if ends else date
    until = ends[9:15] or "235900"
    times = {"time_start": f"{date} {clock(time)}", "time_end": f"{ended} {clock(until)}"}
    return "calendar_create_event", {"user": user, "summary": words or "Meeting", **times}


def clock(digits: str) -> str:
    return f"{digits[:2]}:{digits[2:4]}:{digits[4:]}"


def cell(path: str, row: Any, column: Any, value: Any) -> Call:
    text = str(value)
    if text == "1" or "," in text:  # the excel app leaves the cell empty, or takes it for a list
        value = int(text) if text == "1" else text
        sheet = f'openpyxl.load_workbook("{path}")'
        code = f'import openpyxl; b = {sheet}; b.active.cell({row}, {column}, {json.dumps(value)}); b.save("{path}")'
        return shell(f"python3 -c '{code}'".replace('"', '\\"'))
    return "excel_set_cell", {"file_path": path, "row_idx": int(row), "column_idx": int(column), "text": text}


def shell(command: str) -> Call:
    return "shell_command", {"command": command}


def path_of(told: str) -> str:
    return str(PurePosixPath("/testbed") / told)
