"""8-objective QA: eight Natural Questions at once, a search tool, one final answer. See docs/bench.md.

The paper's 100 test groups and its Wikipedia index of 2018 are not public files. Groups made from any questions and
passages are a stand-in, and are to be reported as that; prepared groups and a search server can be given instead.

The scripted agent is a reader of little skill that uses only the results it still sees: it searches for each
question whose results are not in sight and answers with a year, a number or the title of the best passage. It shows
that a group can be gone through, not how well a language model would do.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from focusctx.errors import BenchError
from focusctx.types import Message

from ..models.scripted import FunctionModel, Say
from ..protocols import Options, Score, Task, ToolCall, tool_definition
from .qa8_data import (
    FOUND,
    Bm25,
    Group,
    Passage,
    Question,
    Search,
    SearchServer,
    groups_from,
    passages_from,
    questions_from,
    renamed,
)

_HOW = (
    "qa8 needs questions and passages. Give --data: a JSONL file (or .jsonl.gz) whose lines have question, answers and "
    "ctxs, or a folder with questions.jsonl and passages.jsonl; or a search server with retriever=URL in place of "
    "passages. See docs/bench.md."
)
_NUMBERED = re.compile(r"^[\s>#*_-]*(?:answer\s*|question\s*|q)?(\d{1,2})\s*[.:)\]]+[\s*_]*(.*)$", re.IGNORECASE)
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
SYSTEM = (
    "You answer questions with the help of a search tool over encyclopedia passages. Search for each question, more "
    "than once if the first results do not answer it. Answers are a few words: a name, a date, a number. When you "
    "have searched for all of them, reply with one line for each question, its number, a colon and the answer, and "
    "nothing else."
)
RENAMED_SYSTEM = (
    f"{SYSTEM} Names, dates and numbers in these passages were changed, so what you remember is wrong: answer only "
    "with what the passages say, in their words. Write no text while you search, only calls of the tool."
)
_REMINDER = "Please give the final answer: one line for each question, such as '1: Paris'."
SEARCH_TOOL = tool_definition("search", "Find passages. Returns the best few.", {"query": {"type": "string"}})
_QUESTION = re.compile(r"^(\d+): (.+)$", re.MULTILINE)
_RESULTS = re.compile(r"^Results for: (.+)\n\[1\] (.+?): (.*)$", re.MULTILINE)
_NOTHING = re.compile(r"^No results for: (.+)$", re.MULTILINE)
_SEARCH = re.compile(r"^Search (\d+):", re.MULTILINE)
_MOST = 2
"""Searches per question after which it answers with what it has."""


def benchmark(options: Options) -> EightQuestions:
    """Return `groups=100` groups by seed. `retriever=URL` asks a search server instead of the passages.

    `renamed=true` replaces answers by made-up ones. `passages` is the number of passages per search; `searches` and
    `per_turn` limit the searches in all and in one turn.
    """
    options.check("qa8", ("groups", "retriever", "renamed", "passages", "searches", "per_turn"))
    if options.data is None or not options.data.exists():
        missing = "" if options.data is None else f"There is no {options.data}. "
        raise BenchError(f"{missing}{_HOW}")
    count = _number(options, "groups") or 100
    most, per_turn = _number(options, "searches"), _number(options, "per_turn")
    searching = Searching(_number(options, "passages") or FOUND, most, per_turn)
    split = options.split or "test"
    questions = questions_from(options.data)
    drawn = f"{options.seed}-" if isinstance(questions[0], Question) else ""
    if _is_renamed(options):
        new_questions, search = renamed(questions, _passages(options.data), options.seed)
        groups = groups_from(new_questions, count, options.seed, split)
        return EightQuestions(groups, search, f"qa8-renamed-{drawn}{split}", RENAMED_SYSTEM, searching)
    groups, url = groups_from(questions, count, options.seed, split), options.more.get("retriever")
    own = SearchServer(url) if url else Bm25(_passages(options.data))
    return EightQuestions(groups, own, f"qa8-{drawn}{split}", SYSTEM, searching)


def _number(options: Options, name: str) -> int | None:
    given = options.more.get(name)
    if given is None:
        return None
    if not given.isdecimal() or int(given) == 0:
        raise BenchError(f"{name} must be a whole number above 0, got {given!r}")
    return int(given)


def _is_renamed(options: Options) -> bool:
    given = options.more.get("renamed", "false")
    if given not in ("true", "false"):
        raise BenchError(f"renamed must be true or false, got {given!r}")
    if given == "true" and "retriever" in options.more:
        raise BenchError("renamed=true changes passages, and a search server has its own: leave retriever out")
    return given == "true"


def _passages(data: Path) -> list[Passage]:
    passages = passages_from(data)
    if not passages:
        raise BenchError(f"no passages in {data}. {_HOW}")
    return passages


def scripted() -> FunctionModel:
    return FunctionModel(decide, "scripted:qa8")


def read_answers(text: str, count: int) -> list[str] | None:
    """Return one answer per question, "" for those left out; None when the text is no final answer.

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
    """Return the text in lower case, without punctuation and articles."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, right: Sequence[str]) -> float:
    return float(any(normalise(answer) == normalise(one) for one in right))


def f1(answer: str, right: Sequence[str]) -> float:
    """Return the best overlap in words with any right answer."""
    return max((_overlap(normalise(answer).split(), normalise(one).split()) for one in right), default=0.0)


def _overlap(answer: list[str], right: list[str]) -> float:
    if not answer or not right:
        return float(answer == right)
    common = (Counter(answer) & Counter(right)).total()
    return 2 * common / (len(answer) + len(right))


@dataclass(frozen=True, slots=True)
class Searching:
    """Rules for the search tool."""

    passages: int = FOUND
    """Passages per search."""
    most: int | None = None
    """Searches in all; None for no limit."""
    per_turn: int | None = None
    """Searches in one turn; None for no limit."""

    @property
    def words(self) -> str:
        """Sentences that tell the agent about the limits; empty if there are none."""
        said = f" A turn has at most {self.per_turn} searches." if self.per_turn else ""
        return said + (f" You have {self.most} searches in all." if self.most else "")


class EightQuestionsTask:
    """One group of questions under way."""

    tools = (SEARCH_TOOL,)

    def __init__(self, group: Group, search: Search, system: str, searching: Searching) -> None:
        self._searching = searching
        self.system = system + searching.words
        self.calls_per_turn = searching.per_turn
        self._searches = 0
        lines = [f"{number}: {question.text}" for number, question in enumerate(group, 1)]
        self.task = "\n".join(["Answer these questions.", *lines])
        self._group = group
        self._search = search
        self._answers: list[str] | None = None
        self._reminded = False

    async def act(self, call: ToolCall) -> str:
        query = call.arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            return "Error: search takes a query."
        if self._searches == self._searching.most:
            return "Error: no searches are left. Give the final answer from what you have."
        self._searches += 1
        found = await self._search.find(query, self._searching.passages)
        lines = [f"[{number}] {passage.title}: {passage.text}" for number, passage in enumerate(found, 1)]
        return "\n".join([f"Results for: {query}", *lines]) if lines else f"No results for: {query}"

    async def hear(self, text: str) -> str | None:
        self._answers = read_answers(text, len(self._group))
        if self._answers is None and not self._reminded:
            self._reminded = True
            return _REMINDER
        return None

    def is_over(self) -> bool:
        return False

    async def score(self) -> Score:
        """Accuracy is the exact match, on average over the questions."""
        answers = self._answers or [""] * len(self._group)
        pairs = list(zip(answers, self._group, strict=True))
        em = [exact_match(answer, question.answers) for answer, question in pairs]
        overlap = [f1(answer, question.answers) for answer, question in pairs]
        return Score(fmean(em), {"em": fmean(em), "f1": fmean(overlap), "answers": answers})

    async def close(self) -> None:
        pass


class EightQuestions:
    name = "qa8"

    def __init__(self, groups: Sequence[Group], search: Search, prefix: str, system: str, searching: Searching) -> None:
        """`prefix` begins the ids of the tasks: it says how the groups were made."""
        self.groups = groups
        self.search = search
        self._prefix = prefix
        self._system = system
        self._searching = searching

    def tasks(self) -> Sequence[Task]:
        return [Task(f"{self._prefix}-{number:03d}", data={"group": number}) for number in range(len(self.groups))]

    async def start(self, task: Task) -> EightQuestionsTask:
        return EightQuestionsTask(self.groups[task.data["group"]], self.search, self._system, self._searching)


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
        found |= {query: _guess(query, title, passage) for query, title, passage in _RESULTS.findall(text)}
    return found


def _text(message: Message) -> str:
    return str(message.get("content") or "")


def _guess(question: str, title: str, passage: str) -> str:
    pattern = None
    if re.match(r"when|what year", question):
        pattern = r"\b1\d{3}\b|\b20\d{2}\b"
    elif re.match(r"how (many|much|long|old)", question):
        pattern = r"\b\d[\d,.]*\b"
    match = re.search(pattern, passage) if pattern else None
    return match[0] if match else re.sub(r" \(.*\)$", "", title)
