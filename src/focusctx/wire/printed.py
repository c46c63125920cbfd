"""Tell text that a program printed from text that a person may have written.

Both tests err on the person's side: a text is printed only if nothing in it may be a person's words, in any language.
"""

from __future__ import annotations

import re

_PERSON = re.compile(
    r"^[^\s\W\d_][^\n]*?\b(?:please|pls|thanks|thank|sorry|hello|hey|let's|don't|(?-i:I)|I'm|I've|I'll|me|my|mine|we|our"
    r"|you|your|could|should|why)\b|^(?-i:I)\b|^(?:you|we|my|please|why|hi|hello|hey|thanks|sorry)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""An unindented line with a word that people use to each other."""
_SYMBOL = re.compile(r"[{}<>=;|\\$#@~^\[\]+*%]|\w\(|/\w|\w/|_|\t|::|\w\.\w|--|:\d|\d|^[-\"']|  \S")
_CODE = re.compile(
    r"(?:from|import|def|class|return|public|private|static|package|func|fn|const|let|var|if|elif|else|for|while|try"
    r"|except|with|async|await|export|include|use|struct|enum|type|raise|yield|end|begin)\b"
    r"|[\w.]*(?:Error|Exception|Warning)\b|(?:error|warning|fatal|INFO|DEBUG|WARN|ERROR|Traceback)\b"
)
_WORD = re.compile(r"[(\"'‘“]?[^\W\d_]+(?:['’-][^\W\d_]+)*[)\"'’”]?[,.;:!?…]*")
_LEAST_LINES = 3


def may_be_spoken(text: str) -> bool:
    """True if a line of the text addresses somebody in English."""
    return _PERSON.search(text) is not None


def is_printed(text: str) -> bool:
    """True if a text of some lines is surely the output of a program.

    Its first and last lines and the first of every paragraph must look printed: that is where people add remarks.
    """
    lines = text.strip("\n").split("\n")
    if len(lines) < _LEAST_LINES or may_be_spoken(text):
        return False
    edges = {0, len(lines) - 1}
    for place, line in enumerate(lines):
        if not line.strip():
            continue
        begins = place in edges or (not lines[place - 1].strip() and not line[0].isspace())
        if begins and not _looks_printed(line.strip()):
            return False
        if not line[0].isspace() and _is_sentence(line):
            return False
    return True


def _looks_printed(line: str) -> bool:
    if _CODE.match(line):
        return True
    words = line.split()
    plain = sum(_WORD.fullmatch(word) is not None for word in words)
    return _SYMBOL.search(line) is not None and plain * 10 < len(words) * 6


def _is_sentence(line: str) -> bool:
    """True for a line of three plain words or more and nothing else."""
    if _CODE.match(line):
        return False
    words = line.split()
    return len(words) >= 3 and all(map(_WORD.fullmatch, words))
