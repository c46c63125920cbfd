"""The convention all integrations share: from a framework's history to the view that is sent.

An integration takes one argument that says how to compress:

- a `Focus`: sessions in memory, one for each tenant and model, with that model's prices;
- a function that takes a `Caller` and makes a session, `lambda caller: focus.session("redis://…",
  tenant=caller.tenant)`: it is called once for each tenant and model, and the plug closes what it made;
- a `Session`: all calls go through it. They all belong to its tenant;
- the `focusctx` of another integration object: both share its sessions, as where an agent is made for each request.

Every integration hands on the framework's own identity of a conversation where there is one. Without one, a session
knows a conversation by its messages. The object a user holds has the `Plug` as its attribute `focusctx`.

The framework's history stays whole: a view goes out with one call and is gone. An error in here is logged, and the
framework's call goes out unchanged.
"""

from __future__ import annotations

import inspect
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeAlias

from ..compressor import Focus
from ..errors import ConfigError, MessageError, MissingExtraError
from ..once import Once
from ..session.conversation import Conversation
from ..session.events import SessionEvent
from ..session.session import Session
from ..session.store import Totals, canonical
from ..session.stores.fork import ForkSafe
from ..types import Message
from ..wire.chat_completions import AS_WRITTEN
from .sessions import Sessions

_log = logging.getLogger("focusctx")
_once = Once(_log)
DEFAULT_TENANT = "default"
"""The tenant of calls for which neither the framework nor `tenant=` names one."""
_LAST_VIEWS = 128
"""Views kept for calls that a framework retries."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller that asks for a view, as far as the framework says."""

    tenant: str = DEFAULT_TENANT
    """The party whose data it is: decisions and archived steps of two tenants never meet."""
    id: str | None = None
    """The conversation, by the framework's own name for it."""
    model: str | None = None
    framework: str = ""
    """The name of the integration, such as `langgraph`."""


TenantOf: TypeAlias = Callable[[Caller], str]
"""Names the tenant of a call, for frameworks that do not know it: from the caller, or from a context variable."""


class Plug(ForkSafe):
    """Makes the views of one integration object, and knows its conversations.

    Frameworks copy agents, some of them at every run. A copy keeps the same plug, so its decisions stay in force.
    """

    def __init__(self, source: Focus | Session | Callable[[Caller], Session], tenant: TenantOf | None = None) -> None:
        super().__init__()
        _check(source, tenant)
        self._source = source
        self._tenant = tenant
        self._sessions = Sessions()
        self._views: OrderedDict[Hashable, _Answer] = OrderedDict()

    def view(self, messages: Sequence[Message], format: str, caller: Caller) -> list[Message]:
        """Return the messages to send instead, in that wire format."""
        caller = self._named(caller)
        with self._session(caller) as session:
            key = _key_of(messages, caller)
            if (known := self._known(key, messages)) is not None:
                return known
            return self._remember(key, messages, session.view(messages, format=format, id=caller.id))

    async def aview(self, messages: Sequence[Message], format: str, caller: Caller) -> list[Message]:
        """`view` for async frameworks."""
        caller = self._named(caller)
        with self._session(caller) as session:
            key = _key_of(messages, caller)
            if (known := self._known(key, messages)) is not None:
                return known
            return self._remember(key, messages, await session.aview(messages, format=format, id=caller.id))

    @property
    def conversations(self) -> list[Conversation]:
        """The conversations that are followed now, of all tenants."""
        return [conversation for session in self._all() for conversation in session.conversations]

    @property
    def events(self) -> list[SessionEvent]:
        """Every changed view, and every refusal with its reason."""
        return list(self._source.events) if isinstance(self._source, Session) else self._sessions.events

    @property
    def savings(self) -> Totals:
        """Tokens and money saved and spent so far, over all tenants."""
        return self._source.savings if isinstance(self._source, Session) else self._sessions.savings

    def close(self) -> None:
        """Close the sessions made here, which writes their totals; a `Session` that was given is its owner's to close.

        A call after this opens new sessions.
        """
        with self._lock:
            self._views.clear()
        self._sessions.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the way to compress. Sessions stay with this process; another one finds decisions in the store."""
        if isinstance(self._source, Session):
            raise ConfigError("a Session cannot be pickled: give the integration a Focus, or a module's function")
        return type(self), (self._source, self._tenant)

    def _all(self) -> list[Session]:
        return [self._source] if isinstance(self._source, Session) else self._sessions.all()

    def _named(self, caller: Caller) -> Caller:
        """The caller with its tenant. One that cannot be named gets no view: nothing is stored under a wrong name."""
        tenant = self._tenant(caller) if self._tenant else caller.tenant
        if not isinstance(tenant, str) or not tenant:
            raise ConfigError(f"tenant= must return the tenant's name, got {tenant!r}")
        return replace(caller, tenant=tenant)

    def _session(self, caller: Caller) -> AbstractContextManager[Session]:
        if isinstance(self._source, Session):
            return nullcontext(self._made(caller))
        return self._sessions.use((caller.tenant, caller.model), lambda: self._made(caller))

    def _made(self, caller: Caller) -> Session:
        if isinstance(self._source, Session):
            return _of_tenant(self._source, caller)
        if isinstance(self._source, Focus):
            return self._source.session(tenant=caller.tenant, model=caller.model)
        # One session follows many conversations: a factory must not choose by the id of the first.
        session = self._source(replace(caller, id=None))
        if not isinstance(session, Session):
            raise ConfigError(f"the function must return a Session, got {session!r}")
        return _of_tenant(session, caller)

    def _known(self, key: Hashable, messages: Sequence[Message]) -> list[Message] | None:
        """The last view again, if a framework retries the call it was for."""
        with self._lock:
            answer = self._views.get(key)
        return answer.again(messages) if answer else None

    def _remember(self, key: Hashable, messages: Sequence[Message], view: list[Message]) -> list[Message]:
        with self._lock:
            self._views[key] = _Answer(list(messages), list(view))
            self._views.move_to_end(key)
            if len(self._views) > _LAST_VIEWS:
                self._views.popitem(last=False)
        return view


Source: TypeAlias = Focus | Session | Plug | Callable[[Caller], Session]
"""How to compress, as a user hands it to an integration."""


def plugged(source: Source, tenant: TenantOf | None = None) -> Plug:
    """The plug for an integration object: a new one, or the one that was given."""
    if isinstance(source, Plug):
        if tenant is not None:
            raise ConfigError("leave tenant= out: it is set on the integration whose `focusctx` is shared here")
        return source
    return Plug(source, tenant)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The view that a history got."""

    given: list[Message]
    view: list[Message]

    def again(self, messages: Sequence[Message]) -> list[Message] | None:
        if self.given != list(messages):
            return None
        now = {id(then): message for then, message in zip(self.given, messages, strict=True)}
        return [
            now.get(id(message), message) for message in self.view
        ]  # equal, but the caller's own are what goes back


def _key_of(messages: Sequence[Message], caller: Caller) -> Hashable:
    """Tells last views apart: by tenant and model, and by the caller's id or the user's first message."""
    if caller.id is not None:
        return caller
    first = next((message for message in messages if message.get("role") == "user"), None)
    return caller, None if first is None else canonical(first)


def _of_tenant(session: Session, caller: Caller) -> Session:
    if caller.tenant not in (DEFAULT_TENANT, session.tenant):
        raise ConfigError(
            f"a call of tenant {caller.tenant!r} got a session of tenant {session.tenant!r}: "
            "give a Focus, or a function such as lambda caller: focus.session(store, tenant=caller.tenant)"
        )
    return session


def _check(source: object, tenant: object) -> None:
    if isinstance(source, Session) and tenant is not None:
        raise ConfigError(
            "a Session has one tenant, so tenant= does nothing for it: give a Focus, "
            "or a function such as lambda caller: focus.session(store, tenant=caller.tenant)"
        )
    if isinstance(source, Focus | Session):
        return
    if not callable(source):
        raise ConfigError(
            f"expected a Focus, a Session or a function that takes a Caller and makes one, got {source!r}"
        )
    try:
        inspect.signature(source).bind(Caller())
    except TypeError:
        raise ConfigError(
            "the function that makes sessions takes the caller: "
            "lambda caller: focus.session(store, tenant=caller.tenant, model=caller.model)"
        ) from None
    except ValueError:  # a builtin without a signature
        return


def as_written(messages: list[Message]) -> list[Message]:
    """Mark the model's turns, in messages that an integration made: they stay or go as the model wrote them.

    A shortened result can be put back into a framework's own message. A turn without some of its words or calls cannot.
    """
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "assistant":
            message[AS_WRITTEN] = True
    return messages


def places(given: Sequence[Message], view: Sequence[Message]) -> list[int | None]:
    """For each message of a view, its place in `given`; None for the line that says what is missing.

    A message that stays is the very object that was given. A message that is shown in part is a copy with another text,
    and nothing is left out between it and the turn that it belongs to: see `as_written`.
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
        raise MessageError("the view contains messages that are not in the history")
    return found


def _is_copy(message: Message, original: Message) -> bool:
    text = {"content": None, "output": None, "arguments": None, "input": None}
    return {**message, **text} == {**original, **text}


class fail_open:  # noqa: N801  used like a function
    """Translation and view stand inside, the framework's own call after it: that one is made in any case."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if isinstance(error, MessageError):  # the same at every step of a history that is not understood
            _once.warning(f"history passed on uncompressed: {error}")
        elif isinstance(error, Exception):
            _log.warning("history passed on uncompressed", exc_info=error)
        return isinstance(error, Exception)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around the imports of a framework: without it, the error names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"focusctx.integrations.{extra.replace('-', '_')}", extra) from error


__all__ = ["Caller", "Plug", "Source", "TenantOf", "as_written", "fail_open", "needs", "places", "plugged"]
