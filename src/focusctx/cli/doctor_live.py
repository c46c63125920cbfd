"""Checks of `focusctx doctor` that need an answer: from the draft, the upstreams, the store, the port."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import aclosing
from typing import TYPE_CHECKING

import aiohttp

from ..egress import proxy_for
from ..errors import ConfigError, DraftError, DraftRefused, FocusError
from ..session.events import FREE, Economics
from ..session.stores import store_from
from ..types import History, Prompt
from .doctor import Check

if TYPE_CHECKING:
    from ..compressor import Focus
    from ..proxy.settings import Settings
    from ..proxy.upstream import Upstream

_PATIENCE = 10.0
"""Seconds that each check may take."""
_UNREACHABLE = "check the address, that the server runs, and HTTPS_PROXY and NO_PROXY"


async def live_checks(focus: Focus, settings: Settings | None) -> list[Check]:
    """Make all checks at the same time."""
    asked = [_draft(focus)]
    if settings is None:
        no_upstream = Check("upstreams", None, "none named", "add --upstream NAME to check that it answers")
        return [*await asyncio.gather(*asked), first_event(focus), no_upstream]
    asked += [_upstream(upstream) for upstream in settings.upstreams]
    asked += [_store(settings), _port(settings)]
    draft, *others = await asyncio.gather(*asked)
    return [draft, first_event(focus), *others]


async def _draft(focus: Focus) -> Check:
    """Ask a draft that is a server for a few words; one that runs here would have to be loaded first."""
    name = focus.draft.name
    if name == "offline":
        return Check("draft", True, "offline: needs no model, no key and no network")
    if getattr(focus.draft, "endpoint", None) is None:
        said = f"{name}: runs on this machine and was not loaded"
        return Check("draft", None, said, f"try it with `focusctx demo --draft {name}`")
    prompt = Prompt("Answer with the word OK.", "Are you there?", History(goal="", spans=()), max_tokens=16)
    try:
        async with asyncio.timeout(_PATIENCE), aclosing(focus.draft.sample(prompt, 1)) as replies:  # type: ignore[type-var]
            async for _ in replies:
                return Check("draft", True, f"{name}: answers")
    except TimeoutError:
        return Check("draft", False, f"{name}: no answer within {_PATIENCE:.0f} s", _UNREACHABLE)
    except DraftRefused as error:
        return Check("draft", False, f"{name}: {_first_line(error)}", "check the model's name and the key")
    except DraftError as error:
        return Check("draft", False, f"{name}: {_first_line(error)}", _UNREACHABLE)
    return Check("draft", False, f"{name}: it answered with nothing", "choose another model")


def first_event(focus: Focus) -> Check:
    """Estimate the cost of compressing a history that has just passed the budget."""
    config = focus.config
    economics = Economics(FREE, focus, ahead=1.0, growth=0.0, only_if_it_pays=False)
    cost = economics.sketches(config.budget)
    what = f"{config.rollouts} sketches of a history of {config.budget:,} tokens"
    if cost is None:
        hint = "name its price in a file of your own: FOCUSCTX_PRICES=prices.toml"
        return Check("a first event", None, f"{what}: cost unknown, {focus.draft.name} has no known price", hint)
    words = "cost nothing" if cost == 0 else f"cost about {cost:.4f} USD"
    return Check("a first event", None, f"{what} {words}")


async def _upstream(upstream: Upstream) -> Check:
    """Ask a provider for its models. Any answer shows that it is there; only a key held here can be refused."""
    name, host = f"upstream {upstream.name}", upstream.host
    headers = {"anthropic-version": "2023-06-01"} if upstream.name == "anthropic" else {}
    if upstream.key:
        headers |= {"authorization": f"Bearer {upstream.key}", "x-api-key": upstream.key}
    url = upstream.at("/v1/models")
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_PATIENCE)) as http,
            http.get(url, headers=headers, proxy=proxy_for(url), allow_redirects=False) as answer,
        ):
            status = answer.status
    except TimeoutError:
        return Check(name, False, f"{host}: no answer within {_PATIENCE:.0f} s", _UNREACHABLE)
    except aiohttp.ClientConnectorCertificateError as error:
        return Check(name, False, f"{host}: {error.certificate_error}", "SSL_CERT_FILE names certificates to trust")
    except (aiohttp.ClientError, OSError, ConfigError) as error:
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        return Check(name, False, f"no answer from {host}: {cause or type(cause).__name__}", _UNREACHABLE)
    if status in (401, 403):
        if upstream.key:
            return Check(name, False, f"{host} refuses the key that the proxy holds ({status})", "check the key")
        return Check(name, True, f"{host} answers; agents send their own key")
    if status >= 500:
        return Check(name, False, f"{host} answers with {status}", "the provider has a problem: try again later")
    return Check(name, True, f"{host} answers")


async def _store(settings: Settings) -> Check:
    try:
        store = store_from(settings.store_url)
        try:
            await asyncio.wait_for(asyncio.to_thread(store.version, "", ""), _PATIENCE)
        finally:
            store.close()
    except (FocusError, OSError, TimeoutError) as error:
        said = _first_line(error) or f"no answer within {_PATIENCE:.0f} s"
        return Check("store", False, said, "--store names another: sqlite:///FILE, redis://HOST, memory")
    return Check("store", True, "answers")


async def _port(settings: Settings) -> Check:
    """See whether the proxy could listen, or which program does so already."""
    name, where = "port", f"{settings.host}:{settings.port}"
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            if os.name == "posix":
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((settings.host, settings.port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE and await _is_focusctx(settings):
            return Check(name, None, f"{where} is in use by a focusctx proxy already")
        return Check(name, False, f"{where} cannot be used: {error.strerror or error}", "--listen chooses another")
    return Check(name, True, f"{where} is free")


async def _is_focusctx(settings: Settings) -> bool:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "https" if settings.tls_cert else "http"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as http,
            http.get(f"{scheme}://{host}:{settings.port}/readyz", ssl=False) as answer,
        ):
            return "store" in await answer.json()
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return False


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
