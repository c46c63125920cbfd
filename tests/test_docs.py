"""README and docs: every Python block runs, every name they mention can be imported."""

import ast
import importlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

import focusctx
import focusctx.drafts
from helpers.histories import step
from helpers.pages import FRAMEWORK_PAGES, PAGES, ROOT, blocks, imports, needs_bench, run_blocks
from helpers.plan_server import PlanServer

RUN_HERE = [page for page in PAGES if blocks(page) and not needs_bench(page)]
"""The others use focusctx-bench and are run by its tests."""

START = [{"role": "user", "content": "Find out why the build fails."}]


class Agent:
    """Plays the reader's own agent: a model that calls one tool at every step, and the tool."""

    def __init__(self) -> None:
        self.steps = 0
        self.sent: list[Any] = []

    def call(self, messages: list[Any]) -> dict[str, Any]:
        self.sent = messages
        self.steps += 1
        return step(self.steps)[0]

    def run_tools(self, reply: dict[str, Any]) -> list[Any]:
        return [step(self.steps, f"file_{self.steps}.py has {self.steps} lines. " * 20)[1]]


@pytest.fixture(autouse=True)
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder of the reader's own."""
    monkeypatch.chdir(tmp_path)


def test_the_readme(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent()
    history = START + [message for number in range(1, 41) for message in step(number, f"line {number} " * 100)]
    with PlanServer() as server:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}/v1")
        names = run_blocks(ROOT / "README.md", messages=history, full_history=history, agent=agent)
    assert names["result"].compressed
    assert agent.sent == names["result"].messages
    assert "s_1" in capsys.readouterr().out
    assert len(json.dumps(list(names["messages"]))) < len(json.dumps(history)) / 2
    assert names["session"].recall("s_7")[0].messages == tuple(step(7, "line 7 " * 100))
    names["session"].close()


def test_the_tutorial(capsys: pytest.CaptureFixture[str]) -> None:
    """The page promises an overflow, a failure, a success, and an event that kept the ticket and cut the reports."""
    names = run_blocks(ROOT / "docs" / "tutorial.md")
    said = capsys.readouterr().out
    ends = ("tokens do not fit into 8,000", "Error: wrong ticket or approval code.", "Shift closed.")
    assert all(line.endswith(end) for line, end in zip(said.splitlines(), ends, strict=False)), said
    whole, sent = names["session"].size
    assert sent < whole / 2
    assert "7Q-19-XK" in json.dumps(list(names["result"].messages))
    assert names["step"].messages[1]["content"] == names["read_report"](3)


def test_the_page_about_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent()
    names = run_blocks(ROOT / "docs" / "sessions.md", call_model=agent.call, run_tools=agent.run_tools)
    assert any(event.happened for event in names["session"].events), "the page's session compresses"
    assert "compressed" in capsys.readouterr().out


def test_the_page_about_baselines() -> None:
    sent: list[Any] = []
    messages = [message for number in range(1, 31) for message in step(number, "words " * 50)]
    run_blocks(ROOT / "docs" / "baselines.md", messages=messages, send=sent.extend)
    assert len(sent) == len(messages)
    assert sent != messages


@pytest.mark.parametrize(
    "page",
    [page for page in RUN_HERE if page.name not in ("README.md", "baselines.md", "sessions.md", "tutorial.md")],
    ids=lambda page: page.stem,
)
def test_any_other_page(page: Path) -> None:
    run_blocks(page)


@pytest.mark.parametrize("page", FRAMEWORK_PAGES, ids=lambda page: page.stem)
def test_a_page_about_a_framework(page: Path) -> None:
    """Compile the code; `tests/integrations` runs it against the framework itself."""
    for block in blocks(page):
        compile(block.tree(), str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        assert block.not_run is None
    if blocks(page):
        tests = (ROOT / "tests" / "integrations" / f"test_{page.stem.replace('-', '_')}.py").read_text(encoding="utf-8")
        assert "(Conformance)" in tests or "run_page(" in tests, f"no test runs the code on {page.name}"


@pytest.mark.parametrize("page", [*PAGES, *FRAMEWORK_PAGES], ids=lambda page: page.stem)
def test_names_that_a_page_imports_exist(page: Path) -> None:
    for block in blocks(page):
        for module, name in imports(block, "focusctx"):
            assert defines(module, name), f"{page.name} imports {name} from {module}"


def defines(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name)
    except focusctx.MissingExtraError:  # without the framework, read what the file would define
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        nodes = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
        return name in {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}


DOTTED = re.compile(r"\bfocusctx(?:\.[a-zA-Z]\w*)+(?=[`(\s])")
CLASS = re.compile(r"`([A-Z][a-z]+[A-Za-z]*)((?:\.\w+)*)(?:\([^`]*\))?`")
NOT_OURS = {"True", "False", "None", "Origin", "ClearToolUsesEdit"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_in_the_text_of_a_page_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for dotted in DOTTED.findall(text):
        if dotted == "focusctx.toml" or ".would_" in dotted:  # a file, metrics
            continue
        assert resolves(dotted), f"{page.name} mentions {dotted}"
    imported = {name for block in blocks(page) for _, name in imports(block, "focusctx")}
    for name, attributes in CLASS.findall(text):
        if name not in NOT_OURS | imported:
            home = focusctx.drafts if name in focusctx.drafts.__all__ else focusctx
            assert resolves(f"{home.__name__}.{name}{attributes}"), f"{page.name} mentions {name}{attributes}"


def resolves(dotted: str) -> bool:
    """True if the name leads from a module to something in it."""
    found: Any = focusctx
    for place, part in enumerate(dotted.split(".")[1:], 2):
        if not hasattr(found, part):
            name = ".".join(dotted.split(".")[:place])
            if importlib.util.find_spec(name) is None:
                return False
            importlib.import_module(name)
        found = getattr(found, part)
    return True


def test_a_class_that_users_meet_can_be_named() -> None:
    """Users write the classes of what public methods return in annotations and in `except`."""
    session = focusctx.Focus("offline", budget=50).session()
    view = session.view([*START, *(message for number in range(1, 9) for message in step(number, "words " * 50))])
    met = [session, view, view.conversation, session.savings, session.events[0], session.recall("s_1")[0]]
    named = {getattr(focusctx, name) for name in focusctx.__all__ if name != "__version__"}
    assert [type(thing).__name__ for thing in met if type(thing) not in named] == []
