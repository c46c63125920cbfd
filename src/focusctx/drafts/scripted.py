"""A draft with scripted replies, for tests: ours and yours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from ..errors import ConfigError, DraftError
from ..types import Prompt, Reply, Usage


class ScriptedDraft:
    """Gives the scripted replies in order, across calls, and starts again from the first when they run out.

    `sample(prompt, 3)` takes the next three, even if the caller stops early. The attribute `prompts` lists the prompts,
    one per call.

    Args:
        replies: The script. An exception in it is raised in its place (unchanged if it is a `DraftError`, otherwise as
            the cause of one) and ends that call.
        delay: Seconds to wait before each reply.
    """

    name = "scripted"

    def __init__(self, replies: Sequence[str | Exception | Reply], *, delay: float = 0.0) -> None:
        if isinstance(replies, str) or not replies:
            raise ConfigError("a scripted draft needs a list of at least one reply")
        for reply in replies:
            if not isinstance(reply, str | Exception | Reply):
                raise ConfigError(f"a scripted reply is a str, a Reply or an exception, got {reply!r}")
        self._script = tuple(replies)
        self._delay = delay
        self._next = 0
        self.prompts: list[Prompt] = []

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        self.prompts.append(prompt)
        # Taken before the first wait, so that two calls at once get their own replies.
        first = self._next
        self._next += n
        for place in range(first, first + n):
            await asyncio.sleep(self._delay)
            yield _said(self._script[place % len(self._script)])


def _said(line: str | Exception | Reply) -> Reply:
    if isinstance(line, str):
        return Reply(line, Usage(requests=1))
    if isinstance(line, Reply):
        return line
    if isinstance(line, DraftError):
        raise line.with_traceback(None)
    raise DraftError(f"scripted failure: {line!r}") from line
