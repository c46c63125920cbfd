"""Reads the Python blocks of README and docs, and runs them as a reader would: page by page, from top to bottom.

A block that cannot run in a test has a comment in the line above it, `<!-- not run: why -->`. It must still compile,
and its imports are executed.
"""

import ast
import asyncio
import doctest
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
"""Pages about focusctx and focusctx-bench; those about frameworks are in `docs/integrations`."""
FRAMEWORK_PAGES = sorted((ROOT / "docs" / "integrations").glob("*.md"))

_BLOCK = re.compile(r"^(?:<!-- not run: (?P<why>.+?) -->\n)?^```python\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of Python and its place."""

    page: Path
    line: int
    """Number of its first line of code, counted from 0."""
    code: str
    not_run: str | None
    """Why it cannot run in a test, or None."""

    def tree(self) -> ast.Module:
        return ast.parse(_examples(self.code) if self.code.startswith(">>>") else self.code)

    def run(self, names: dict[str, Any]) -> None:
        """Execute the block in a namespace, which it may extend. Errors point to the line on the page."""
        if self.code.startswith(">>>"):
            self._run_examples(names)
            return
        tree = self.tree()
        if self.not_run:
            tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        ast.increment_lineno(tree, self.line)
        waits = eval(compile(tree, str(self.page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), names)
        if inspect.iscoroutine(waits):
            asyncio.run(waits)

    def _run_examples(self, names: dict[str, Any]) -> None:
        test = doctest.DocTestParser().get_doctest(self.code, names, self.page.name, str(self.page), self.line)
        said: list[str] = []
        failed, attempted = doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
        assert attempted
        assert not failed, "".join(said)
        names.update(test.globs)


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start("code")), found["code"], found["why"])
        for found in _BLOCK.finditer(text)
    ]


def run_blocks(page: Path, **names: Any) -> dict[str, Any]:
    """Run all blocks of a page in one namespace, which begins with the names the reader is expected to have."""
    names["__name__"] = "__page__"
    for block in blocks(page):
        block.run(names)
    return names


def imports(block: Block, package: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a block imports from a package, each with its module."""
    for node in ast.walk(block.tree()):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package:
            yield from ((node.module, alias.name) for alias in node.names)


def needs_bench(page: Path) -> bool:
    return any(list(imports(block, "focusctx_bench")) for block in blocks(page))


def _examples(code: str) -> str:
    return "".join(example.source for example in doctest.DocTestParser().get_examples(code))
