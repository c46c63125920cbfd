"""Pack published `.tiktoken` files into the form the package carries.

    python scripts/vocabulary.py FILE.tiktoken [FILE.tiktoken ...]

A file is known by the SHA-256 of its bytes, whatever it is called, so a wrong or damaged one is never packed.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zlib
from pathlib import Path

from focusctx import vocabulary


def main(paths: list[Path], folder: Path) -> None:
    if not paths:
        raise SystemExit(__doc__)
    for path in paths:
        name, packed = pack(path)
        target = folder / f"{name}.ranks"
        target.write_bytes(packed)
        print(f"{target.name}: {len(packed):,} bytes from {path.stat().st_size:,}")


def pack(path: Path) -> tuple[str, bytes]:
    """The vocabulary's name and its packed form."""
    published = path.read_bytes()
    name = recognise(path, published)
    tokens = read(published)
    lengths = bytes(len(token) for token in tokens)
    packed = zlib.compress(len(tokens).to_bytes(4, "big") + lengths + b"".join(tokens), level=9)
    if list(vocabulary.unpack(packed)) != tokens:
        raise SystemExit(f"{path}: packing lost something")
    return name, packed


def recognise(path: Path, published: bytes) -> str:
    found = hashlib.sha256(published).hexdigest()
    for name, expected in vocabulary.SHA256.items():
        if found == expected:
            return name
    raise SystemExit(f"{path}: SHA-256 {found} is that of no known vocabulary ({', '.join(vocabulary.SHA256)})")


def read(published: bytes) -> list[bytes]:
    """The tokens in rank order; each line is a token in base64 and its rank."""
    lines = [line.split() for line in published.splitlines()]
    if [int(rank) for _, rank in lines] != list(range(len(lines))):
        raise SystemExit("the ranks are not 0, 1, 2, …: this form cannot hold them")
    return [base64.b64decode(token) for token, _ in lines]


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]], Path(vocabulary.__file__).parent)
