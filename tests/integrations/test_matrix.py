"""The table of integrations in the docs says what was tested, and the pages what to install."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "integrations"
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
NOT_ON_A_PAGE = {"langchain-anthropic", "llama-index-llms-openai-like"}
"""Packages that only other tests of the integration need."""


def test_the_tables_are_current() -> None:
    command = [sys.executable, ROOT / "scripts" / "integration-matrix", "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def with_extras(requirement: str) -> tuple[str, set[str]]:
    """A requirement's name and its extras."""
    found = re.match(r"([\w.-]+)(?:\[(.*?)\])?", requirement)
    assert found
    return found[1], set(filter(None, (found[2] or "").split(",")))


@pytest.mark.parametrize("group", [name for name in GROUPS if name.startswith("integration-")])
def test_a_page_says_to_install_what_its_code_is_run_with(group: str) -> None:
    """A page is run in an environment with the extra and this group (scripts/test-integrations)."""
    page = (PAGES / f"{group.removeprefix('integration-')}.md").read_text(encoding="utf-8")
    told = [with_extras(one) for line in re.findall(r"`pip install ([^`]+)`", page) for one in shlex.split(line)]
    assert ("focusctx", {group.removeprefix("integration-")}) in told
    for name, extras in (with_extras(one) for one in GROUPS[group] if isinstance(one, str)):
        if name not in NOT_ON_A_PAGE:
            assert any(name == other and (not extras or extras & theirs) for other, theirs in told), name
