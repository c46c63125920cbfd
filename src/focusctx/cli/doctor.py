"""`focusctx doctor`: what is installed and set, whether draft, providers and store answer, what an event would cost."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import FocusError, MissingExtraError
from .doctor_checks import Check, installed, keys, programs
from .options import DRAFTS
from .parsers import parser_for
from .serve import UPSTREAMS, add_options, configured
from .terminal import printable

if TYPE_CHECKING:
    from ..compressor import Focus
    from ..proxy.settings import Settings

_DESCRIPTION = """\
Check what `focusctx serve` and `focusctx wrap` need. Give it the same options:

  focusctx doctor --upstream anthropic --draft openai:gpt-5-mini

It says which extras and agents are installed, which keys are set (by name,
never their value), whether the port is free, whether the store, the draft and
each upstream answer, and what a first event would cost. The draft is asked for
a few words, which costs what they cost; --draft offline asks nobody.

The exit code is 1 if something needs to be put right.
"""
_EPILOG = f"{UPSTREAMS}\n{DRAFTS}"
_MARKS = {True: "ok", False: "WRONG", None: ""}


def add_to(commands: Any) -> None:
    parser = parser_for(commands, "doctor", "check that serve and wrap have what they need", _DESCRIPTION, _EPILOG)
    add_options(parser, upstream="can be repeated", listen="127.0.0.1:8400")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    found: list[Check] = []
    for check in _checks(arguments):
        found.append(check)
        if not arguments.json:
            _say(check)
    ok = all(check.ok is not False for check in found)
    if arguments.json:
        content = {"version": __version__, "ok": ok, "checks": [asdict(check) for check in found]}
        sys.stdout.write(f"{json.dumps(content, indent=2)}\n")
    else:
        wrong = sum(check.ok is False for check in found)
        sys.stdout.write("\nEverything that was asked for is there.\n" if ok else f"\n{wrong} to be put right.\n")
    return 0 if ok else 1


def _checks(arguments: argparse.Namespace) -> Iterator[Check]:
    yield from installed()
    yield keys()
    yield programs()
    try:
        focus, settings = _configured(arguments)
    except FocusError as error:
        yield Check("settings", False, str(error).split("\n", 1)[0])
        return
    except OSError as error:
        yield Check("settings", False, f"{error.filename}: {error.strerror}")
        return
    yield from _live(focus, settings)


def _configured(arguments: argparse.Namespace) -> tuple[Focus, Settings | None]:
    """Return the compressor, and the proxy's settings if an upstream is named: a draft can be checked without one."""
    from .options import DEFAULTS, focus_from

    try:
        import aiohttp  # noqa: F401
        import msgspec  # noqa: F401
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("the proxy", "proxy") from error
    if not arguments.upstream and not arguments.config:
        given = {name: value for name in DEFAULTS if (value := getattr(arguments, name)) is not None}
        return focus_from(argparse.Namespace(**{**DEFAULTS, **given})), None
    return configured(arguments)


def _live(focus: Focus, settings: Settings | None) -> Iterable[Check]:
    import asyncio

    from .doctor_live import live_checks

    return asyncio.run(live_checks(focus, settings))


def _say(check: Check) -> None:
    hint = f"\n{'':25}→ {check.hint}" if check.hint else ""
    sys.stdout.write(printable(f"{_MARKS[check.ok]:6} {check.name:18}{check.said}{hint}\n"))
    sys.stdout.flush()
