"""The walk of a proxy request, as CONTRIBUTING describes it, is the one that a request takes."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_files_of_the_proxy_that_a_request_passes_are_those_in_contributing() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "walk-proxy")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    passed = set(re.findall(r"^proxy/(\w+\.py)", printed, re.MULTILINE))
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("## The walk of a proxy request")[2].partition("\n## ")[0]
    assert passed == set(re.findall(r"`proxy/(\w+\.py)`", section))
    assert f"{len(passed)} of them belong to the proxy" in section
    assert f"passes {len(printed.splitlines()) - 1} files" in section
