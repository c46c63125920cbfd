"""What recorded files have in common: they may be packed, and they name a local model without its folder."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

PACKED = ".gz"


def read_text(path: Path) -> str:
    """The text of a file; of one that is packed (`.gz`), what is in it."""
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == PACKED else path.read_text(encoding="utf-8")


def short_name(draft: str) -> str:
    """The draft's name; that of a model on this machine without the folder it lies in."""
    return re.sub(r"(^|:)(transformers|llama-cpp):[^?]*[/\\]", r"\1\2:", draft)
