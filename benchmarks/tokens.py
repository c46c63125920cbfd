"""How fast tokens are counted, on the source of Python's own library: `python benchmarks/tokens.py`.

All figures are from one run, best of three: compare the ratios, the speeds are this machine's.
"""

from __future__ import annotations

import sysconfig
import time
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import tiktoken

from focusctx.tokens import PATTERNS, Counter, TokenCounter, counter
from focusctx.vocabulary import ranks


def main() -> None:
    texts = [path.read_text("utf-8") for path in Path(sysconfig.get_path("stdlib")).glob("*.py")]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    print(f"{len(texts)} texts, {megabytes:.1f} MB")
    for name in PATTERNS:
        compare(name, texts, megabytes)


def compare(name: str, texts: list[str], megabytes: float) -> None:
    encode = published(name).encode_ordinary
    seconds = {
        "tiktoken alone": best(lambda text: len(encode(text)), texts),
        "counter": best(counter(name), texts),
        "Counter, known texts": best(Counter(name).count, texts),  # the first pass fills it
    }
    for label, taken in seconds.items():
        ratio = seconds["tiktoken alone"] / taken
        print(f"{name:12} {label:22} {megabytes / taken:12,.1f} MB/s  ×{ratio:,.2f}")


def published(name: str) -> tiktoken.Encoding:
    """The encoding as tiktoken itself defines it, over the vocabulary that focusctx carries: no download."""
    definitions = import_module("tiktoken_ext.openai_public")
    with patch.object(definitions, "load_tiktoken_bpe", lambda *_args, **_options: ranks(name)):
        return tiktoken.Encoding(**definitions.ENCODING_CONSTRUCTORS[name]())


def best(count: TokenCounter, texts: list[str]) -> float:
    """Seconds for all texts, the best of three passes."""
    passes = []
    for _ in range(3):
        start = time.perf_counter()
        for text in texts:
            count(text)
        passes.append(time.perf_counter() - start)
    return min(passes)


if __name__ == "__main__":
    main()
