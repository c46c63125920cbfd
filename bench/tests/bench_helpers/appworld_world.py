"""A small world for the real AppWorld: its own models fill its databases, the tasks and their judges are ours.

    python appworld_world.py ROOT       in AppWorld's interpreter; ROOT/data becomes what `appworld download data` makes

One person, one notebook, two tasks: a question (easy), and a note that must be changed (hard).
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

PERSON = {
    "first_name": "Ada",
    "last_name": "Winter",
    "email": "ada.winter@example.com",
    "phone_number": "5550100200",
}
PASSWORD = "frost-and-ice"
NOTE = "Packing list"
ITEMS = ["tent", "stove", "map"]
QUESTION, CHORE = "aaaaaaa_1", "bbbbbbb_1"
DIFFICULTIES = {QUESTION: 1, CHORE: 3}
INSTRUCTIONS = {
    QUESTION: f"How many things are on the note '{NOTE}'?",
    CHORE: f"Add the line 'lamp' at the end of the note '{NOTE}' in my notebook, and pin the note.",
}
ANSWERS = {QUESTION: "3", CHORE: None}
REQUIREMENTS = {
    QUESTION: {"the answer is right": "no_op_fail", "no note has changed": "no_op_pass"},
    CHORE: {"the note has the new line": "no_op_fail", "the note is pinned": "no_op_fail"},
}
EVALUATIONS = {
    QUESTION: """
import json

def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    with test("the answer is right"):
        test.answer(json.loads(models.end.supervisor.Task.first().answer), ground_truth_answer)
    with test("no note has changed"):
        assert models.changed_records("simple_note.Note") == ([], [], [])
""",
    CHORE: """
def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    note = models.end.simple_note.Note.find_one(title=public_data.title)
    with test("the note has the new line"):
        assert note.content.splitlines() == private_data.lines
    with test("the note is pinned"):
        assert note.pinned
""",
}


def build(root: Path) -> None:
    os.environ["APPWORLD_ROOT"] = str(root)
    get_all_apps = import_module("appworld.apps").get_all_apps
    api_docs = import_module("appworld.collections.api_docs").ApiDocCollection
    collection = import_module("appworld.collections.models").ModelCollection

    data = root / "data"
    documented = api_docs.build(load_apps=tuple(get_all_apps(skip_admin=True)))
    (docs := data / "api_docs" / "standard").mkdir(parents=True)
    for app, apis in documented.items():
        told = {name: {**doc, "canary_string": ""} for name, doc in apis.items()}
        (docs / f"{app}.json").write_text(json.dumps(told))
    base = collection.load(to_db_home_path=":memory:base", load_apps=get_all_apps(), create_db=True)
    for doc in documented["simple_note"].values():
        fields = {name: doc[name] for name in doc if name != "app_name"}
        base.api_docs.ApiDoc.create_save(app_name_="simple_note", **fields)
    _people(base)
    base.save(db_home_path=str(data / "base_dbs"), app_names=get_all_apps())
    for task in INSTRUCTIONS:
        _task(data, task)
    (data / "datasets").mkdir()
    (data / "datasets" / "test_normal.txt").write_text(f"{QUESTION}\n{CHORE}\n")
    (data / "datasets" / "dev.txt").write_text(f"{CHORE}\n")


def _people(models: Any) -> None:
    born = {"birthday": "1990-01-01", "sex": "female"}
    user = models.admin.MainUser.create_save(**PERSON, **born)
    models.admin.AccountPassword.create_save(main_user_id=user.id, account_name="simple_note", password=PASSWORD)
    name = {key: PERSON[key] for key in ("first_name", "last_name", "email")}
    owner = models.simple_note.User.create_save(**name, password=PASSWORD, verified=True)
    models.simple_note.Note.create_save(user_id=owner.id, title=NOTE, content="\n".join(ITEMS), pinned=False)


def _task(data: Path, task: str) -> None:
    apps = import_module("appworld.apps").get_all_apps()
    folder = data / "tasks" / task
    models = import_module("appworld.collections.models").ModelCollection.load(
        to_db_home_path=f":memory:task_input-{task}", from_db_home_path=str(data / "base_dbs"), load_apps=apps
    )
    boss = models.supervisor.Supervisor.create_save(**PERSON, birthday="1990-01-01", sex="female")
    models.supervisor.AccountPassword.create_save(supervisor_id=boss.id, account_name="simple_note", password=PASSWORD)
    models.supervisor.Task.create_save(supervisor_id=boss.id, instruction=INSTRUCTIONS[task])
    models.save(db_home_path=str(folder / "dbs"), app_names=apps, format="changes")
    specs = {
        "supervisor": PERSON,
        "datetime": "2023-05-18T12:00:00",
        "db_version": import_module("appworld.common.constants").DB_VERSION,
    }
    (folder / "specs.json").write_text(json.dumps({"instruction": INSTRUCTIONS[task], **specs}))
    (truth := folder / "ground_truth").mkdir()
    counts = dict.fromkeys(("num_apps", "num_apis", "num_api_calls", "num_solution_code_lines"), 1)
    files = {
        "metadata": {"difficulty": DIFFICULTIES[task], "mode": "minimal", **counts},
        "public_data": {"title": NOTE},
        "private_data": {"lines": [*ITEMS, "lamp"]},
        "answer": ANSWERS[task],
        "test_data": [{"requirement": text, "label": label} for text, label in REQUIREMENTS[task].items()],
    }
    for name, content in files.items():
        (truth / f"{name}.json").write_text(json.dumps(content))
    (truth / "evaluation.py").write_text(EVALUATIONS[task])


if __name__ == "__main__":
    build(Path(sys.argv[1]))
