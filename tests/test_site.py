"""The site and the index page: every page is listed, links lead somewhere, commands are ones that the program has."""

import importlib.util
import re
import shlex
import struct
import tomllib
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from focusctx.cli.command import Problem
from focusctx.cli.main import _parser
from helpers.pages import FRAMEWORK_PAGES, PAGES, ROOT

REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
RAW = REPOSITORY.replace("github.com", "raw.githubusercontent.com")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.png"))


@pytest.fixture
def checker() -> ModuleType:
    """Return scripts/check-site as a module."""
    loader = SourceFileLoader("check_site", str(ROOT / "scripts" / "check-site"))
    spec = importlib.util.spec_from_loader("check_site", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation(checker: ModuleType) -> None:
    assert list(checker.unlisted()) == []


def test_a_page_that_is_not_listed_is_reported(
    checker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new.md").write_text("# New")
    monkeypatch.setattr(checker, "DOCS", tmp_path)
    assert "docs/new.md: not in `nav` of zensical.toml" in list(checker.unlisted())


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="missing/">', "index.html: missing/ does not exist"),
        ('<a href="#nowhere">', "index.html: #nowhere has no such anchor"),
        ('<img src="missing.png">', "index.html: missing.png does not exist"),
        (
            '<script src="https://cdn.example/x.js"></script>',
            "index.html: loads https://cdn.example/x.js from another host",
        ),
        (
            f'<a href="{REPOSITORY}/blob/main/no/file">',
            f"index.html: {REPOSITORY}/blob/main/no/file is not in the repository",
        ),
        (f'<a href="{REPOSITORY}/blob/main/README.md"><a id="here" href="#here">', None),
    ],
)
def test_a_link_that_leads_nowhere_is_reported(
    checker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, html: str, problem: str | None
) -> None:
    file = tmp_path / "index.html"
    file.write_text(html)
    monkeypatch.setattr(checker, "SITE", tmp_path)
    assert list(checker.broken({file: checker.Page(file)})) == ([problem] if problem else [])


@pytest.mark.parametrize("page", ["README.md", "bench/README.md"])
def test_links_of_an_index_page_are_absolute_and_lead_to_files(page: str) -> None:
    links = LINK.findall((ROOT / page).read_text(encoding="utf-8").replace("\n", " "))
    assert links
    for link in links:
        assert link.startswith((f"{REPOSITORY}/blob/main/", f"{RAW}/main/")), f"{link} leads nowhere from the index"
        path, _, anchor = link.partition("/main/")[2].partition("#")
        target = ROOT / path
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_pictures_are_small_and_there_in_light_and_dark() -> None:
    assert {picture.stem for picture in PICTURES} >= {
        "report-light",
        "report-dark",
        "dashboard-light",
        "dashboard-dark",
    }
    for picture in PICTURES:
        width, _ = struct.unpack(">II", picture.read_bytes()[16:24])
        assert width >= 800
        assert picture.stat().st_size < 150_000


def commands(page: Path) -> list[str]:
    """Return the commands in indented blocks, and those with options in `code`, unless they are shown only in part."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = text.replace("\\\n", " ")
    found = re.findall(r"^    (?:\.venv/bin/)?(focusctx .*)$", text, re.MULTILINE)
    found += re.findall(r"`(?:\.venv/bin/)?(focusctx [^`]+ --[^`]+)`", text)
    return [one for one in found if not re.search(r"…|\||[A-Z]{3,}", one.split("#")[0])]


def refusal(command: str) -> str | None:
    """Return why the program does not know a command, or None."""
    words = shlex.split(command, comments=True)[1:]
    if words[0] in ("bench", "replay") and words[1:2] != ["run"]:
        return None  # focusctx-bench's
    try:
        _parser().parse_args(words)
    except Problem as problem:
        return str(problem)
    except SystemExit as done:  # --help and --version
        return None if not done.code else str(done)
    return None


@pytest.mark.parametrize(
    "page", [page for page in [*PAGES, *FRAMEWORK_PAGES] if commands(page)], ids=lambda page: page.stem
)
def test_commands_on_a_page_are_ones_that_the_program_has(page: Path) -> None:
    assert [(command, why) for command in commands(page) if (why := refusal(command))] == []


def test_commands_are_found_and_wrong_ones_refused() -> None:
    serve = "focusctx serve --upstream openai --upstream anthropic --draft openai:gpt-5-mini --budget 20000"
    assert serve in commands(ROOT / "README.md")
    assert refusal(f"{serve} --no-such-option")
    assert refusal("focusctx replay run logs.jsonl --no-such-option")
