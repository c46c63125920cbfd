"""`focusctx doctor`: what is installed and set, whether draft, providers and store answer, what an event would cost."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import FocusError, MissingExtraError
from .agents import KNOWN
from .command import parser_for
from .options import DRAFTS
from .output import printable
from .serve import UPSTREAMS, add_options, configured

if TYPE_CHECKING:
    from ..compressor import Focus
    from ..proxy.settings import Settings

_DESCRIPTION = """\
Check what `focusctx serve` and `focusctx wrap` need. Give it the same options:

  focusctx doctor --upstream anthropic --draft openai:gpt-5-mini

It says which extras and agents are installed, which keys are set (by name,
never their value), whether the port is free, whether the store, the draft and
each upstream answer, and what a first event would cost. The draft is asked for
a few words, at its usual price; --draft offline asks nobody.

The exit code is 1 if something needs to be put right.
"""
_EPILOG = f"{UPSTREAMS}\n{DRAFTS}"
_MARKS = {True: "ok", False: "WRONG", None: ""}
_KEYS = (
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY"),
    *("DEEPSEEK_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "OPENROUTER_API_KEY", "OLLAMA_API_KEY", "VLLM_API_KEY"),
    *("FOCUSCTX_TOKEN", "FOCUSCTX_ADMIN_TOKEN"),
)
"""Variables that hold a key of a provider, or a token of the proxy."""
_BASE_URLS = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "FOCUSCTX_PRICES")
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)[^;>]*(?:>=(?P<least>[\d.]+))?[^;]*(?:;.*extra == ['\"](?P<extra>[\w-]+)['\"])?"
)


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
    yield from _installed()
    yield _keys()
    yield _programs()
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


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    ok: bool | None
    """None if there is nothing to judge."""
    said: str
    hint: str = ""
    """Advice on how to put it right."""


def _installed() -> Iterator[Check]:
    """Describe this installation: versions, the parts of the proxy, and which other extras are there."""
    yield Check("focusctx", True, f"{__version__}, Python {platform.python_version()}, {platform.system()}")
    extras = _extras()
    if not extras:
        yield Check("extras", None, "unknown: focusctx is not installed as a package")
        return
    proxy = extras.pop("proxy", {})
    missing = [name for name, version in proxy.items() if version is None]
    said = ", ".join(f"{name} {version or 'missing'}" for name, version in proxy.items())
    yield Check("proxy", not missing, said, "pip install 'focusctx[proxy]'" if missing else "")
    there = sorted(name for name, packages in extras.items() if all(packages.values()))
    yield Check("other extras", None, ", ".join(there) or "none")


def _keys() -> Check:
    """Name the keys and addresses that the environment sets. Their values are not shown."""
    found = [name for name in (*_KEYS, *_BASE_URLS) if os.environ.get(name)]
    return Check("variables", None, f"{', '.join(found)} (set)" if found else "none of the known keys is set")


def _programs() -> Check:
    """Name the agents that `focusctx wrap` knows and that can be started here."""
    found = [name for name in KNOWN if shutil.which(name)]
    return Check("agents", None, ", ".join(found) or "none of those that wrap knows is on PATH")


def _extras() -> dict[str, dict[str, str | None]]:
    """Return the packages of each extra with their versions; None for one that is missing or too old."""
    try:
        required = metadata.requires("focusctx") or []
    except metadata.PackageNotFoundError:
        return {}
    extras: dict[str, dict[str, str | None]] = {}
    for text in required:
        parts = _REQUIREMENT.match(text)
        if parts is None or parts["extra"] is None or _is_for_another_python(text):
            continue
        extras.setdefault(parts["extra"], {})[parts["name"]] = _version(parts["name"], parts["least"])
    return extras


def _is_for_another_python(text: str) -> bool:
    bound = re.search(r"python_version (<|>=) ['\"]([\d.]+)['\"]", text)
    if bound is None:
        return False
    here, there = _numbers(platform.python_version())[:2], _numbers(bound[2])
    return not (here < there if bound[1] == "<" else here >= there)


def _version(package: str, least: str | None) -> str | None:
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
    return found if least is None or _numbers(found) >= _numbers(least) else None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.split("+", maxsplit=1)[0])]
