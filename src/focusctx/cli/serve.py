"""`focusctx serve`: the proxy."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import MissingExtraError
from .command import Problem, add_quiet, parser_for
from .options import DEFAULTS, DRAFTS, add_settings, focus_from

if TYPE_CHECKING:
    from ..compressor import Focus
    from ..proxy.settings import File, Settings

_DESCRIPTION = """\
Run a proxy between an agent and its model provider. Histories in requests are
compressed, everything else is passed on unchanged. Point the agent to it:

  export OPENAI_BASE_URL=http://127.0.0.1:8400/v1     with --upstream openai
  export ANTHROPIC_BASE_URL=http://127.0.0.1:8400     with --upstream anthropic
  export GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8400 with --upstream gemini
  export OLLAMA_HOST=http://127.0.0.1:8400            with --upstream ollama

and open http://127.0.0.1:8400/ui in a browser.
"""
UPSTREAMS = """\
upstreams:
  openai, anthropic, deepseek, gemini, groq, mistral, openrouter, ollama, vllm
  NAME=URL                     any server that speaks one of the formats
"""
_EPILOG = f"""\
{UPSTREAMS}\
  Given several, the first is the default; /NAME/v1/... and the header
  x-focusctx-upstream: NAME choose another, /v1/messages goes to anthropic,
  Gemini's own API to gemini, /api/... to ollama.

{DRAFTS}
tokens:
  The access token that callers send (x-focusctx-token) is read from
  FOCUSCTX_TOKEN. Without one, the proxy listens on this machine only. The token
  that opens the dashboard and /metrics is another one, FOCUSCTX_ADMIN_TOKEN;
  with an access token and no admin token they are closed.

settings:
  --config FILE also takes callers with tokens and budgets of their own, and
  budgets by model and upstream; SIGHUP reads it again. docs/proxy.md has them
  all. A caller's header x-focusctx-bypass: 1 sends one request up as it is.
"""


def add_to(commands: Any) -> None:
    parser = parser_for(commands, "serve", "run a proxy between an agent and its provider", _DESCRIPTION, _EPILOG)
    add_options(parser, upstream="required, can be repeated", listen="127.0.0.1:8400")
    parser.set_defaults(run=run)


def add_options(parser: argparse.ArgumentParser, *, upstream: str, listen: str) -> None:
    """Add the proxy's options, which `serve`, `wrap` and `doctor` share. None marks those that were not given.

    `upstream` and `listen` are the help's words for the defaults of these two.
    """
    add = parser.add_argument
    add(
        "--upstream",
        action="append",
        metavar="NAME[=URL]",
        help=f"the provider to forward to, see below; {upstream}",
    )
    add(
        "--listen",
        metavar="HOST:PORT",
        help=f"address to listen on; a port alone means this machine only (default: {listen})",
    )
    add("--config", type=Path, metavar="FILE", help="a TOML file with these settings; options override it")
    add(
        "--store",
        metavar="URL",
        help="where decisions are stored: sqlite:///FILE, redis://HOST, memory (default: a file, named at the start)",
    )
    add("--recall", action="store_true", default=None, help="offer the model a tool that brings dropped steps back")
    add("--dry-run", action="store_true", default=None, help="forward everything unchanged, show what would be dropped")
    add(
        "--only-if-it-pays",
        action="store_true",
        default=None,
        help="never compress if that costs more than it saves, even far over the budget "
        "(default: it waits until the history is a quarter over the budget, "
        "half over it while large results are not answered)",
    )
    add(
        "--body-limit", type=int, metavar="BYTES", help="pass on longer requests without reading them (default: 64 MiB)"
    )
    add("--log-text", action="store_true", default=None, help="include the text of dropped steps in the log")
    add(
        "--refuse-websockets",
        action="store_true",
        default=None,
        help="make agents such as Codex fall back to plain requests, which can be compressed",
    )
    add("--tls-cert", metavar="FILE", help="serve over TLS with this certificate (PEM)")
    add("--tls-key", metavar="FILE", help="the certificate's key, if its file does not hold it")
    add("--otel", action="store_true", default=None, help="send OpenTelemetry traces and metrics (focusctx[otel])")
    add_quiet(parser, "no lines about the start and about events")
    add_settings(parser)
    parser.set_defaults(**dict.fromkeys(DEFAULTS))


def run(arguments: argparse.Namespace) -> int:
    try:
        from ..proxy.serve import serve
        from ..proxy.upstream import base_urls
    except ImportError as error:
        raise MissingExtraError("the proxy", "proxy") from error
    focus, settings = configured(arguments)
    store = settings.store_url  # before serving, so that an unusable folder is reported as a wrong setting
    _log_to_stderr(logging.WARNING if arguments.quiet else logging.INFO)

    def started(address: str) -> None:
        if arguments.quiet:
            return
        say = sys.stderr.write
        say(f"focusctx listens on {address} for {', '.join(upstream.name for upstream in settings.upstreams)}\n")
        here = _from_elsewhere(address)
        bases = "".join(f"{name}={here}{path}   " for name, path in base_urls(settings.upstreams).items())
        closed = (settings.token or settings.callers) and not settings.admin_token
        say(f"  {bases}dashboard: {'closed, set FOCUSCTX_ADMIN_TOKEN to open it' if closed else f'{here}/ui'}\n")
        say(f"  draft {focus.draft.name}, budget {focus.config.budget:,} tokens, store {_without_password(store)}\n")
        say(f"  {settings.rule}\n")
        if settings.dry_run:
            say("  dry run: every request is forwarded unchanged\n")

    import asyncio  # not above: all commands are loaded for `--help`

    asyncio.run(serve(focus, settings, started, partial(configured, arguments) if arguments.config else None))
    return 0


def configured(arguments: argparse.Namespace, *, upstreams: Sequence[str] = ()) -> tuple[Focus, Settings]:
    """Return the compressor and the settings that the options and the file describe.

    `upstreams` are used where neither names any.
    """
    from ..proxy.settings import File

    file = File.read(arguments.config) if arguments.config else File()
    settings = _settings(arguments, file, upstreams)
    focus = focus_from(_how_to_compress(arguments, file))
    _check_draft(focus, settings)
    return focus, settings


def _settings(arguments: argparse.Namespace, file: File, upstreams: Sequence[str]) -> Settings:
    from ..proxy.settings import Settings, address
    from ..proxy.upstream import Upstream

    given = dict(file.serve)
    for name in (
        "store",
        "recall",
        "dry_run",
        "only_if_it_pays",
        "body_limit",
        "log_text",
        "refuse_websockets",
        "otel",
        "tls_cert",
        "tls_key",
    ):
        if (value := getattr(arguments, name)) is not None:
            given[name] = value
    if arguments.listen:
        given["host"], given["port"] = address(arguments.listen)
    if named := arguments.upstream or ("upstreams" not in given and upstreams):
        given["upstreams"] = tuple(map(Upstream.named, named))
    for name in ("token", "admin_token"):
        if token := os.environ.get(f"FOCUSCTX_{name.upper()}"):
            given[name] = token
    if not given.get("upstreams"):
        raise Problem("no upstream: add --upstream openai, --upstream anthropic or --upstream NAME=URL")
    return Settings(**given)


def _how_to_compress(arguments: argparse.Namespace, file: File) -> argparse.Namespace:
    from ..proxy.settings import check

    kinds = {name: type(value) for name, value in DEFAULTS.items()}
    check(file.compress, kinds, f"{arguments.config}: [compress] ")
    asked = {name: value for name in DEFAULTS if (value := getattr(arguments, name)) is not None}
    return argparse.Namespace(**{**DEFAULTS, **file.compress, **asked})


def _check_draft(focus: Focus, settings: Settings) -> None:
    """Refuse a draft that would call this proxy itself: OPENAI_BASE_URL may point agents and drafts to it."""
    endpoint = getattr(focus.draft, "endpoint", None)
    if endpoint is not None and settings.is_own(endpoint.url):
        raise Problem(
            f"the draft {focus.draft.name} would send its requests to this proxy: unset OPENAI_BASE_URL and "
            "ANTHROPIC_BASE_URL here, or name the server, as in openai:MODEL@https://api.openai.com/v1"
        )


def _from_elsewhere(address: str) -> str:
    """Return the address at which others reach the proxy: by this machine's name if it listens on all interfaces."""
    from ..proxy.settings import is_everywhere, machine

    parts = urlsplit(address)
    return f"{parts.scheme}://{machine()}:{parts.port}" if is_everywhere(parts.hostname or "") else address


def _without_password(url: str) -> str:
    return re.sub(r"//[^@/]*@", "//***@", url)


def _log_to_stderr(level: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    # The proxy logs its own line for each event, with the words for a dry run.
    handler.addFilter(lambda record: record.name != "focusctx" or record.levelno > logging.INFO)
    log = logging.getLogger("focusctx")
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False
