"""One group of questions under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ...protocols import Score, Task, ToolCall
from .answers import exact_match, f1, read_answers
from .data import Group
from .search import Search

SYSTEM = (
    "You answer questions with the help of a search tool over encyclopedia passages. Search for each question, more "
    "than once if the first results do not answer it. Answers are a few words: a name, a date, a number. When you "
    "have searched for all of them, reply with one line for each question, its number, a colon and the answer, and "
    "nothing else."
)
_REMINDER = "Please give the final answer: one line for each question, such as '1: Paris'."
_FOUND = 3
"""Passages per search."""

SEARCH_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Find passages. Returns the best few.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}


class EightQuestionsTask:
    system = SYSTEM
    tools = (SEARCH_TOOL,)

    def __init__(self, group: Group, search: Search) -> None:
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
        found = await self._search.find(query, _FOUND)
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

    def __init__(self, groups: Sequence[Group], search: Search, seed: int) -> None:
        self._groups = groups
        self._search = search
        self._seed = seed

    def tasks(self) -> Sequence[Task]:
        return [Task(f"qa8-{self._seed}-{number:03d}", data={"group": number}) for number in range(len(self._groups))]

    async def start(self, task: Task) -> EightQuestionsTask:
        return EightQuestionsTask(self._groups[task.data["group"]], self._search)
