"""A real nginx on a loopback port: the provider, or the balancer in front of it."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.stored import free_port

_PATH = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"
_CONFIG = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  log_format seen '$request|$http_authorization|$status';
  access_log {folder}/access.log seen;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    {locations}
  }}
}}
"""


class Nginx:
    """A running nginx."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._log = folder / "access.log"

    def seen(self) -> list[list[str]]:
        """Read its access log: request line, Authorization and status of each request."""
        return [line.split("|") for line in self._log.read_text().splitlines()]


@contextmanager
def nginx(folder: Path, locations: str) -> Iterator[Nginx]:
    """Run nginx with these `location` blocks; skip the test where nginx is not installed."""
    binary = shutil.which("nginx", path=_PATH)
    if binary is None:
        pytest.skip("nginx is not installed (scripts/nginx installs it)")
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(_CONFIG.format(folder=folder, port=port, locations=locations))
    process = subprocess.Popen([binary, "-p", folder, "-c", config], stderr=subprocess.DEVNULL)
    try:
        _wait_until_it_listens(process, port, folder / "error.log")
        yield Nginx(f"http://127.0.0.1:{port}", folder)
    finally:
        process.terminate()
        process.wait()


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, f"nginx did not start: {log.read_text() if log.exists() else ''}"
            time.sleep(0.01)
        else:
            return
    raise TimeoutError("nginx does not listen")
