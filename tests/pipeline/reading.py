"""How tests read a history: a token a letter, with the settings that the test is about."""

from typing import Any

from focusctx.config import FocusConfig
from focusctx.pipeline.split import read_history
from focusctx.types import History

FORMATS = ("chat_completions", "responses", "anthropic")
RULES = {"role": "system", "content": "Act like this:\n```bash\nls\n```"}


def read(messages: list[Any], *, format: str | None = None, goal: str | None = None, **settings: Any) -> History:
    return read_history(messages, FocusConfig(**settings), len, format=format, goal=goal)


def shape(history: History) -> list[tuple[str, str, str]]:
    return [(span.thought, span.action, span.observation) for span in history.spans]
