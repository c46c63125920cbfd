"""Certificates that nobody has signed, for servers on this machine."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


def certificate_for(name: str, folder: Path) -> tuple[Path, ssl.SSLContext]:
    """One for `IP:127.0.0.1` or `DNS:provider.test`, and what a server needs to show it."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on PATH")
    shown, key = folder / "certificate.pem", folder / "key.pem"
    made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    names = ["-subj", f"/CN={name.partition(':')[2]}", "-addext", f"subjectAltName={name}"]
    where = ["-keyout", str(key), "-out", str(shown)]
    subprocess.run(["openssl", "req", *made, *names, *where], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(shown, key)
    return shown, context
