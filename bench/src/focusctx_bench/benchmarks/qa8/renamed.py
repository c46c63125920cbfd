"""Replaces answers by made-up ones, in the passages and in the questions, so that no model knows them by heart.

A name becomes an invented name with as many words; a date or a number becomes another one of the same form. Only the
passages of the answer's own page are changed: elsewhere the same words may mean something else. Questions whose answer
cannot be replaced safely are left out, and so are those whose search would find nothing, or the true answer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from focusctx.errors import BenchError

from .data import Group, Passage, Question
from .search import FOUND, Bm25

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_PARTICLES = frozenset(["of", "the", "de", "la", "le", "van", "von", "der", "du", "del", "di", "da"])
_CAPITALISED = re.compile(r"[A-Z][^\W\d_]*[.'’-]?[^\W\d_]*\.?")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_FIGURE = re.compile(rf"{'|'.join(_MONTHS)}|{_NUMBER.pattern}")
_YEARS = range(1000, 2031)
_NEAR = 40
"""Most years between a year and the one that replaces it."""
_LAST_YEAR = 2025
_LONGEST = 4
"""Most words of an answer that is replaced."""
_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in ("a", "e", "i", "o", "u", "ar", "en", "il")]


def renamed(
    questions: Sequence[Question | Group], passages: Sequence[Passage], seed: int
) -> tuple[list[Question], Bm25]:
    """Return the questions that could be renamed, with their new answers, and a search over the changed passages."""
    changed = list(passages)
    pairs = _replaced(questions, changed, seed)
    search = Bm25(changed)
    found = [new for old, new in pairs if _is_answered(search.best(new.text, FOUND), old, new)]
    if not found:
        raise BenchError("no question can be renamed: lines need ctxs with the title and the text that has the answer")
    return found, search


def _is_answered(found: Sequence[Passage], old: Question, new: Question) -> bool:
    """Return True if the new answer is in the passages and the old one is not: nothing contradicts it."""
    texts = [f"{passage.title} {passage.text}" for passage in found]
    return any(new.answers[0] in text for text in texts) and not any(_holds(text, old.answers[0]) for text in texts)


def _replaced(
    questions: Sequence[Question | Group], passages: list[Passage], seed: int
) -> list[tuple[Question, Question]]:
    """Change the passages in place, and return each question whose answer was replaced, before and after.

    Of the questions about one page only the first is taken, so that no two replacements meet in a passage.
    """
    by_page: dict[str, list[int]] = {}
    for place, passage in enumerate(passages):
        by_page.setdefault(passage.title, []).append(place)
    taken: dict[str, tuple[Question, Question]] = {}
    for question in questions:
        if not isinstance(question, Question):
            raise BenchError("renamed=true needs single questions with ctxs: prepared groups do not name their pages")
        if len(question.pages) != 1 or question.pages[0] in taken:
            continue
        page = question.pages[0]
        new = _new_words(question, page, random.Random(f"renamed {seed} {question.text}"))
        if not new:
            continue
        found = {place: _with(passages[place].text, new) for place in by_page.get(page, ())}
        old = question.answers[0]
        if not any(new[old] in text for text in found.values()):
            continue
        for place, text in found.items():
            passages[place] = replace(passages[place], text=text)
        taken[page] = question, replace(question, answers=(new[old],))
    return list(taken.values())


def _new_words(question: Question, page: str, chance: random.Random) -> dict[str, str]:
    """Return the words to replace, the answer first; empty if the answer cannot be replaced safely."""
    if len(question.answers) != 1:
        return {}
    answer = question.answers[0]
    words = answer.split()
    around = f"{question.text} {page}"
    if not 0 < len(words) <= _LONGEST or _holds(around, answer):
        return {}
    if all(map(_is_figure_or_unit, words)):
        return {answer: _other_figures(answer, chance)} if len(re.findall(r"\d", answer)) > 1 else {}
    if not all(_CAPITALISED.fullmatch(word) or word.lower() in _PARTICLES for word in words):
        return {}
    names = [word for word in words if word.lower() not in _PARTICLES]
    if not names or any(word in _MONTHS for word in names):
        return {}
    invented = dict(zip(names, _invented(len(names), chance), strict=True))
    new = {answer: " ".join(invented.get(word, word) for word in words)}
    last = words[-1]
    if len(names) > 1 and len(last) > 3 and last in invented and not _holds(around, last):
        new[last] = invented[last]
    return new


def _is_figure_or_unit(word: str) -> bool:
    bare = word.rstrip(",")
    return bare in _MONTHS or bool(_NUMBER.fullmatch(bare)) or (bare.isalpha() and bare.islower())


def _holds(text: str, words: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE))


def _with(text: str, new: dict[str, str]) -> str:
    """Return the text with all of these words replaced at once, as whole words."""
    either = "|".join(re.escape(old) for old in new)
    whole = re.compile(rf"(?<![\w.,-])(?:{either})(?!\w|[.,-]\d)|(?<=[^\d][.,-])(?:{either})(?!\w|[.,-]\d)")
    return whole.sub(lambda match: new[match[0]], text)


def _other_figures(text: str, chance: random.Random) -> str:
    """Return the text with another month, day, year or number in each place."""
    dated = any(month in text for month in _MONTHS)
    return _FIGURE.sub(lambda match: _other_figure(match[0], dated, chance), text)


def _other_figure(figure: str, dated: bool, chance: random.Random) -> str:
    if figure in _MONTHS:
        return chance.choice([month for month in _MONTHS if month != figure])
    number = int(figure) if figure.isdecimal() else 0
    if len(figure) == 4 and number in _YEARS:
        near = range(number - _NEAR, min(number + _NEAR, _LAST_YEAR))
        return str(chance.choice([year for year in near if year != number]))
    if dated and len(figure) < 3:
        return str(chance.choice([day for day in range(1, 29) if day != number]))
    other = figure
    while other == figure:
        digits = re.sub(r"\d", lambda _: str(chance.randrange(10)), figure)
        other = f"{chance.randrange(1, 10)}{digits[1:]}"
    return other


def _invented(count: int, chance: random.Random) -> list[str]:
    """Return different names of two or three syllables."""
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(chance.choice(_SYLLABLES) for _ in range(chance.randint(2, 3))).capitalize()] = None
    return list(found)
