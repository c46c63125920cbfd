"""Write files whole or not at all, as text that any terminal accepts."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .problem import Problem


def names_file(target: str | None) -> bool:
    """True if --out names a file; no --out, or `-`, means standard output."""
    return target not in (None, "-")


@contextmanager
def writing(target: str | None) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces the target on success, or standard output.

    It is opened before the work begins, so that an unwritable path is found before the draft is paid for.
    """
    if target is None or target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(target).resolve()  # resolve a link, so that the link itself stays
    if path.is_dir():
        raise Problem(f"{target} is a folder; give --out the name of a file")
    if path.exists() and not path.is_file():  # /dev/null, a pipe: nothing to replace
        with _opened(path, "wb", target) as file:
            yield file
        return
    with _replacing(path, target) as file:
        yield file


def write_line(file: IO[bytes], text: str) -> None:
    """Write the text and a line end. A lone surrogate, legal in JSON, becomes the escape it was written as."""
    file.write(text.encode("utf-8", "backslashreplace") + b"\n")


@contextmanager
def _replacing(path: Path, target: str) -> Iterator[IO[bytes]]:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    file = _opened(beside, "xb", target)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            beside.chmod(path.stat().st_mode)
        beside.replace(path)
    except BaseException:  # also on Ctrl-C: leave no partial file behind
        beside.unlink(missing_ok=True)
        raise


def _opened(path: Path, mode: str, target: str) -> IO[bytes]:
    try:
        file: IO[bytes] = path.open(mode)
    except OSError as error:
        raise Problem(f"{target} cannot be written: {error.strerror}") from error
    return file
