"""Runs through a focusctx proxy: read from it afterwards what it sent and saved.

The agent sends its whole history, so a record alone knows nothing of what the proxy left out. The proxy's dashboard
does: its JSON is read once a run is over.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import aiohttp

from focusctx.drafts.http import open_session
from focusctx.errors import BenchError

from .record import Record

_TOKEN = "x-focusctx-token"
_ADMIN_TOKEN = "FOCUSCTX_ADMIN_TOKEN"


async def with_savings(record: Record, url: str, run: str) -> Record:
    """Return the record with what the proxy sent and saved in that run, or with the reason why it does not say."""
    try:
        seen = await read_run(url, run)
    except BenchError as error:  # the run itself went well, and may have taken an hour
        return replace(record, proxy={"problem": str(error)})
    # A request that was repeated counts once.
    sent = [list(same)[-1][1] for _, same in groupby(seen["steps"], key=lambda step: step[0])]
    steps = record.steps
    if len(sent) == len(steps):
        steps = tuple(replace(step, input_tokens=tokens) for step, tokens in zip(steps, sent, strict=True))
    return replace(record, steps=steps, proxy=seen)


async def check_proxy(url: str) -> None:
    """Raise BenchError if the proxy does not show its sessions: better before a run than after it."""
    async with open_session() as http:
        answer = await _get(http, url, "")
    if not isinstance(answer, dict) or "sessions" not in answer:
        raise BenchError(f"{url} is no focusctx proxy: it has no list of sessions")


async def read_run(url: str, run: str) -> dict[str, Any]:
    """Return requests, events, tokens and the draft's usage of one run, as the proxy's dashboard has them."""
    async with open_session() as http:
        get = partial(_get, http, url)
        lines = [line for line in (await get(""))["sessions"] if line.get("run") == run]
        if not lines:
            raise BenchError(f"the proxy at {url} knows nothing of this run")
        # A request that was sent again while the first was under way opens a second, shorter conversation.
        main = max(lines, key=lambda line: line["requests"])["id"]
        session = await get(f"/{main}")
        events = [await get(f"/{main}/events/{entry['number']}") for entry in session["log"]]
    usages = [event["result"]["usage"] for event in events if event["result"]]  # not of sketches that no event used
    return {
        "session": main,
        "requests": session["requests"],
        "events": session["events"],
        "tokens_saved": session["tokens_saved"],
        "money": session["money"],
        "steps": [[step[1], step[2]] for step in session["steps"]],
        "log": [{k: event[k] for k in ("happened", "cause", "before", "after", "request")} for event in events],
        "draft": {name: sum(usage[name] for usage in usages) for name in ("requests", "input", "output")},
    }


async def _get(http: aiohttp.ClientSession, url: str, path: str) -> Any:
    target = f"{url.rstrip('/')}/ui/api/sessions{path}"
    token = os.environ.get(_ADMIN_TOKEN)
    try:
        async with http.get(target, headers={_TOKEN: token} if token else {}) as answer:
            if answer.status == 200:
                return await answer.json()
            hint = f": set {_ADMIN_TOKEN} to its admin token" if answer.status == 403 else ""
            raise BenchError(f"the proxy answered {target} with status {answer.status}{hint}")
    except (OSError, TimeoutError, ValueError, aiohttp.ClientError) as error:
        raise BenchError(f"no focusctx proxy answers at {url}: {error or type(error).__name__}") from error
