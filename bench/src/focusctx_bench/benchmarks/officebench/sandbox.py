"""Sandboxes: a program sees /testbed and /apps though they lie elsewhere, through one of two other programs.

Both give it a root of its own, with the system's programs and the task's folder, without the user's home. Bubblewrap
lets it write nothing but the task's folder, and gives it no network. PRoot only changes paths: nothing is shut in.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from focusctx.errors import BenchError, ConfigError

from ...protocols import Options
from .checkout import Checkout

PYTHON = "FOCUSCTX_OFFICEBENCH_PYTHON"

_SYSTEM = ("/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/var/lib/libreoffice")
_WHERE = "import json, sys; print(json.dumps([sys.executable, sys.prefix, sys.base_prefix]))"
_INSTALL = {
    "bwrap": "install bubblewrap (Debian: apt-get install bubblewrap), or choose --set sandbox=proot",
    "proot": "install proot (Debian: apt-get install proot), or choose --set sandbox=bwrap",
}
_REFUSED = (
    "does not work on this machine; in a container that forbids it, --set sandbox=proot maps the paths too, but shuts "
    "nothing in: the agent's shell then works on the container itself"
)


@dataclass(frozen=True)
class Sandbox:
    kind: str
    python: str
    """The interpreter inside …"""
    roots: tuple[Path, ...]
    """… and the folders it consists of."""

    @classmethod
    def of(cls, options: Options, checkout: Checkout) -> Sandbox:
        kind = options.more.get("sandbox", "bwrap")
        if kind not in _INSTALL:
            raise ConfigError(f"no sandbox {kind!r} for OfficeBench: bwrap or proot")
        if shutil.which(kind) is None:
            raise BenchError(f"OfficeBench runs its tasks in a sandbox: {_INSTALL[kind]}")
        default = checkout.root / ".venv" / "bin" / "python"
        told = options.more.get("python") or os.environ.get(PYTHON) or str(default)
        try:
            found = subprocess.run([told, "-c", _WHERE], capture_output=True, text=True, check=True, timeout=60)
            executable, *prefixes = json.loads(found.stdout)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise BenchError(
                f"OfficeBench has no interpreter at {told}: make one that has what its apps need (docs/bench.md lists "
                f"it) at {default}, or name one (--set python=PATH or {PYTHON})"
            ) from error
        return cls(kind, executable, tuple({Path(prefix): None for prefix in prefixes}))

    @property
    def environment(self) -> dict[str, str]:
        """All that a program inside is told; keys and tokens of the user's are not among it."""
        path = f"{Path(self.python).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        return {"PATH": path, "HOME": "/tmp", "LANG": "C.UTF-8"}

    def command(
        self, program: Sequence[str], root: Path, shown: Mapping[str, Path], changing: Mapping[str, Path]
    ) -> list[str]:
        """`program`, to which folders of ours appear at other paths: some to read, some to change.

        `root` is an empty folder, for this program alone.
        """
        if self.kind == "proot":
            return [*self._proot(root), *_pairs({**changing, **shown}), *program]
        self._check()
        return [*self._bwrap(), *_bound("--bind", changing), *_bound("--ro-bind", shown), *program]

    def _proot(self, root: Path) -> list[str]:
        (root / "tmp").mkdir(exist_ok=True)
        there = {name: Path(name) for name in (*_SYSTEM, "/proc", "/dev") if Path(name).exists()}
        return ["proot", "-r", str(root), *_pairs({**there, **self._interpreter}), "-w", "/"]

    def _bwrap(self) -> list[str]:
        system = [part for name in _SYSTEM for part in _shown(Path(name))]
        shut_in = ["--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--cap-drop", "ALL"]
        fresh = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/"]
        return ["bwrap", *shut_in, *system, *fresh, *_bound("--ro-bind", self._interpreter)]

    @property
    def _interpreter(self) -> dict[str, Path]:
        return {str(root): root for root in self.roots if not root.is_relative_to("/usr")}

    def _check(self) -> None:
        if self._trouble:
            raise BenchError(f"bubblewrap {_REFUSED} ({self._trouble})")

    @cached_property
    def _trouble(self) -> str:
        tried = subprocess.run([*self._bwrap(), "true"], capture_output=True, text=True, check=False, timeout=60)
        return tried.stderr.strip() or f"exit status {tried.returncode}" if tried.returncode else ""


def _bound(how: str, places: Mapping[str, Path]) -> list[str]:
    return [part for target, source in places.items() for part in (how, str(source), target)]


def _pairs(places: Mapping[str, Path]) -> list[str]:
    return [part for target, source in places.items() for part in ("-b", f"{source}:{target}")]


def _shown(path: Path) -> list[str]:
    """A part of the system, to read; where it is a link it stays one."""
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.exists() else []
