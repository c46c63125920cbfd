"""The command's parser, exit codes and one-line errors."""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from ..errors import FocusError
from . import completion, compress, demo, doctor, explain, replay, serve, store, wrap
from .command import Problem, add_research, commands_of, not_installed

_EPILOG = """\
exit codes:
  0    done. Also when the draft failed and the history was passed on as it was:
       compression must never break the pipeline it is part of, so the reason
       is a warning on standard error
  1    a bug in focusctx; FOCUSCTX_DEBUG=1 shows the traceback
  2    the input, an option or a file cannot be used; one line on standard
       error says why
  3    bench and replay: something is left to do; run the same command again
  130  interrupted

try it without a key, a model or a network:
  focusctx demo
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Never raises for a user's mistakes; `--help` and `--version` exit."""
    _prepare_streams()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, perhaps `head`, closed the pipe
        _discard_stdout()
        code = 141
    except KeyboardInterrupt:
        code = 130
    except FocusError as error:
        code = _complain(str(error))
    except OSError as error:
        code = _complain(f"{error.filename or 'standard input or output'}: {error.strerror or error}")
    except Exception as error:
        if os.environ.get("FOCUSCTX_DEBUG"):
            raise
        _complain(
            f"unexpected {type(error).__name__}: {error}; please report this bug, FOCUSCTX_DEBUG=1 shows the traceback"
        )
        code = 1
    return code


def _run(argv: Sequence[str] | None) -> int:
    parser = _parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown and arguments.run is not not_installed:
        raise Problem(f"unrecognized arguments: {' '.join(unknown)}; see `{arguments.command} --help`")
    code: int = arguments.run(arguments)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="focusctx",
        description="Keep the steps your agent's future depends on, word for word, and drop the rest.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"focusctx {__version__}")
    parser.set_defaults(command=parser.prog)
    commands = commands_of(parser)
    for command in (compress, explain, demo, serve, wrap, doctor, store, replay):
        command.add_to(commands)
    add_research(commands)
    completion.add_to(commands, parser)
    return parser


class _Parser(argparse.ArgumentParser):
    """argparse with one-line errors, like all others here."""

    def error(self, message: str) -> NoReturn:
        raise Problem(f"{message}; see `{self.prog} --help`")


def _complain(message: str) -> int:
    # A cause may add details on further lines; the first one says what happened.
    first = message.strip().split("\n", 1)[0].replace(". Known forms:", "; `--help` lists the known forms")
    sys.stderr.write(f"focusctx: {first}\n")
    return 2


def _prepare_streams() -> None:
    """Make any trace printable: escape characters that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # The commands report themselves why a history was passed on; a log line would repeat it.
    logging.getLogger("focusctx").addHandler(logging.NullHandler())


def _discard_stdout() -> None:
    """Discard buffered output, or Python reports the broken pipe again at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
