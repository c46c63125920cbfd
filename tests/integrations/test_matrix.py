"""The tables of integrations in the README and the docs say what was tested."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_are_current() -> None:
    command = [sys.executable, ROOT / "scripts" / "integration-matrix", "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
