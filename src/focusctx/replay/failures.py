"""Calls that failed and were repeated, word for word.

The pattern covers the common ways in which tools report failure. It differs from the offline draft's pattern on
purpose: a measure must not be built from what it measures.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from ..types import Span

_FAILED = re.compile(
    r"<returncode>\s*[^0\s<]"  # an exit status that is not 0
    r"|\bexit (?:code|status)\W{1,3}[1-9]"
    r"|^Traceback \(most recent call last\)"
    r"|\A\s*(?:Error|ERROR|Exception|Failed|Invalid)\b"
    r'|\A\s*\{\s*"error"\s*:\s*+(?!null|false|"")'
    r'|"(?:success|ok)"\s*:\s*false',
    re.MULTILINE,
)


def has_failed(span: Span) -> bool:
    return bool(span.action) and _FAILED.search(span.observation) is not None


def repeated_failures(spans: Sequence[Span]) -> dict[int, tuple[int, ...]]:
    """Return, for each repeated failing call, the earlier spans with the same call that failed."""
    failed: defaultdict[str, list[int]] = defaultdict(list)
    found: dict[int, tuple[int, ...]] = {}
    for span in spans:
        if has_failed(span):
            before = failed[" ".join(span.action.split())]
            if before:
                found[span.index] = tuple(before)
            before.append(span.index)
    return found
