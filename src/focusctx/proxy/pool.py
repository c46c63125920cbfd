"""Connections to the providers, kept for a while for the next request."""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64encode
from functools import cache, lru_cache
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from .answer import NoAnswer
from .connection import Connection
from .settings import is_loopback

_PATIENCE = 30.0
"""Seconds until a connection must stand."""
_KEPT = 15.0
"""Seconds that one is kept idle; many providers close it themselves after a minute, some after five seconds."""
_NEXT_ADDRESS = 0.25
"""Seconds after which the next of a host's addresses is tried, too."""
_PORTS = {"http": 80, "https": 443}


class Place(NamedTuple):
    """Where to connect to."""

    host: str
    port: int
    tls: bool
    name: str
    """As the header `Host` has it."""

    @classmethod
    def of(cls, url: str) -> Place:
        parts = urlsplit(url)
        host, usual = parts.hostname or "", _PORTS[parts.scheme]
        port = parts.port or usual
        name = _with_port(host, port if port != usual else None)
        return cls(host, port, parts.scheme == "https", name)


class Way(NamedTuple):
    """How a provider is reached: directly, or through the proxy that the environment names."""

    provider: Place
    proxy: Place | None = None
    authorization: str = ""
    """What the proxy wants to see."""

    @property
    def is_forwarded(self) -> bool:
        """Whether the proxy reads the requests; a tunnel, it does not."""
        return self.proxy is not None and not self.provider.tls


@lru_cache(maxsize=256)
def way_to(url: str) -> Way:
    """With the proxy that the environment names for this address (HTTPS_PROXY, NO_PROXY), as agents would use it."""
    provider = Place.of(url)
    proxy = getproxies().get("https" if provider.tls else "http", "")
    usable = proxy.startswith(("http://", "https://")) and not is_loopback(provider.host)
    if not usable or proxy_bypass(provider.host):
        return Way(provider)
    parts = urlsplit(proxy)
    if parts.username is None:
        return Way(provider, Place.of(proxy))
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Way(provider, Place.of(proxy), f"Basic {b64encode(user.encode()).decode()}")


class Pool:
    """As many connections as there are requests at once."""

    def __init__(self) -> None:
        self._idle: dict[Way, list[tuple[float, Connection]]] = {}
        """Each with the time until which it is kept; the newest last."""
        self._next_look: asyncio.TimerHandle | None = None

    def take(self, way: Way) -> Connection | None:
        """One that was used before; None where there is none."""
        idle = self._idle.get(way)
        while idle:
            _, connection = idle.pop()
            if connection.is_free:
                return connection
            connection.close()
        return None

    async def connect(self, way: Way) -> Connection:
        """A new one."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await (_connect(way.provider) if way.proxy is None else _connect_through(way.proxy, way))
        except TimeoutError:
            raise NoAnswer("no connection in time", 504) from None
        except OSError as error:
            raise NoAnswer(f"no connection to {(way.proxy or way.provider).host}: {_why(error)}") from error

    def give(self, way: Way, connection: Connection) -> None:
        """One that is needed no more."""
        if not connection.is_free:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        self._idle.setdefault(way, []).append((loop.time() + _KEPT, connection))
        if self._next_look is None:
            self._next_look = loop.call_later(_KEPT, self._look)

    def close(self) -> None:
        """Of those that are in use, whoever uses them lets go."""
        if self._next_look is not None:
            self._next_look.cancel()
        for idle in self._idle.values():
            for _, connection in idle:
                connection.close()
        self._idle.clear()

    def _look(self) -> None:
        """Let go of those that lay idle for too long."""
        loop = asyncio.get_running_loop()
        for way, idle in list(self._idle.items()):
            kept = []
            for until, connection in idle:
                if until > loop.time() and connection.is_free:
                    kept.append((until, connection))
                else:
                    connection.close()
            self._idle[way] = kept
            if not kept:
                del self._idle[way]
        soonest = min((idle[0][0] for idle in self._idle.values()), default=None)
        self._next_look = None if soonest is None else loop.call_at(soonest, self._look)


async def _connect(place: Place) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(
        Connection,
        place.host,
        place.port,
        ssl=_tls() if place.tls else None,
        happy_eyeballs_delay=_NEXT_ADDRESS,
    )
    return connection


async def _connect_through(proxy: Place, way: Way) -> Connection:
    connection = await _connect(proxy)
    if way.is_forwarded:
        return connection
    to = _with_port(way.provider.host, way.provider.port)
    authorization = f"proxy-authorization: {way.authorization}\r\n" if way.authorization else ""
    try:
        answer = await connection.ask(f"CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n{authorization}\r\n".encode())
        if answer.status != 200:
            raise NoAnswer(f"the proxy at {proxy.host} opens no way to it: {answer.status} {answer.reason}")
        await connection.secure(_tls(), way.provider.host)
    except BaseException:
        connection.close()
        raise
    return connection


def _why(error: OSError) -> str:
    """The system's words where it has some; asyncio's are about its own calls."""
    if isinstance(error, ssl.SSLError) or error.errno is None or error.errno < 0:
        return str(error)
    return os.strerror(error.errno)


def _with_port(host: str, port: int | None) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"


@cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
