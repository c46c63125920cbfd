"""Questions, groups of them, and passages, from JSON lines as data sets write them; a search over them; new answers.

Passages are searched by BM25 in memory, or by a server that others run. `renamed` replaces answers by made-up ones,
in the passages and in the questions, so that no model knows them by heart: a name becomes an invented name with as
many words; a date or a number becomes another one of the same form. Only the passages of the answer's own page are
changed: elsewhere the same words may mean something else. Questions whose answer cannot be replaced safely are left
out, and so are those whose search would find nothing, or the true answer.
"""

from __future__ import annotations

import gzip
import heapq
import json
import math
import random
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from focusctx.drafts.http import Endpoint, base_url, open_session
from focusctx.errors import BenchError, ConfigError, DraftError

SIZE = 8
SPLITS = ("test", "train", "all")
K1, B = 1.2, 0.75
"""Lucene's own."""
FOUND = 3
"""Passages per search of an agent."""
_WORD = re.compile(r"\w+")
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


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    answers: tuple[str, ...]
    """Each of them is right."""
    split: str = ""
    """The split that the file names; "" if it names none."""
    pages: tuple[str, ...] = ()
    """Titles of the question's own passages (`ctxs`) that hold an answer."""

    @property
    def part(self) -> str:
        """The split: the file's, else by the question's words, so that no seed moves a question to the other one."""
        return self.split or ("train" if crc32(self.text.encode()) % 2 else "test")


@dataclass(frozen=True, slots=True)
class Passage:
    title: str
    text: str


Group = tuple[Question, ...]


def questions_from(data: Path) -> list[Question | Group]:
    """Read single questions (`question` and `answer` or `answers`), or prepared groups (`questions` and `answers`)."""
    found = [row for row in _rows(_file(data, "questions")) if "question" in row or "questions" in row]
    if not found:
        raise BenchError(f"no questions in {data}: lines need question and answers")
    return [_group(row) if "questions" in row else _question(row["question"], row) for row in found]


def groups_from(questions: Sequence[Question | Group], count: int, seed: int, split: str = "all") -> list[Group]:
    """Return the split's prepared groups in their order, or groups of eight different questions, drawn by seed."""
    if split not in SPLITS:
        raise ConfigError(f"qa8 has no split {split!r}: it has {', '.join(SPLITS)}")
    prepared = [entry for entry in questions if not isinstance(entry, Question)]
    if prepared:
        return _prepared(prepared, split)[:count]
    single = list({entry.text: entry for entry in questions if isinstance(entry, Question)}.values())
    single = [question for question in single if split in ("all", question.part)]
    if len(single) < SIZE:
        whole = "" if split == "all" else f" in the split {split}; --split all takes every question"
        raise BenchError(f"a group has {SIZE} questions, there are {len(single)}{whole}")
    random.Random(f"qa8 {seed}").shuffle(single)
    starts = range(0, len(single) - SIZE + 1, SIZE)
    return [tuple(single[start : start + SIZE]) for start in starts][:count]


def _prepared(groups: Sequence[Group], split: str) -> list[Group]:
    """Return the groups of a split. They share questions as they like, so only their file can divide them."""
    if split == "all":
        return list(groups)
    if not all(group[0].split for group in groups):
        raise BenchError(
            f"these prepared groups do not say which are for training: give each line a field split (train or test) "
            f"to use --split {split}, or take them all with --split all"
        )
    found = [group for group in groups if group[0].split == split]
    if not found:
        raise BenchError(f"no prepared group belongs to the split {split}")
    return found


def passages_from(data: Path) -> list[Passage]:
    """Read lines of `title` and `text`, of `contents` with the title on its first line, or of questions with `ctxs`."""
    found: dict[str, Passage] = {}
    for row in _rows(_file(data, "passages")):
        for entry in row.get("ctxs", [row]):
            passage = passage_of(entry)
            if passage.text:
                found.setdefault(passage.text, passage)
    return list(found.values())


def passage_of(entry: dict[str, Any]) -> Passage:
    if "contents" in entry:
        title, _, text = str(entry["contents"]).partition("\n")
        return Passage(title.strip('" '), text)
    return Passage(str(entry.get("title", "")), str(entry.get("text", "")))


def _file(data: Path, name: str) -> Path:
    """Return the file itself, or the one of that name in the folder."""
    if data.is_file():
        return data
    candidates = [data / f"{name}.jsonl", data / f"{name}.jsonl.gz"]
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise BenchError(f"{data} has no {name}.jsonl (or {name}.jsonl.gz)")
    return path


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise BenchError(f"{path}, line {number} is not valid JSON: {error}") from error
            if not isinstance(row, dict):
                raise BenchError(f"{path}, line {number} must be an object")
            yield row


def _answers(row: dict[str, Any]) -> Any:
    return row.get("answers", row.get("answer"))


def _question(text: Any, row: dict[str, Any]) -> Question:
    answers = _answers(row)
    given = [answers] if isinstance(answers, str) else answers
    if not isinstance(text, str) or not isinstance(given, list) or not given:
        raise BenchError(f"a question needs a text and answers, got {text!r} and {answers!r}")
    if (split := row.get("split", "")) not in ("", "train", "test"):
        raise BenchError(f"the split of a question is train or test, got {split!r}")
    right = tuple(map(str, given))
    own = [passage_of(entry) for entry in row.get("ctxs", ())]
    pages = dict.fromkeys(passage.title for passage in own if any(answer in passage.text for answer in right))
    return Question(text, right, split, tuple(pages))


def _group(row: dict[str, Any]) -> Group:
    questions, answers = row["questions"], _answers(row)
    if not isinstance(questions, list) or not isinstance(answers, list) or len(questions) != len(answers):
        raise BenchError("a group needs as many answers as questions")
    return tuple(_question(text, {**row, "answers": given}) for text, given in zip(questions, answers, strict=True))


class Search(Protocol):
    async def find(self, query: str, count: int) -> list[Passage]:
        """Return the best passages, best first."""


class Bm25:
    """An inverted index. Good for some hundred thousand passages; a whole Wikipedia wants a server."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = passages
        self._holders: dict[str, tuple[array[int], array[float]]] = defaultdict(lambda: (array("L"), array("d")))
        """For each word the places of the passages that hold it, and its weight in each."""
        mean = sum(len(terms(_whole(passage))) for passage in passages) / max(1, len(passages)) or 1.0
        for place, passage in enumerate(passages):
            count = Counter(terms(_whole(passage)))
            norm = K1 * (1 - B + B * count.total() / mean)
            for word, times in count.items():
                places, weights = self._holders[word]
                places.append(place)
                weights.append(times / (times + norm))

    async def find(self, query: str, count: int) -> list[Passage]:
        return self.best(query, count)

    def best(self, query: str, count: int) -> list[Passage]:
        scores: dict[int, float] = defaultdict(float)
        for word in terms(query):
            if word not in self._holders:
                continue
            places, weights = self._holders[word]
            rarity = math.log(1 + (len(self._passages) - len(places) + 0.5) / (len(places) + 0.5))
            for place, weight in zip(places, weights, strict=True):
                scores[place] += rarity * weight
        best = heapq.nsmallest(count, scores.items(), key=lambda item: (-item[1], item[0]))
        return [self._passages[place] for place, _ in best]


class SearchServer:
    """A server as Search-R1's: POST /retrieve with queries and topk, documents with contents in return."""

    def __init__(self, url: str) -> None:
        self._endpoint = Endpoint(f"{base_url(url).removesuffix('/retrieve')}/retrieve", {}, timeout=60.0, retries=4)

    async def find(self, query: str, count: int) -> list[Passage]:
        body = {"queries": [query], "topk": count, "return_scores": True}
        try:
            async with open_session() as session:
                answer = await self._endpoint.post(session, body)
            return [passage_of(hit.get("document", hit)) for hit in answer["result"][0]][:count]
        except (DraftError, LookupError, TypeError, AttributeError) as error:
            raise BenchError(f"the search server gave no passages: {error!r}") from error


def _whole(passage: Passage) -> str:
    return f"{passage.title} {passage.text}"


def terms(text: str) -> list[str]:
    """Return words in lower case, plural endings cut off."""
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in _WORD.findall(text.lower())]


def renamed(
    questions: Sequence[Question | Group], passages: Sequence[Passage], seed: int
) -> tuple[list[Question], Bm25]:
    """Return the questions that could be renamed, with their new answers, and a search over the changed passages."""
    changed = list(passages)
    pairs = _replaced(questions, changed, seed)
    search = Bm25(changed)
    found = []
    for old, new in pairs:  # whose new answer is found, and whose old one is not: nothing contradicts it
        texts = [_whole(passage) for passage in search.best(new.text, FOUND)]
        if any(new.answers[0] in text for text in texts) and not any(_holds(text, old.answers[0]) for text in texts):
            found.append(new)
    if not found:
        raise BenchError("no question can be renamed: lines need ctxs with the title and the text that has the answer")
    return found, search


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
    bare = [word.rstrip(",") for word in words]
    if all(one in _MONTHS or _NUMBER.fullmatch(one) or (one.isalpha() and one.islower()) for one in bare):
        if len(re.findall(r"\d", answer)) < 2:
            return {}
        dated = any(month in answer for month in _MONTHS)
        return {answer: _FIGURE.sub(lambda match: _other_figure(match[0], dated, chance), answer)}
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


def _holds(text: str, words: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE))


def _with(text: str, new: dict[str, str]) -> str:
    """Return the text with all of these words replaced at once, as whole words."""
    either = "|".join(re.escape(old) for old in new)
    whole = re.compile(rf"(?<![\w.,-])(?:{either})(?!\w|[.,-]\d)|(?<=[^\d][.,-])(?:{either})(?!\w|[.,-]\d)")
    return whole.sub(lambda match: new[match[0]], text)


def _other_figure(figure: str, dated: bool, chance: random.Random) -> str:
    """Return another month, day, year or number."""
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
