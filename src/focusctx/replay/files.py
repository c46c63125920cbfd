"""Helpers for recorded files: they may be packed, and they name a local model without its folder."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

PACKED = ".gz"


def read_text(path: Path) -> str:
    """Return the text of a file, unpacked if it is a `.gz`."""
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == PACKED else path.read_text(encoding="utf-8")


def short_name(draft: str) -> str:
    """Return the draft's name, without the folder of a model on this machine."""
    return re.sub(r"(^|:)(transformers|llama-cpp):[^?]*[/\\]", r"\1\2:", draft)
