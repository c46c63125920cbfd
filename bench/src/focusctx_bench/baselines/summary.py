"""Methods that put one text in the place of all older turns; they differ only in who writes it.

Due when the older turns and the text before have more tokens than the budget. Then both are given to the writer, and
what it writes stands for them from now on; the newest turn stays word for word.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from focusctx.baselines.turnwise import Choice, Made, NoChoice, Turnwise, droppable, problem_of
from focusctx.errors import ConfigError
from focusctx.types import History, Reply, Span, Usage

HEADING = "[The steps so far, in short. This was written by a program to save room: these are not the user's words.]"


@dataclass(frozen=True, slots=True)
class Older:
    """The turns that a summary is to replace."""

    history: History
    before: str
    """The text that stands for still older turns; "" at first."""
    spans: tuple[Span, ...]


class Summary(Turnwise):
    def __init__(self, budget: int = 4096) -> None:
        super().__init__()
        if budget < 0:
            raise ConfigError(f"budget must be 0 or more, got {budget!r}")
        self._budget = budget
        self._text = ""
        self._made: Made | None = None
        self._covered: frozenset[int] = frozenset()

    @abstractmethod
    async def write(self, older: Older) -> Reply:
        """The text for the older turns. Raises whatever went wrong."""

    async def choose(self, history: History) -> Choice | None:
        older = Older(
            history, self._text, tuple(span for span in droppable(history) if span.index not in self._covered)
        )
        usage = Usage()
        if self._is_due(older):
            reply = await self._written(older)
            usage, self._text = reply.usage, reply.text.strip()
            self._covered |= {span.index for span in older.spans}
            content = f"{HEADING}\n\n{self._text}"
            self._made = Made({"role": "user", "content": content}, turn=max(self._covered))
        kept = [span.index for span in history.spans if span.index not in self._covered]
        return Choice(kept, made=self._made, usage=usage)

    def _is_due(self, older: Older) -> bool:
        tokens = sum(span.tokens for span in older.spans) + self.count(older.before)
        return bool(older.spans) and tokens > self._budget

    async def _written(self, older: Older) -> Reply:
        try:
            reply = await self.write(older)
        except Exception as error:  # a writer is anyone's code: whatever it raises, the agent goes on
            raise NoChoice(problem_of(error), unanswered=True) from error
        if reply.truncated:
            raise NoChoice("the text for the older steps was cut off at the writer's limit", reply.usage)
        if not reply.text.strip():
            raise NoChoice("the writer gave an empty text for the older steps", reply.usage)
        return reply
