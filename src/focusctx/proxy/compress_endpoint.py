"""`POST /v1/compress`: messages in, messages out, for programs that call their provider themselves.

Without a conversation, each request is compressed by itself, as with `focusctx compress`. With one, decisions last, as
they do for forwarded requests. Only a malformed request is refused: if compression fails, the messages come back
unchanged, and the result says why.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from ..compressor import Focus, untouched
from ..config import FocusSettings
from ..errors import ConfigError, FocusError, MessageError
from ..pipeline.outline import shown_passages
from ..pipeline.split import check_list
from ..serialise import encode
from ..session.conversation import View
from ..session.session import Session
from ..types import Message, Result
from ..wire import wire_named
from .access import Access, Refused, refusal, tenant_of
from .compression import WorkerThreads
from .guarded_store import GuardedStore
from .metrics import Metrics
from .request import LARGE, MESSAGES, decode, has_too_many_values, read_up_to, unpack, unpacked_limit
from .settings import Budgets, Settings

_log = logging.getLogger("focusctx.proxy")

PATH = "/v1/compress"
_NAME = "compress"
"""Name under which these requests are counted, and their conversations kept apart from those of providers."""
_SESSIONS = 256
"""Most sessions held; one more closes the one used longest ago."""
_FOCUSES = 64
"""Most combinations of budget and target that are held."""
_AT_ONCE = 8
"""Most requests without a conversation that are compressed at the same time: each holds a thread."""
_DETAILS = frozenset({"messages", "history", "sketches", "decisions"})
"""Fields of a result that can be as long as the history."""

T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request."""

    messages: list[Any]
    format: str | None = None
    """A wire format; recognised by the messages if it is not given."""
    budget: int | None = None
    target: float | msgspec.UnsetType | None = msgspec.UNSET
    model: str = ""
    """The agent's model, whose prices tell whether an event pays."""
    conversation: str | bool | None = None
    """The caller's name for the conversation; true to recognise it by its messages."""
    details: bool = True
    """False leaves the fields out of the result that can be as long as the history."""
    system: Any = None
    instructions: Any = None
    tools: Any = None


@dataclass(frozen=True, slots=True)
class _Scope:
    """Whose decisions, and under which settings."""

    tenant: str
    model: str
    focus: Focus


class CompressEndpoint:
    """Answers requests to `/v1/compress`."""

    def __init__(self, store: GuardedStore, access: Access, metrics: Metrics) -> None:
        self._store = store
        self._access = access
        self._metrics = metrics
        self._focuses: OrderedDict[tuple[Focus, Any, Any], Focus] = OrderedDict()
        self._sessions: OrderedDict[_Scope, Session] = OrderedDict()
        self._threads = WorkerThreads()
        self._drafting = ThreadPoolExecutor(_AT_ONCE, "focusctx compress")

    def use(self, budgets: Budgets, settings: Settings) -> None:
        """Work with these settings from the next request on."""
        self._budgets = budgets
        self._settings = settings

    async def close(self) -> None:
        self._threads.close()
        self._drafting.shutdown(wait=False, cancel_futures=True)
        for session in self._sessions.values():
            await asyncio.to_thread(session.close)

    async def answer(self, request: web.Request) -> web.Response:
        caller = await self._access.admit(request, uses_own_key=True)  # a key of the proxy pays for the draft
        if request.method != "POST":
            return refusal(405, f"send messages to {PATH} with POST", [("allow", "POST")])
        with self._metrics.request(_NAME, caller) as outcome:
            try:
                response = await self._answer(request, caller)
            except Refused as refused:
                response = refused.response()
            outcome.status = response.status
            return response

    async def _answer(self, request: web.Request, caller: str) -> web.Response:
        started = time.perf_counter()
        body = await self._body(request)
        asked = await self._threads.run(len(body), partial(_asked, body))
        try:
            tenant = tenant_of(request.headers, _NAME, caller)
            result = await self._compressed(asked, tenant, caller, len(body))
        except Refused:
            raise
        except MessageError as error:
            raise Refused(400, str(error)) from error
        except FocusError as error:
            result = _unchanged(asked, str(error), started)
        except Exception:
            _log.exception("messages returned unchanged, because of an error in focusctx: please report it")
            result = _unchanged(asked, "an error in focusctx, which is in its log: please report it", started)
        if self._settings.dry_run and result.compressed:
            warning = "this is a dry run: the messages are returned unchanged"
            result = replace(result, messages=asked.messages, warnings=(*result.warnings, warning))
        written = await self._threads.run(len(body), partial(_written, result, details=asked.details))
        return web.Response(body=written, content_type="application/json")

    async def _body(self, request: web.Request) -> bytes:
        limit = self._settings.body_limit
        too_long = Refused(413, f"the request is longer than {limit:,} bytes (body_limit)")
        if (request.content_length or 0) > limit:
            raise too_long
        body, is_whole = await read_up_to(request.content, limit)
        if not is_whole or len(body) > limit:
            raise too_long
        if encoding := request.headers.get("content-encoding"):
            most = unpacked_limit(len(body), limit)
            unpacked = await self._threads.run(most, partial(unpack, body, encoding, most))
            if unpacked is None:
                raise Refused(
                    400, f"the request cannot be unpacked as {encoding!r}, or is too long when it is unpacked"
                )
            body = unpacked
        return body

    async def _compressed(self, asked: Asked, tenant: str, caller: str, size: int) -> Result:
        check_list(asked.messages)
        try:
            if asked.format is not None:
                wire_named(asked.format)  # the error names the known ones
            focus = self._focus_for(asked, self._budgets.focus_for(caller, asked.model, _NAME))
        except ConfigError as error:
            raise Refused(400, str(error)) from error
        if not asked.conversation:
            work = partial(focus.compress, asked.messages, format=asked.format)
            return await asyncio.wrap_future(self._drafting.submit(work))
        started = time.perf_counter()
        view = await self._session(_Scope(tenant, asked.model, focus))._aview(
            asked.messages,
            format=asked.format,
            id=asked.conversation if isinstance(asked.conversation, str) else None,
            on_thread=partial(self._threads.on_thread, size) if size > LARGE else None,
        )
        return _result_of(view, asked.messages, started)

    def _focus_for(self, asked: Asked, usual: Focus) -> Focus:
        changes: FocusSettings = {}
        if asked.budget is not None:
            changes["budget"] = asked.budget
        if asked.target is not msgspec.UNSET:
            changes["target"] = asked.target
        if not changes:
            return usual
        return _kept(
            self._focuses,
            (usual, asked.budget, asked.target),
            lambda: Focus(usual.draft, config=usual.config.with_changes(**changes)),
            _FOCUSES,
        )

    def _session(self, scope: _Scope) -> Session:
        session = _kept(self._sessions, scope, lambda: self._new_session(scope), _SESSIONS + 1)
        if len(self._sessions) > _SESSIONS:
            _, oldest = self._sessions.popitem(last=False)
            self._drafting.submit(oldest.close)
        return session

    def _new_session(self, scope: _Scope) -> Session:
        # Without recall: the caller's model is not offered the tool, so a view must not speak of it.
        return scope.focus.session(
            self._store,
            tenant=scope.tenant,
            model=scope.model,
            only_if_it_pays=self._settings.only_if_it_pays,
            frozen=True,
        )


def _kept(held: OrderedDict[Any, T], key: Any, make: Callable[[], T], most: int) -> T:
    """Return the value held for a key, or make it; hold the ones used last."""
    if key not in held:
        held[key] = make()
        if len(held) > most:
            held.popitem(last=False)
    held.move_to_end(key)
    return held[key]


def _asked(body: bytes) -> Asked:
    if has_too_many_values(body):
        raise Refused(413, "the request has too many JSON values")
    try:
        content = decode(body)
    except MessageError as error:
        raise Refused(400, f"the request is not JSON that can be read: {error}") from error
    if not isinstance(content, dict):
        raise Refused(400, 'the request must be a JSON object such as {"messages": […]}')
    try:
        asked = msgspec.convert(content, Asked)
    except msgspec.ValidationError as error:
        known = ", ".join(Asked.__struct_fields__)
        raise Refused(400, f"the request is not understood: {error} (known fields: {known})") from error
    if len(asked.messages) > MESSAGES:
        raise Refused(413, f"more than {MESSAGES:,} messages in one request")
    return asked


def _unchanged(asked: Asked, why: str, started: float) -> Result:
    return replace(untouched(asked.messages, (), 0, started), failure=why)


def _result_of(view: View, messages: list[Message], started: float) -> Result:
    """Return the current state of a conversation as a result, with the evidence if this step brought an event."""
    conversation = view.conversation
    reader, left_out = conversation.reader, conversation.left_out
    unknown = reader.unknown()
    if unknown and not reader.understands:
        raise MessageError(unknown)
    full, sent = conversation.size
    last = conversation.events[-1] if conversation.events else None
    event = last if last is not None and last.span == reader.newest else None
    evidence = event.result if event and event.result else Result(messages, compressed=False)
    warnings = [unknown] if unknown else []
    if event is not None and not event.happened and event.cause != "draft":
        warnings.append(f"nothing new was left out: {event.why}")
    return replace(
        evidence,
        messages=list(view),
        compressed=bool(left_out.spans),
        kept=tuple(index for index in range(1, reader.newest + 1) if index not in left_out.spans),
        dropped=tuple(sorted(left_out.gone)),
        shortened={index: shown_passages(parts) for index, parts in sorted(left_out.shown.items())},
        tokens_before=full,
        tokens_after=sent,
        latency=time.perf_counter() - started,
        failure=event.why if event is not None and event.cause == "draft" and not event.happened else None,
        warnings=(*evidence.warnings, *warnings),
    )


def _written(result: Result, *, details: bool) -> bytes:
    names = [field.name for field in fields(result) if field.compare and (details or field.name not in _DETAILS)]
    try:
        described = {name: encode(getattr(result, name)) for name in names}
        return json.dumps({"messages": encode(result.messages), "result": described}, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refused(400, "a message holds a number that JSON cannot express, or is nested too deep") from error
