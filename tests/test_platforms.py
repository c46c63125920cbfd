"""Windows and macOS: modules and signals that a platform lacks are never needed."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from helpers.served import serve

LIKE_WINDOWS = Path(__file__).parent / "helpers" / "like_windows"
IMPORT_ALL = """
import importlib, pkgutil, sitecustomize, focusctx
found = 0
for module in pkgutil.walk_packages(focusctx.__path__, "focusctx."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:  # a framework may be missing, a module of the standard library may not
            if error.name in sitecustomize.HIDDEN:
                raise
        found += 1
print(found)
"""


@pytest.fixture
def path() -> str:
    """Return a PYTHONPATH under which an interpreter resembles one on Windows."""
    return os.pathsep.join(filter(None, [str(LIKE_WINDOWS), os.environ.get("PYTHONPATH", "")]))


def test_every_module_can_be_imported_on_windows(path: str) -> None:
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 150


@pytest.mark.parametrize("statement", ["import resource", "from fcntl import flock", "import signal; signal.SIGHUP"])
def test_what_windows_lacks_is_hidden(path: str, statement: str) -> None:
    """The check above would find it."""
    program = f"exec({statement!r}, {{'__name__': 'focusctx.proxy.serve'}})"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False
    )
    assert done.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_proxy_starts_and_stops_without_unix(tmp_path: Path, path: str, number: signal.Signals) -> None:
    options = ("--upstream", "local=http://127.0.0.1:9", "--draft", "offline", "--listen", "0")
    async with asyncio.timeout(30), serve(tmp_path, *options, PYTHONPATH=path) as served:
        async with aiohttp.ClientSession() as http, http.get(f"{served.url}/healthz") as answer:
            assert answer.status == 200
        assert await served.end(number) == 0, served.said
