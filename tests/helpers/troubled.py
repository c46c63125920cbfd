"""What tests of faults send through the proxy, and what they see of it."""

import json
from typing import Any

from focusctx import Focus
from helpers.histories import Messages, run
from helpers.raw_http import Raw, exchange
from helpers.session_parts import Draft

CHAT = "/v1/chat/completions"


def eager(**settings: Any) -> Focus:
    return Focus(Draft(), budget=50, **settings)


def history(steps: int = 12, name: str = "") -> bytes:
    messages = run(steps)
    messages[1] = {"role": "user", "content": f"Do the task {name}."}
    return json.dumps({"model": "m", "messages": messages}).encode()


def sent(up: Raw, place: int = -1) -> Messages:
    messages: Messages = json.loads(up.got[place].body)["messages"]
    return messages


async def post(url: str, body: bytes) -> int:
    return (await exchange(url, "POST", CHAT, [("authorization", "Bearer k")], body)).status
