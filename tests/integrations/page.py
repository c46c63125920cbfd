"""Runs the Python on a page of the docs, from top to bottom, with a scripted provider in the place of the real one."""

import inspect
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from helpers.pages import run_blocks
from helpers.provider import Call, Provider, Received, Say


def run_page(page: Path, calls: int, say: Callable[[Received, int], Say] | None = None) -> list[Received]:
    """Return the requests that the provider got.

    The model calls the first tool it is offered `calls` times, then answers; `say` is another model.
    """
    with Provider(lambda received: (say or _say)(received, calls)) as provider:
        with patch.dict(os.environ, _pointing_to(provider.url)):
            names = run_blocks(page)
        assert not provider.rejected
        if hasattr(client := names.get("client"), "close") and not inspect.iscoroutinefunction(client.close):
            client.close()  # pages leave that to the end of the program
        return list(provider.received)


def _pointing_to(url: str) -> dict[str, str]:
    keys = {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}
    return {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url, **keys}


def _say(received: Received, calls: int) -> Say:
    """The tools number what they return, so that it shows how far the work has come."""
    done = max([0, *map(int, re.findall(r"Part (\d+):", received.raw.decode()))])
    if done >= calls:
        return Say("It fails because of part 7.")
    name, schema = _first_tool(received.body)
    arguments = dict.fromkeys(schema.get("properties", {}), done + 1)
    return Say(f"Part {done + 1} is next.", (Call(name, arguments),))


def _first_tool(body: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    tool = body["tools"][0]
    tool = tool.get("function", tool)
    return tool["name"], tool.get("parameters", tool.get("input_schema"))
