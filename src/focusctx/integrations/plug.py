"""The convention all integrations share: from a framework's history to the view that is sent.

An integration takes one argument that says how to compress:

- a `Focus`: sessions in memory, one for each tenant and model, with that model's prices;
- a function that takes a `Caller` and makes a session, `lambda caller: focus.session("redis://…",
  tenant=caller.tenant)`: it is called once for each tenant and model, and the plug closes what it made;
- a `Session`: all calls go through it. They all belong to its tenant;
- the `focusctx` of another integration object: both share its sessions, as where an agent is made for each request.

An integration passes the framework's own id of a conversation where there is one. Without one, a session recognises a
conversation by its messages. The object a user holds has the `Plug` as its attribute `focusctx`.

The framework's history stays whole: a view goes out with one call and is gone. An error in here is logged, and the
framework's call goes out unchanged.
"""

from __future__ import annotations

import inspect
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from ..compressor import Focus
from ..errors import ConfigError, MessageError, MissingExtraError
from ..once import Once
from ..session.conversation import Conversation
from ..session.events import SessionEvent
from ..session.fork import ForkSafe
from ..session.session import Session
from ..session.store import Totals, canonical
from ..types import Message
from ..wire.chat_completions import AS_WRITTEN

_log = logging.getLogger("focusctx")
_once = Once(_log)
CHAT = "chat_completions"
"""The wire format that most frameworks' messages are translated to."""
DEFAULT_TENANT = "default"
"""The tenant of calls for which neither the framework nor `tenant=` names one."""
_LAST_VIEWS = 128
"""Views kept for calls that a framework retries."""
_OPEN = 64
"""Sessions open at a time; each may hold files or connections. A tenant that comes back gets a new one."""
_PAST_EVENTS = 1000

_Key: TypeAlias = tuple[str, str | None]
"""The tenant and the model that a session is for."""

Native = TypeVar("Native")
"""A framework's own message."""


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
        self._sessions = _Sessions()
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
        """Return the same as `view`, for async frameworks."""
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
        """Return the caller with its tenant. Raises without one: nothing may be stored under a wrong name."""
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
        """Return the last view again if a framework retries the call it was for."""
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
"""The argument that says how to compress, as described above."""


def plugged(source: Source, tenant: TenantOf | None = None) -> Plug:
    """Return the plug for an integration object: a new one, or the one that was given."""
    if isinstance(source, Plug):
        if tenant is not None:
            raise ConfigError("leave tenant= out: it is set on the integration whose `focusctx` is shared here")
        return source
    return Plug(source, tenant)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A history and its view, to give again."""

    given: list[Message]
    view: list[Message]

    def again(self, messages: Sequence[Message]) -> list[Message] | None:
        if self.given != list(messages):
            return None
        now = {id(then): message for then, message in zip(self.given, messages, strict=True)}
        return [now.get(id(message), message) for message in self.view]  # equal messages, but the caller's own objects


def _key_of(messages: Sequence[Message], caller: Caller) -> Hashable:
    """Return the key of a last view: tenant and model, and the caller's id or the user's first message."""
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


class _Sessions(ForkSafe):
    """The open sessions of a plug. One that is in use stays open until its last user is done."""

    def __init__(self) -> None:
        super().__init__()
        self._open: OrderedDict[_Key, _Open] = OrderedDict()
        self._past_events: deque[SessionEvent] = deque(maxlen=_PAST_EVENTS)
        self._past_savings = Totals()

    @contextmanager
    def use(self, key: _Key, make: Callable[[], Session]) -> Iterator[Session]:
        with self._lock:
            opened = self._take(key)
        made = make() if opened is None else opened.session  # may take time, so the lock is not held
        with self._lock:
            opened = opened or self._take(key) or self._put(key, made)
            is_spare = not any(one.session is made for one in (opened, *self._open.values()))
        try:
            if is_spare:
                made.close()
            yield opened.session
        finally:
            self._leave(opened)

    def all(self) -> list[Session]:
        with self._lock:
            return list({id(opened.session): opened.session for opened in self._open.values()}.values())

    @property
    def events(self) -> list[SessionEvent]:
        return [*self._past_events, *(event for session in self.all() for event in list(session.events))]

    @property
    def savings(self) -> Totals:
        return sum((session.savings for session in self.all()), self._past_savings)

    def close(self) -> None:
        """Close all sessions, those in use when their last user is done."""
        with self._lock:
            opened = list(self._open.values())
            self._open.clear()
            closing = [session for one in opened for session in self._retire(one)]
        self._end(closing)

    def _take(self, key: _Key) -> _Open | None:
        opened = self._open.get(key)
        if opened is not None:
            self._open.move_to_end(key)
            opened.users += 1
        return opened

    def _put(self, key: _Key, session: Session) -> _Open:
        opened = self._open[key] = _Open(session, users=1)
        return opened

    def _leave(self, opened: _Open) -> None:
        with self._lock:
            opened.users -= 1
            closing = self._retire(opened) if opened.is_over else []
            while len(self._open) > _OPEN:
                _, oldest = self._open.popitem(last=False)
                closing += self._retire(oldest)
        self._end(closing)

    def _retire(self, opened: _Open) -> list[Session]:
        """Return the session in a list if it can be closed now."""
        opened.is_over = True
        session = opened.session
        is_shared = any(other.session is session for other in self._open.values())  # a factory's choice
        return [] if opened.users or is_shared else [session]

    def _end(self, sessions: Sequence[Session]) -> None:
        for session in sessions:
            session.close()
            events, savings = list(session.events), session.savings  # not under the lock: a session has its own
            with self._lock:
                self._past_events.extend(events)
                self._past_savings += savings


@dataclass(slots=True)
class _Open:
    """A session, and how many calls are using it."""

    session: Session
    users: int
    is_over: bool = False


class fail_open:  # noqa: N801  used like a function
    """Logs an error in the translation or the view inside, so that the framework's own call after it is always made."""

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
    """Guard the imports of a framework: if it is missing, the error names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"focusctx.integrations.{extra.replace('-', '_')}", extra) from error


# ---------------------------------------------------------------------------------------------------------- translation


def as_written(messages: list[Message]) -> list[Message]:
    """Mark the model's turns in messages that an integration made: they stay whole or go.

    A shortened result can be put back into a framework's own message. A turn without some of its words or calls cannot.
    """
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "assistant":
            message[AS_WRITTEN] = True
    return messages


def places(given: Sequence[Message], view: Sequence[Message]) -> list[int | None]:
    """Return each view message's place in `given`; None for the line about missing steps.

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


def native_messages(
    messages: Sequence[Native],
    given: Sequence[Message],
    view: Sequence[Message],
    *,
    line: Callable[[str], Native],
    shortened: Callable[[Native, str], Native],
) -> list[Native]:
    """Return a framework's own messages for a view of `given`, which has one chat message for each of them.

    `line` makes a user's message of the line about missing steps, `shortened` a copy of a result with another text.
    """
    sent: list[Native] = []
    for chat, place in zip(view, places(given, view), strict=True):
        if place is None:
            sent.append(line(chat["content"]))
        else:
            sent.append(messages[place] if chat is given[place] else shortened(messages[place], chat["content"]))
    return sent


@dataclass(frozen=True, slots=True)
class ChatPiece:
    """Parts of one message that stay or go together, as a chat message of their own.

    For frameworks whose messages are lists of parts: a tool's result and the user's words can be in one message.
    """

    place: int
    """Index of the message."""
    parts: tuple[int, ...]
    """Indices of the parts in it."""
    chat: Message


Kept: TypeAlias = dict[int | None, dict[int, str | None]]
"""Parts to send, by message; each with the text that replaces it, or None. The line about missing steps is at None."""


def kept(pieces: Sequence[ChatPiece], view: Sequence[Message]) -> Kept:
    """Return the messages to send, in order, for a view of the pieces' chat messages."""
    messages: Kept = {}
    for chat, found in zip(view, places([piece.chat for piece in pieces], view), strict=True):
        if found is None:
            messages[None] = {0: str(chat["content"])}
            continue
        piece = pieces[found]
        text = None if chat is piece.chat else str(chat["content"])
        messages.setdefault(piece.place, {}).update(dict.fromkeys(piece.parts, text))
    return {place: dict(sorted(parts.items())) for place, parts in messages.items()}


def is_whole(parts: dict[int, str | None], count: int) -> bool:
    """Return True if a message of `count` parts is sent unchanged."""
    return len(parts) == count and not any(parts.values())


# ------------------------------------------------------------------------------- models that frameworks copy and pickle


Changed: TypeAlias = Callable[[type[Any]], type[Any]]
"""Makes a subclass of a class; a function of a module, so that it can be found again when an object is unpickled."""

_subclasses: dict[tuple[Changed, type[Any]], type[Any]] = {}


def subclass(changed: Changed, kind: type[Any]) -> type[Any]:
    """Return the subclass that `changed` makes of a class: always the same one, under the name of the class.

    An object of it is still of its framework's class, and copied and pickled as one.
    """
    if (changed, kind) not in _subclasses:
        _subclasses.setdefault((changed, kind), _made_subclass(changed, kind))
    return _subclasses[changed, kind]


def _made_subclass(changed: Changed, kind: type[Any]) -> type[Any]:
    made: Any = changed(kind)
    made.__name__, made.__qualname__, made.__module__ = kind.__name__, kind.__qualname__, kind.__module__

    def reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
        _, (_, *more), *rest = super(made, self).__reduce_ex__(protocol)
        return _new, (changed, kind, *more), *rest

    made.__reduce_ex__ = reduce
    found: type[Any] = made
    return found


def _new(changed: Changed, kind: type[Any], *more: Any) -> Any:
    made = subclass(changed, kind)
    return made.__new__(made, *more)


def attach(model: Any, plug: Plug) -> None:
    """Set the private attribute `_focusctx` of a pydantic model."""
    private = getattr(model, "__pydantic_private__", None) or {}
    object.__setattr__(model, "__pydantic_private__", {**private, "_focusctx": plug})
