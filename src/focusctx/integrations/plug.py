"""What all integrations share, and the convention they follow.

An integration takes one argument that says how to compress:

- a `Focus`: each conversation gets a session of its own, in memory, with the prices of the model it calls;
- a function that makes a session, `lambda: focus.session("redis://…", tenant="acme")`: each conversation gets one;
- a `Session`: all calls go through it, and its `events` and `savings` are there to look at. One per agent run.

A conversation is known by the user's first message, so sub-agents with tasks of their own have their own sessions.
The framework's history stays whole: a view goes out with one call and is gone. Whatever fails here is logged, and
the framework's call goes out as it was.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self, TypeAlias

from ..compressor import Focus
from ..errors import ConfigError, MessageError, MissingExtraError
from ..once import Once
from ..session.keys import canonical
from ..session.session import Session
from ..types import Message

Source: TypeAlias = Focus | Session | Callable[[], Session]
"""What a user hands to an integration."""

_log = logging.getLogger("focusctx")
_once = Once(_log)
_REMEMBERED = 128
"""Conversations whose sessions are kept; one that comes back later is decided anew, or as its store says."""


class Plug:
    """Turns histories into views, with the session of each conversation.

    Frameworks copy agents, some of them at every run. A copy has the same plug, as it has the same provider: decided
    is decided, for whichever copy the conversation goes on with.
    """

    def __init__(self, source: Source) -> None:
        if not isinstance(source, Focus | Session) and not callable(source):
            raise ConfigError(f"expected a Focus, a Session or a function that makes one, got {source!r}")
        self._source = source
        self._runs: OrderedDict[bytes, _Run] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, messages: Sequence[Message], format: str, *, model: str | None = None) -> list[Message]:
        """What to send instead of the messages, in that wire format; `model` is whom they are sent to."""
        run = self._run(messages, model)
        if (view := run.answered(messages)) is None:
            view = run.remember(messages, run.session.view(messages, format=format))
        return view

    async def aview(self, messages: Sequence[Message], format: str, *, model: str | None = None) -> list[Message]:
        """`view` for async frameworks."""
        run = self._run(messages, model)
        if (view := run.answered(messages)) is None:
            view = run.remember(messages, await run.session.aview(messages, format=format))
        return view

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def _run(self, messages: Sequence[Message], model: str | None) -> _Run:
        first = next((message for message in messages if message.get("role") == "user"), None)
        key = b"" if first is None or isinstance(self._source, Session) else canonical(first)
        with self._lock:
            run = self._runs.pop(key, None) or _Run(self._session(model))
            self._runs[key] = run
            if len(self._runs) > _REMEMBERED:
                self._runs.popitem(last=False)
        return run

    def _session(self, model: str | None) -> Session:
        if isinstance(self._source, Session):
            return self._source
        return self._source.session(model=model) if isinstance(self._source, Focus) else self._source()


class _Run:
    """A conversation's session, and its last view: a call that is tried again sends what it sent."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._last: tuple[list[Message], list[Message]] | None = None

    def answered(self, messages: Sequence[Message]) -> list[Message] | None:
        if self._last is None or self._last[0] != list(messages):
            return None
        given, view = self._last
        now = {id(then): message for then, message in zip(given, messages, strict=True)}
        return [now.get(id(message), message) for message in view]  # equal, but the caller's own are what goes back

    def remember(self, messages: Sequence[Message], view: list[Message]) -> list[Message]:
        self._last = list(messages), list(view)
        return view


def places(given: Sequence[Message], view: Sequence[Message]) -> list[int | None]:
    """For each message of a view, where it stood in what was given; None for the line that says what is missing.

    A message that stays is the very object that was given. A result in a skeleton is a copy with another text, and
    nothing is left out between it and the turn that it belongs to.
    """
    known = {id(message): place for place, message in enumerate(given)}
    found: list[int | None] = []
    following = 0
    for message in view:
        place = known.get(id(message))
        if place is None and following < len(given) and _is_copy(message, given[following]):
            place = following
        found.append(place)
        following = following if place is None else place + 1
    if found.count(None) > 1:
        raise MessageError("the view holds messages that were not given")
    return found


def _is_copy(message: Message, original: Message) -> bool:
    return {**message, "content": None} == {**original, "content": None}


@contextmanager
def fail_open() -> Iterator[None]:
    """Translation and view stand inside, the framework's own call after it: that one is made in any case."""
    try:
        yield
    except MessageError as error:
        _once.warning(f"history passed on uncompressed: {error}")
    except Exception:
        _log.warning("history passed on uncompressed", exc_info=True)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around the imports of a framework: without it, the error names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"focusctx.integrations.{extra.replace('-', '_')}", extra) from error


__all__ = ["Plug", "Source", "fail_open", "needs", "places"]
