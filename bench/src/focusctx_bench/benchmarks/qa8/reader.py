"""A scripted agent for the questions: a reader of little skill that uses only the results it still sees.

It searches for each question whose results are not in sight and answers with a year, a number or the title of the
best passage. It shows that a group can be gone through, not how well a language model would do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from focusctx.types import Message

from ...models.scripted import Say

_QUESTION = re.compile(r"^(\d+): (.+)$", re.MULTILINE)
_RESULTS = re.compile(r"^Results for: (.+)\n\[1\] (.+?): (.*)$", re.MULTILINE)
_NOTHING = re.compile(r"^No results for: (.+)$", re.MULTILINE)
_SEARCH = re.compile(r"^Search (\d+):", re.MULTILINE)
_MOST = 2
"""Searches per question after which it answers with what it has."""


def decide(messages: Sequence[Message]) -> Say:
    words = next((str(message["content"]) for message in messages if message["role"] == "user"), "")
    questions = [question for _, question in _QUESTION.findall(words)]
    seen = _seen(messages)
    searches = max((int(number) for message in messages for number in _SEARCH.findall(_text(message))), default=0)
    for number, question in enumerate(questions, 1):
        if question not in seen and searches < _MOST * len(questions):
            return Say(f"Search {searches + 1}: question {number}.", [("search", {"query": question})])
    return Say("\n".join(f"{number}: {seen.get(question, '')}" for number, question in enumerate(questions, 1)))


def _seen(messages: Sequence[Message]) -> dict[str, str]:
    """Return an answer for each question whose results are in sight."""
    found: dict[str, str] = {}
    for message in messages:
        text = _text(message)
        found |= dict.fromkeys(_NOTHING.findall(text), "")
        found |= {query: _answer(query, title, passage) for query, title, passage in _RESULTS.findall(text)}
    return found


def _text(message: Message) -> str:
    return str(message.get("content") or "")


def _answer(question: str, title: str, passage: str) -> str:
    pattern = None
    if re.match(r"when|what year", question):
        pattern = r"\b1\d{3}\b|\b20\d{2}\b"
    elif re.match(r"how (many|much|long|old)", question):
        pattern = r"\b\d[\d,.]*\b"
    match = re.search(pattern, passage) if pattern else None
    return match[0] if match else re.sub(r" \(.*\)$", "", title)
