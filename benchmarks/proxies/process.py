"""A server in a process of its own: started, waited for, its CPU time and memory read, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

PATIENCE = 180.0
"""Seconds to wait for a server: some need most of a minute on a busy machine."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """`with Server(...)` ends the process and its children, whatever happens."""

    def __init__(self, command: Sequence[str], port: int, log: Path, environment: Mapping[str, str]) -> None:
        self.port = port
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
                cwd=log.parent,
                start_new_session=True,
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(10)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue

    def wait_until_it_listens(self) -> None:
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{self.process.args!r} does not listen:\n{self.said()}")

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    def cpu(self) -> float:
        """Seconds of CPU time so far, children included: those that run and those that ended."""
        total = 0.0
        for process in self._tree():
            try:
                # the clock of another process (clock_getcpuclockid): nanoseconds, where /proc has hundredths
                total += time.clock_gettime((~process << 3) | 2)
                ended = _stat(process)[13:15]
            except OSError:
                continue
            total += sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")
        return total

    def memory(self) -> float:
        """MiB resident, children included."""
        total = 0
        for process in self._tree():
            status = Path(f"/proc/{process}/status").read_text()
            total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)
        return total / 1024

    def _tree(self) -> list[int]:
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parents[int(entry.name)] = int(_stat(int(entry.name))[1])
                except OSError:
                    continue
        tree = [self.process.pid]
        for process in tree:
            tree += [child for child, parent in parents.items() if parent == process]
        return tree


def _stat(process: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: the name before it may hold anything."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
