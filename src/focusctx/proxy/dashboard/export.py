"""Everything that the dashboard knows in numbers, as one JSON document: events and savings, no texts."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict

from aiohttp import web

from ... import __version__
from ..conversations import LiveConversations
from ..metrics import Sums
from .data import Json, whole_session
from .responses import HEADERS


async def send_export(
    request: web.Request, conversations: LiveConversations, sums: Sums, about: Json, callers: list[Json]
) -> web.StreamResponse:
    """Send the document session by session, so that many of them do not hold up other requests."""
    head = {
        "version": __version__,
        "time": time.time(),
        "about": about,
        "totals": {**asdict(sums), "net": sums.known_net},
        "callers": callers,
    }
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": "application/json"})
    response.headers["Content-Disposition"] = 'attachment; filename="focusctx-export.json"'
    await response.prepare(request)
    await response.write(f'{json.dumps(head)[:-1]}, "sessions": ['.encode())
    separator = ""
    for live in list(conversations):
        content = json.dumps({**whole_session(live), "restored": live.restored})
        await response.write(f"{separator}\n{content}".encode())
        separator = ","
        await asyncio.sleep(0)
    await response.write(b"\n]}\n")
    await response.write_eof()
    return response
