"""One group of questions under way."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ...protocols import Score, Task, ToolCall, tool_definition
from .data import Group
from .search import FOUND, Search

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
    tools = (SEARCH_TOOL,)

    def __init__(self, group: Group, search: Search, system: str = SYSTEM, searching: Searching | None = None) -> None:
        self._searching = searching or Searching()
        self.system = system + self._searching.words
        self.calls_per_turn = self._searching.per_turn
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

    def __init__(
        self,
        groups: Sequence[Group],
        search: Search,
        prefix: str,
        system: str = SYSTEM,
        searching: Searching | None = None,
    ) -> None:
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
