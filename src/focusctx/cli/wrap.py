"""`focusctx wrap`: run an agent through a proxy that is only for it, and say at the end what was saved."""

from __future__ import annotations

import argparse
import logging
import math
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from ..prices import price_of
from .agents import KNOWN, Agent, agent_for, bases_of, environment_for, usual_upstreams
from .command import Problem, parser_for
from .options import DRAFTS
from .serve import add_options, configured

if TYPE_CHECKING:
    import asyncio

    from ..compressor import Focus
    from ..proxy.app import Proxy
    from ..proxy.settings import Settings

_DESCRIPTION = f"""\
Run an agent through a proxy that compresses its history:

  focusctx wrap -- claude
  focusctx wrap --budget 20000 --draft openai:gpt-5-mini -- codex exec "fix the tests"

The proxy listens on a free port of this machine for as long as the agent runs.
The agent has the terminal to itself; its signals and its exit code are passed
on. At its end some lines on standard error say what was saved.

These get the proxy's address in their own way:
  {", ".join(KNOWN)}
Any other command gets OPENAI_BASE_URL, OPENAI_API_BASE, ANTHROPIC_BASE_URL,
ANTHROPIC_API_BASE and GOOGLE_GEMINI_BASE_URL.
"""
_EPILOG = f"""\
upstreams:
  By default those of the agent: anthropic for claude, openai for codex and so
  on. A base URL that is set in one of the variables above stays in use: the
  proxy forwards to it. --upstream and --config choose others, as in serve.

{DRAFTS}
"""
_GRACE = 0.5
"""Seconds for answers that are on their way when the agent has ended."""


def add_to(commands: Any) -> None:
    parser = parser_for(commands, "wrap", "run an agent with a proxy of its own", _DESCRIPTION, _EPILOG)
    parser.usage = "focusctx wrap [options] -- AGENT [argument ...]"
    add_options(parser, upstream="can be repeated (default: the agent's)", listen="a free port of this machine")
    parser.add_argument("--log", type=Path, metavar="FILE", help="append the proxy's log to this file")
    parser.add_argument("agent", nargs=argparse.REMAINDER, metavar="-- AGENT", help="the command to run")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        import asyncio

        from ..proxy.serve import serving  # noqa: F401  shows whether the extra is installed
    except ImportError as error:
        raise MissingExtraError("the proxy", "proxy") from error
    command = arguments.agent[1:] if arguments.agent[:1] == ["--"] else arguments.agent
    if not command:
        raise Problem("no agent to run: add it after --, as in `focusctx wrap -- claude`")
    program = shutil.which(command[0])
    if program is None:
        raise Problem(f"there is no program {command[0]!r} to run: install it, or give its path")
    agent = agent_for(command[0])
    focus, settings = _configured(arguments, agent)
    with _logging(arguments.log) as warnings:
        return asyncio.run(_wrap(focus, settings, agent, [program, *command[1:]], warnings))


def _configured(arguments: argparse.Namespace, agent: Agent) -> tuple[Focus, Settings]:
    """Return the settings for a proxy that only this agent uses."""
    arguments.listen = arguments.listen or "127.0.0.1:0"
    if agent.refuse_websockets:
        arguments.refuse_websockets = True
    focus, settings = configured(arguments, upstreams=usual_upstreams(agent, os.environ))
    # Agents cannot be made to send a token or to trust a certificate, and nobody but this one is meant to call.
    return focus, replace(settings, token=None, admin_token=None, callers=(), tls_cert=None, tls_key=None, grace=_GRACE)


async def _wrap(focus: Focus, settings: Settings, agent: Agent, command: list[str], warnings: Sequence[str]) -> int:
    import asyncio

    from ..proxy.serve import serving

    async with serving(focus, settings) as (proxy, address):
        bases = bases_of(address, settings.upstreams)
        sys.stderr.write(f"focusctx: {Path(command[0]).name} runs through {address}, dashboard: {address}/ui\n")
        sys.stderr.flush()
        process = await asyncio.create_subprocess_exec(
            command[0], *agent.arguments(bases), *command[1:], env=environment_for(agent, bases, os.environ)
        )
        with _passing_signals_on(process):
            code = await process.wait()
        lines = _summary(proxy, address, agent, warnings)
    sys.stderr.write("".join(f"focusctx: {line}\n" for line in lines))
    return code if code >= 0 else 128 - code  # as a shell reports an end by a signal


@contextmanager
def _passing_signals_on(process: asyncio.subprocess.Process) -> Iterator[None]:
    """Pass signals on to the agent, and outlive them, to say what was saved.

    A terminal sends Ctrl-C and its own end to both processes: the agent must not get them twice.
    """
    import asyncio

    def passed_on(number: int) -> None:
        if number == signal.SIGTERM or not _has_the_terminal():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    loop = asyncio.get_running_loop()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
    with suppress(NotImplementedError):  # Windows has no such handlers; there a console tells both processes
        for number in numbers:
            loop.add_signal_handler(number, passed_on, number)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            for number in numbers:
                loop.remove_signal_handler(number)


def _has_the_terminal() -> bool:
    """True if keys pressed in a terminal reach this process and its agent."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


@contextmanager
def _logging(file: Path | None) -> Iterator[list[str]]:
    """Keep the log off the terminal, which is the agent's: it goes to a file, and warnings to the list yielded."""
    warnings: list[str] = []
    log = logging.getLogger("focusctx")
    handlers: list[logging.Handler] = [_Collector(warnings)]
    if file is not None:
        handlers.append(logging.FileHandler(file, encoding="utf-8"))
    for handler in handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield warnings
    finally:
        for handler in handlers:
            log.removeHandler(handler)
            handler.close()


class _Collector(logging.Handler):
    """Adds the text of warnings to a list."""

    def __init__(self, warnings: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._warnings = warnings

    def emit(self, record: logging.LogRecord) -> None:
        self._warnings.append(record.getMessage())


def _summary(proxy: Proxy, address: str, agent: Agent, warnings: Sequence[str]) -> list[str]:
    """Say in a few lines what was saved while the proxy ran, or why nothing was."""
    lines = [_saved(proxy, agent), *_money(proxy)]
    if warnings:
        many = f"{len(warnings):,} warnings, the last" if len(warnings) > 1 else "a warning"
        lines.append(f"{many}: {warnings[-1]} (--log FILE keeps the whole log)")
    return [*lines, f"the dashboard was at {address}/ui; `focusctx serve` keeps one open"]


def _saved(proxy: Proxy, agent: Agent) -> str:
    sums = proxy.metrics.sums
    requests = f"{proxy.metrics.requests:,} request{'' if proxy.metrics.requests == 1 else 's'}"
    if not proxy.metrics.requests:
        return f"nothing saved: no request came through the proxy. {agent.advice}"
    if not sums.requests:
        return f"{requests}, nothing saved: none of them had a history that focusctx reads"
    if not sums.saved:
        return f"{requests}, nothing saved: {_reason(proxy)}"
    share = sums.saved / sums.received
    events = f"{sums.events:,} event{'' if sums.events == 1 else 's'}"
    sent = "would have been sent" if proxy.settings.dry_run else "sent"
    return (
        f"{requests}, {events}: {sums.sent:,} of {sums.received:,} tokens of history {sent} "
        f"({sums.saved:,} {'fewer' if proxy.settings.dry_run else 'saved'}, {share:.0%})"
    )


def _reason(proxy: Proxy) -> str:
    """Say why no history was compressed."""
    budget = proxy.focus.config.budget
    events = [live.events[-1] for live in proxy.conversations if live.events]
    return events[0].why if events else f"no history was larger than the budget of {budget:,} tokens"


def _money(proxy: Proxy) -> Iterator[str]:
    """Say how much money was saved, if the prices of the models and the draft are known."""
    sums = proxy.metrics.sums
    if not sums.saved and not sums.events:
        return
    unpriced = sorted({live.key.model for live in proxy.conversations if price_of(live.key.model) is None})
    if unpriced:
        yield f"worth in USD unknown: no price for {', '.join(unpriced)} (FOCUSCTX_PRICES names a file with your own)"
    elif math.isnan(sums.net):
        yield f"worth in USD unknown: the draft {proxy.focus.draft.name} has no known price"
    else:
        drafts = sum(live.savings.drafts for live in proxy.conversations)
        would = "it would have been worth" if proxy.settings.dry_run else "worth"
        yield f"{would} {sums.net:.2f} USD, the draft's {drafts:.2f} USD already taken off"
