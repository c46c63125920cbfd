"""The map of the code, enforced: imports, public names, what an import costs, what the two wheels hold."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import focusctx

ROOT = Path(focusctx.__file__).parent
PROJECT = Path(__file__).parents[1]

LAYERS = [
    {
        *("types", "errors", "config", "theory", "prices", "tokens", "vocabulary", "runtime"),
        *("plugins", "once", "checks", "egress"),
    },
    {"wire", "invariants", "drafts", "explain", "serialise"},
    {"pipeline"},
    {"compressor"},
    {"session"},
    {"proxy", "integrations", "baselines", "jobs"},
    {"replay"},
    {"cli", "__main__"},
]
"""Lowest first. A part may import from its own layer and from those below. Methods that only lead the way up
(`Result.explain`, `Focus.session`) import when they are called. Names for type checkers only are not imported."""
LEADING_UP = {("types", "explain"), ("types", "serialise"), ("compressor", "session")}

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
    """Return the top-level parts of focusctx that a file imports at any place where a program comes by."""
    package = list(path.relative_to(ROOT.parent).with_suffix("").parts)[:-1]
    found = set()
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    checks = [node for node in nodes if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for_checkers = {inner for check in checks for part in check.body for inner in ast.walk(part)}
    for node in nodes:
        if node in for_checkers:
            continue
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
        lazily = (part, other) in LEADING_UP
        assert lazily or layer_of(other) <= layer_of(part), f"{part} imports {other}, which stands above it"


def test_the_public_names() -> None:
    assert sorted(focusctx.__all__) == sorted(
        [
            "Focus", "FocusConfig", "Session", "Conversation", "View", "SessionEvent", "Archived", "Totals",
            "Store", "StoredEvent", "DraftModel", "Result", "Decision", "Certificate", "History", "Span", "UserTurn",
            "Message", "Prompt", "Reply", "Sketch", "Usage", "FocusError", "MessageError", "ConfigError",
            "MissingExtraError", "DraftError", "StoreError", "read_only_tools", "__version__",
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


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_the_product_never_imports_the_bench(folder: str) -> None:
    found = [path for path in (PROJECT / folder).rglob("*.py") if "focusctx_bench" in modules_imported(path)]
    assert not found


def modules_imported(path: Path) -> set[str]:
    """Return the top-level names of everything that a file imports."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {
        node.module.split(".")[0]
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
    }


@pytest.mark.parametrize(
    ("folder", "package", "needed", "foreign"),
    [
        (".", "focusctx", {"py.typed", "look.css", "prices.toml", "cli/demo_trace.json"}, "focusctx_bench"),
        ("bench", "focusctx_bench", {"py.typed", "report/templates/report.html.j2", "results/paper.toml"}, "focusctx"),
    ],
)
def test_a_wheel_holds_its_package_and_no_other(
    tmp_path: Path, folder: str, package: str, needed: set[str], foreign: str
) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=PROJECT / folder, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = PROJECT / folder / "src" / package
    files = {path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {f"{package}/{path.relative_to(source).as_posix()}" for path in files} <= names
    assert {f"{package}/{name}" for name in needed} <= names
    assert not any(name.startswith((f"{foreign}/", "tests/")) for name in names)
