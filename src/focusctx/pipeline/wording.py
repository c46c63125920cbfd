"""Words that give away what must not be forgotten: that something is shown once only, and rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ONCE = re.compile(
    r"\b(?:shown|displayed|visible|sent|given|valid|usable|available)\s+(?:only\s+)?once\b|\bonly\s+once\b"
    r"|\b(?:not|never|won't|n't)\s+(?:be\s+)?(?:shown|displayed|visible|available|repeated|able to see)\b.*\bagain\b"
    r"|\bone[- ]time\b|\b(?:save|store|copy|note)\s+(?:it|this|them|these)\s+(?:down|now|safely|somewhere|code|key)\b"
    r"|\bwrite\s+(?:it|this)\s+down\b|\bcannot be (?:retrieved|recovered|shown)\b|\bkeep (?:it|this) safe\b",
    re.IGNORECASE,
)
_RULE = re.compile(
    r"(?:^|[.!?:;]\s)\W*(?:rule\b[^:\n]*:|never\b|do not\b|don't\b|always\b|at most\b|no more than\b"
    r"|you (?:must|may not|should never|are not allowed)\b|it is forbidden\b)"
    r"|\b(?:must (?:not|never|always|first|be)|(?:is|are) (?:not allowed|forbidden)|may not be)\b",
    re.IGNORECASE | re.MULTILINE,
)
_RULE_IN_PASSING = re.compile(
    _RULE.pattern
    + r"|(?:^|[.!?:;]\s)\W*(?:under no circumstances\b|make sure\b|be sure to\b|you (?:may only|have to)\b"
    r"|only\b[^.\n]{1,40}\b(?:may|can)\b|please (?:do not|don't|never|always|only|use|leave|make sure|ensure)\b)"
    r"|\b(?:(?:is|are) (?:prohibited|not permitted|reserved for|only allowed|required to)|may only"
    r"|without (?:prior |written )?(?:approval|permission|consent))\b",
    re.IGNORECASE | re.MULTILINE,
)
_CODE = re.compile(
    r"^\s*(?:\d+[\s:|-]+)?\s*(?:#|//|\*|/\*|--|>>>|[-+]\s{2,}|(?:raise|def|class|assert|return|if)\b|\"\"\"|'''"
    r"|[\w.\[\]]+\s*[=(]|[\"'\])}])|[{};]\s*$|^\w+(?:\.\w+)+:|\w\.\w+\(|_\(|\bself\b|\berror:",
    re.IGNORECASE,
)
"""A line of a program or of an error: what it forbids concerns other programs."""
_RULE_WORDS = (
    *("never", "not", "n't", "always", "at most", "no more than", "must", "may", "forbidden", "rule", "only", "please"),
    *("sure", "have to", "circumstances", "prohibited", "reserved", "required", "approval", "permission", "consent"),
)
"""Words one of which is in every rule: plain words are much faster to look for."""
_JSON_VALUE = re.compile(r'"\w+"\s*:\s*"((?:[^"\\]|\\.)+)"')


def is_shown_once(text: str) -> bool:
    """True if a text says that it, or a part of it, will not be shown again."""
    return _ONCE.search(text) is not None


def states_rule(text: str) -> bool:
    """True if a text that is known to hold rules states one."""
    return _RULE.search(text) is not None


def may_state_rules(text: str) -> bool:
    """True if a text has words without which there is no rule."""
    lowered = text.lower()
    return any(word in lowered for word in _RULE_WORDS)


def rules_in(text: str) -> Iterator[str]:
    """Yield the lines of any text, or values of JSON, that state a rule."""
    for match in _RULE_IN_PASSING.finditer(text):
        start = text.rfind("\n", 0, match.start() + 1) + 1
        line = text[start : text.find("\n", match.end()) % (len(text) + 1)]
        for value in _JSON_VALUE.findall(line) or [line]:
            if _RULE_IN_PASSING.search(value) and not _CODE.search(value):
                yield value.strip()
