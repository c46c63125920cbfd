"""Makes an interpreter resemble one on Windows: put this folder on PYTHONPATH.

Modules and signals that Windows lacks are hidden from focusctx (the standard library and other packages keep them,
since their Linux versions need them), and event loops cannot handle signals.
"""

import asyncio
import builtins
import signal
import sys
from typing import Any

HIDDEN = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
UNKNOWN = ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGQUIT", "SIGPIPE")

_import = builtins.__import__


class _Signals:
    """The module `signal` as focusctx sees it."""

    def __getattr__(self, name: str) -> Any:
        if name in UNKNOWN:
            raise AttributeError(f"module 'signal' has no attribute {name!r}")
        return getattr(signal, name)


def _import_as_on_windows(name: str, globals: Any = None, *more: Any, **named: Any) -> Any:
    if str((globals or {}).get("__name__")).startswith("focusctx"):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name == "signal":
            return _Signals()
    return _import(name, globals, *more, **named)


def _cannot(*_: Any) -> Any:
    raise NotImplementedError


builtins.__import__ = _import_as_on_windows
if sys.platform != "win32":
    asyncio.SelectorEventLoop.add_signal_handler = _cannot  # type: ignore[method-assign]
    asyncio.SelectorEventLoop.remove_signal_handler = _cannot  # type: ignore[method-assign]
