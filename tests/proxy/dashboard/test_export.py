"""The export: events and savings of all sessions as one JSON document."""

import json
import re

from focusctx import Focus
from helpers.raw_http import exchange, proxy, raw_upstream
from helpers.served import CHAT, history

ADMIN = "an admin token of more than 16 characters"


async def test_everything_in_numbers(nothing_left: None) -> None:
    async with raw_upstream() as up, proxy(up.url, focus=Focus("offline", budget=60)) as (served, url):
        empty = json.loads((await exchange(url, "GET", "/ui/api/export")).body)
        for model in ("gpt-4.1", "gpt-5"):
            for steps in (40, 41):
                body = history(steps).replace(b'"m"', f'"{model}"'.encode())
                await exchange(url, "POST", CHAT, [("authorization", f"Bearer sk-{model}")], body)
        answer = await exchange(url, "GET", "/ui/api/export")
        sums = served.metrics.sums
    assert empty["sessions"] == []
    assert answer["content-type"] == "application/json"
    found = json.loads(answer.body)
    assert {session["model"] for session in found["sessions"]} == {"gpt-4.1", "gpt-5"}
    for session in found["sessions"]:
        (event,) = session["log"]
        assert event["happened"]
        assert event["before"] > event["after"]
        assert len(session["steps"]) == 2
    assert found["totals"]["events"] == 2
    assert found["totals"]["saved"] == sums.saved == sum(one["tokens_saved"] for one in found["sessions"]) > 0
    assert found["about"]["budget"] == 60
    assert not re.search(r"thought \d|result \d|Do the task", answer.body.decode()), "no text of a conversation"


async def test_only_admins_may_have_it(nothing_left: None) -> None:
    async with raw_upstream() as up, proxy(up.url, admin_token=ADMIN) as (_, url):
        assert (await exchange(url, "GET", "/ui/api/export")).status == 403
        shown = [("authorization", f"Bearer {ADMIN}")]
        assert (await exchange(url, "GET", "/ui/api/export", shown)).status == 200
