"""docs/paper.md: everything it names exists, and everything the paper labels has a row."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
PAPER = ROOT.parent / "shared" / "paper" / "focus.tex"
NAMES = sorted(set(re.findall(r"`(focusctx(?:_bench)?(?:\.\w+)*):([\w.]+)`", TABLE)))

SECTIONS = {"sec:appendix", "sec:experiments", "sec:main_results", "theoretical_analysis"}
"""Labels of sections that state nothing of their own."""


def test_names_are_found() -> None:
    assert len(NAMES) > 60


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_what_the_table_names_exists(module: str, name: str) -> None:
    found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_everything_that_the_paper_labels_has_a_row() -> None:
    labels = set(re.findall(r"\\label\{([^}]+)\}", PAPER.read_text())) - SECTIONS
    assert {label for label in labels if f"`{label}`" not in TABLE} == set()


def test_the_table_names_no_label_that_the_paper_does_not_have() -> None:
    if not PAPER.exists():
        pytest.skip("the paper's source is not here")
    text = PAPER.read_text()
    named = set(re.findall(r"`((?:tab|fig|eq|def|prop|cor|thm|lem|rem|ass|alg|assump|assumption):[\w.-]+)`", TABLE))
    assert {label for label in named if rf"\label{{{label}}}" not in text} == set()
