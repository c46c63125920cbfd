"""The work of `focusctx bench relay`: serve a model whose answers readers write, and be such a reader."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from focusctx.cli.command import interruptible

from ..relay import call_relay, serving


def serve(arguments: argparse.Namespace) -> int:
    async def run() -> None:
        async with serving(arguments.log, arguments.port, arguments.patience) as url:
            sys.stderr.write(f"relay on {url}/ARM/v1, log in {arguments.log}\n")
            await asyncio.Event().wait()

    with interruptible():
        asyncio.run(run())
    return 0


def take(arguments: argparse.Namespace, *, follows: bool = False) -> int:
    about = {"reader": arguments.reader, "kind": arguments.kind, "arm": arguments.arm}
    found = call_relay(arguments.port, "take", {**about, "follows": follows, "wait": arguments.wait})
    if found:
        sys.stdout.write(f"[{found['id']}]\n{found['text']}\n[answer {found['id']}]\n")
    else:
        sys.stdout.write("NOTHING YET: take again, or stop if the run is over.\n")
    return 0


def reply(arguments: argparse.Namespace) -> int:
    body = {"reader": arguments.reader, "id": arguments.id, "text": sys.stdin.read()}
    if problem := call_relay(arguments.port, "reply", body).get("problem"):
        sys.stdout.write(f"NOT ACCEPTED: {problem}\n")
        return 1
    return take(arguments, follows=arguments.kind == "agent")


def status(arguments: argparse.Namespace) -> int:
    sys.stdout.write(json.dumps(call_relay(arguments.port, "status", {}), indent=2) + "\n")
    return 0
