"""The map of the code, enforced: which part may import which, what is public, what an import costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import focusctx

ROOT = Path(focusctx.__file__).parent

LAYERS = [
    {"types", "errors", "config", "theory", "prices", "tokens", "vocabulary", "breaker", "blocking"},
    {"wire", "invariants", "drafts", "explain", "serialise"},
    {"pipeline"},
    {"compressor"},
    {"session"},
    {"proxy", "integrations", "baselines"},
    {"bench"},
    {"cli", "__main__"},
]
"""Lowest first. A part may import from its own layer and from those below. Methods that only lead the way up
(`Result.explain`, `Focus.session`) import when they are called."""

HEAVY = {
    "aiohttp",
    "tiktoken",
    "rich",
    "torch",
    "transformers",
    "openai",
    "anthropic",
    "xllamacpp",
    "numpy",
    "redis",
    "msgspec",
    "prometheus_client",
}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def layer_of(part: str) -> int:
    return next(number for number, parts in enumerate(LAYERS) if part in parts)


def imported_parts(path: Path) -> set[str]:
    """The top-level parts of focusctx that a file imports at any place."""
    package = list(path.relative_to(ROOT.parent).with_suffix("").parts)[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            names = [*base, *(node.module or "").split(".")] if node.module else base
            targets = [[*names, alias.name] for alias in node.names]
            found |= {target[1] for target in targets if target[0] == "focusctx" and len(target) > 1}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("focusctx.")}
    return {name for name in found if (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    part = part_of(path)
    if part == "__init__":
        return
    for other in imported_parts(path) - {part}:
        lazily = (part, other) in {("types", "explain"), ("types", "serialise"), ("compressor", "session")}
        assert lazily or layer_of(other) <= layer_of(part), f"{part} imports {other}, which stands above it"


def test_the_public_names() -> None:
    assert sorted(focusctx.__all__) == sorted(
        [
            "Focus", "FocusConfig", "FocusError", "MessageError", "ConfigError", "MissingExtraError", "DraftError",
            "Certificate", "Conversation", "Decision", "DraftModel", "History", "Message", "Prompt", "Reply", "Result",
            "Sketch", "Span", "Usage", "__version__",
        ]
    )  # fmt: skip
    for name in focusctx.__all__:
        assert getattr(focusctx, name) is not None
    with pytest.raises(AttributeError):
        _ = focusctx.nonsense


@pytest.mark.parametrize("statement", ["import focusctx", "from focusctx import Focus; Focus('offline')"])
def test_importing_brings_in_nothing_heavy(statement: str) -> None:
    code = f"import sys; {statement}; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & {module.split(".")[0] for module in modules}
