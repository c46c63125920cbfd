"""`focusctx bench relay`: serve a model whose answers readers write, and be such a reader."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from focusctx.cli.command import commands_of, interruptible, parser_for

_ABOUT = """\
An OpenAI-compatible server whose answers are written by readers who work from
a shell: strong models, or people. Programs ask http://127.0.0.1:PORT/ARM/v1,
where ARM is any name for what is compared.

Who reads an agent's conversation goes on with it until its beginning changes;
then it goes to somebody who has never seen the task. See docs/live.md.
"""
_REPLY = """\
Give the answer on standard input, then wait for the next request and print it.
An agent's answer is JSON, {"content": "...", "tool_calls": [{"name": "...",
"arguments": {...}}]}, of which either part may be missing; an answer to a
question (--kind once) is plain text.
"""


def add_relay(parts: Any) -> None:
    summary = "a model server whose answers are written by readers"
    commands = commands_of(parser_for(parts, "relay", summary, _ABOUT))
    serve = parser_for(commands, "serve", "start the server", _ABOUT)
    serve.add_argument("--log", type=Path, default=Path("relay.jsonl"), help="all requests and answers, to resume from")
    serve.add_argument("--patience", type=float, default=300.0, help="seconds until a request goes to another reader")
    serve.set_defaults(run=_serve)
    take = parser_for(commands, "take", "wait for a request and print it", "Wait for a request and print it.")
    take.set_defaults(run=_take)
    reply = parser_for(commands, "reply", "answer a request, and take the next", _REPLY)
    reply.add_argument("id", metavar="ID", help="of the request, as it was printed")
    reply.set_defaults(run=_reply)
    status = parser_for(commands, "status", "show what waits for whom", "Show open requests and readers.")
    status.set_defaults(run=_status)
    for parser in (take, reply):
        parser.add_argument("--reader", required=True, help="your name: each reader has one of their own")
        parser.add_argument("--kind", choices=("agent", "once"), default="agent", help="what to read (default: agent)")
        parser.add_argument("--arm", default="*", help="take requests of these arms only, such as '*-user'")
        parser.add_argument("--wait", type=float, default=540.0, help="seconds to wait for a request (default: 540)")
    for parser in (serve, take, reply, status):
        parser.add_argument("--port", type=int, default=9000, help="of the relay (default: 9000)")


def _serve(arguments: argparse.Namespace) -> int:
    import asyncio  # not above: all commands are loaded for `--help`

    from ..relay import serving

    async def run() -> None:
        async with serving(arguments.log, arguments.port, arguments.patience) as url:
            sys.stderr.write(f"relay on {url}/ARM/v1, log in {arguments.log}\n")
            await asyncio.Event().wait()

    with interruptible():
        asyncio.run(run())
    return 0


def _take(arguments: argparse.Namespace) -> int:
    return _next(arguments, follows=False)


def _reply(arguments: argparse.Namespace) -> int:
    from ..relay import call_relay

    text = sys.stdin.read()
    body = {"reader": arguments.reader, "id": arguments.id, "text": text}
    if problem := call_relay(_url(arguments), "reply", body).get("problem"):
        sys.stdout.write(f"NOT ACCEPTED: {problem}\n")
        return 1
    return _next(arguments, follows=arguments.kind == "agent")


def _status(arguments: argparse.Namespace) -> int:
    from ..relay import call_relay

    sys.stdout.write(json.dumps(call_relay(_url(arguments), "status", {}), indent=2) + "\n")
    return 0


def _next(arguments: argparse.Namespace, *, follows: bool) -> int:
    from ..relay import call_relay

    about = {"reader": arguments.reader, "kind": arguments.kind, "arm": arguments.arm}
    body = {**about, "follows": follows, "wait": arguments.wait}
    found = call_relay(_url(arguments), "take", body)
    if found:
        sys.stdout.write(f"[{found['id']}]\n{found['text']}\n[answer {found['id']}]\n")
    else:
        sys.stdout.write("NOTHING YET: take again, or stop if the run is over.\n")
    return 0


def _url(arguments: argparse.Namespace) -> str:
    return f"http://127.0.0.1:{arguments.port}"
