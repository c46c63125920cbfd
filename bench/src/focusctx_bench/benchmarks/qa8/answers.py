"""The final answer: how it is read, and how it is scored (exact match and F1, as usual for Natural Questions)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_NUMBERED = re.compile(r"^[\s>#*_-]*(?:answer\s*|question\s*|q)?(\d{1,2})\s*[.:)\]]+[\s*_]*(.*)$", re.IGNORECASE)
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def read_answers(text: str, count: int) -> list[str] | None:
    """One answer per question, "" for those left out; None when the text is no final answer.

    Lines `1: answer`, with whatever marks models put around numbers; or as many parts as questions between
    `<answer>` tags, parted by semicolons. Of a number that comes twice the last counts.
    """
    tagged = _TAGGED.findall(text)
    if tagged:
        parts = [part.strip() for part in tagged[-1].split(";")]
        if len(parts) == count:
            return parts
        text = tagged[-1]
    found = {}
    for line in text.splitlines():
        match = _NUMBERED.match(line)
        if match and 1 <= int(match[1]) <= count:
            found[int(match[1])] = match[2].strip().strip("*_` ")
    return [found.get(number, "") for number in range(1, count + 1)] if found else None


def normalise(text: str) -> str:
    """Lower case, no punctuation, no articles, single blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, right: Sequence[str]) -> float:
    return float(any(normalise(answer) == normalise(one) for one in right))


def f1(answer: str, right: Sequence[str]) -> float:
    """The best overlap in words with any right answer."""
    return max((_overlap(normalise(answer).split(), normalise(one).split()) for one in right), default=0.0)


def _overlap(answer: list[str], right: list[str]) -> float:
    if not answer or not right:
        return float(answer == right)
    common = (Counter(answer) & Counter(right)).total()
    return 2 * common / (len(answer) + len(right))
