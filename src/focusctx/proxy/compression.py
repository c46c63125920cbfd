"""A request on its way up: its history, if it has one, goes through the session of its conversation.

Whatever goes wrong here, the request goes up as it came.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from ..errors import FocusError, MessageError
from ..once import Once
from ..session.events import SessionEvent
from ..session.session import OnThread
from ..wire.held import HELD_BY, is_held
from .body import Fields, Reading, read, spell, write_fields, write_list
from .caller import run_of, tenant_of
from .encoding import unpack
from .growing import Bodies, Body, read_body
from .last import MUCH
from .limits import Work, unpacked_limit
from .recall.request import offer
from .sessions import Key, Live, Sessions, Step, root_of

_log = logging.getLogger("focusctx.proxy")

_ALIASES = 1000
"""Ids of answers that are remembered."""


class Route(NamedTuple):
    """Where a history stands in a request."""

    format: str
    field: str
    counts: bool = False
    """Whether the request only asks how many tokens it has."""


_ROUTES = {
    "/chat/completions": Route("chat_completions", "messages"),
    "/responses": Route("responses", "input"),
    "/v1/messages": Route("anthropic", "messages"),
    "/v1/messages/count_tokens": Route("anthropic", "messages", counts=True),
}
USUAL_PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


def route_of(method: str, path: str) -> Route | None:
    if method != "POST":
        return None
    return next((route for end, route in _ROUTES.items() if path.endswith(end)), None)


class Shrunk(NamedTuple):
    """A request as it goes up."""

    body: bytes
    offered: tuple[Live, Fields] | None = None
    """Where the model was offered the recall tool: whose steps it recalls, and what the request is made of."""


class Compression:
    """`watch` is told of every step, with what happened in it."""

    def __init__(
        self,
        sessions: Sessions,
        watch: Callable[[Live, Step, list[SessionEvent]], None],
        *,
        limit: int,
        recall: bool,
        dry_run: bool,
    ) -> None:
        self._sessions = sessions
        self._watch = watch
        self._once = Once(_log)
        self._limit = limit
        self._recall = recall and not dry_run
        self._dry_run = dry_run
        self._aliases: dict[str, str] = {}
        self._bodies = Bodies()
        self._work = Work()

    def close(self) -> None:
        self._work.close()

    async def shrink(self, route: Route, upstream: str, headers: Mapping[str, str], body: bytes) -> Shrunk | None:
        """The request to send instead; None for the one that came."""
        started = time.perf_counter()
        try:
            plain = await self._unpacked(body, headers.get("content-encoding"))
            tenant = tenant_of(headers, upstream)
            found = await self._read(plain, route.field, tenant) if plain else None
            if found is None:
                return None
            if not isinstance(found, Body) or not found.spelled or _is_elsewhere(found.fields):
                return self._renamed(found)
            key = Key(tenant, upstream, route.format, _model(found.fields), run_of(headers))
            root = await self._work.run(len(body), partial(root_of, found.spelled))
            if route.counts:
                return await self._count(key, root, route, found)
            live = self._sessions.open(key, root, found.spelled)
            return self._put_together(live, route, found, await self._view(live, route, found.spelled, started))
        except MessageError as error:
            self._once.warning(f"request passed on as it came: {error}")
        except FocusError as error:
            _log.warning("request passed on as it came: %s", error)
        except Exception:
            _log.exception("request passed on as it came")
        return None

    async def _unpacked(self, body: bytes, encoding: str | None) -> bytes | None:
        if not encoding:
            return body
        limit = unpacked_limit(len(body), self._limit)
        return await self._work.run(limit, partial(unpack, body, encoding, limit))

    async def _read(self, body: bytes, field: str, tenant: str) -> Body | Fields | None:
        """Read the request by the tenant's last one. Only reading is done on a thread: `Bodies` is not for several."""
        last = self._bodies.take(body, field, tenant)
        more = len(body) - len(last.start) if last else len(body)
        found = await self._work.run(more, partial(read_body, body, field, last))
        self._bodies.remember(body, found, tenant)
        return found

    def _thread_for(self, reading: Reading) -> OnThread | None:
        """A thread to read and count many new messages on; None where there are few."""
        return partial(self._work.on_thread, reading.new) if reading.new > MUCH else None

    def heed(self, alias: tuple[str, str] | None) -> None:
        """An answer's id as the agent knows it, and as the provider does."""
        if alias is not None:
            self._aliases[alias[0]] = alias[1]
            while len(self._aliases) > _ALIASES:
                del self._aliases[next(iter(self._aliases))]

    async def _view(self, live: Live, route: Route, spelled: list[bytes], started: float) -> list[bytes] | None:
        """The messages to send instead; None for all of them."""
        last = live.last
        if last.goes_on(spelled):
            self._sessions.make_room(live)
            self._note(live, Step(time.time(), *last.tokens, time.perf_counter() - started, exact=False))
        else:
            with live.using():
                reading = last.begin(spelled)
                self._sessions.make_room(live)
                view = await live.session._aview(
                    reading.messages,
                    format=route.format,
                    id=live.key.id,
                    after=last.unseen,
                    continues=live.conversation,
                    name=live.id,
                    on_thread=self._thread_for(reading),
                )
                last.end(reading, view)
            self._note(live, Step(time.time(), *view.conversation.size, time.perf_counter() - started))
        return None if self._dry_run else last.view

    def _note(self, live: Live, step: Step) -> None:
        live.steps.append(step)
        self._watch(live, step, live.news())

    def _put_together(self, live: Live, route: Route, found: Body, kept: list[bytes] | None) -> Shrunk | None:
        offered = offer(found.fields, route.format) if self._recall else None
        if offered is not None:
            history = write_list(found.spelled if kept is None else kept)
            fields = {**found.fields, **offered, route.field: history}
            return Shrunk(write_fields(fields), (live, fields))
        return None if kept is None else Shrunk(found.holding(kept))

    def _renamed(self, found: Body | Fields) -> Shrunk | None:
        """A request that goes on from an answer which the agent knows under another name than the provider."""
        shown = read((found.fields if isinstance(found, Body) else found).get("previous_response_id"))
        if not isinstance(shown, str) or shown not in self._aliases:
            return None
        named = {"previous_response_id": spell(self._aliases[shown])}
        return Shrunk(found.holding(found.spelled, named) if isinstance(found, Body) else write_fields(found | named))

    async def _count(self, key: Key, root: str, route: Route, found: Body) -> Shrunk | None:
        """How many tokens would go up, for a conversation that is known."""
        live = self._sessions.find(key, root, found.spelled)
        if live is None or not live.last.was_looked_at or self._dry_run:
            return None
        with live.using():
            reading = live.last.begin(found.spelled)  # read by the session as its last one, and nobody made that call
            view = await live.session._apeek(
                reading.messages,
                format=route.format,
                id=key.id,
                continues=live.conversation,
                name=live.id,
                on_thread=self._thread_for(reading),
            )
            live.last.conversation = view.conversation
        kept = reading.spell(view)
        return None if kept is None else Shrunk(found.holding(kept))


def _is_elsewhere(fields: Fields) -> bool:
    """True if the provider holds the history."""
    return is_held({field: read(fields.get(field)) for field in HELD_BY})


def _model(fields: Fields) -> str:
    model = read(fields.get("model"))
    return model if isinstance(model, str) else ""
