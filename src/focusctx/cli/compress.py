"""`focusctx compress`: write the compressed trace, and a table with the outcome for each span."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from .command import add_quiet, parser_for
from .options import DRAFTS, TRACES, add_settings, add_trace_options, focus_from

if TYPE_CHECKING:
    from .command import Commands

_DESCRIPTION = f"""\
Compress a trace and show the decision about each span.

{TRACES}
With --out the messages go to FILE, written whole or not at all, and the table
to standard output. Without it the messages go to standard output and the
table to standard error. If the draft fails, the messages are written
unchanged, the reason is a warning on standard error, and the exit code is 0.
"""


def add_to(commands: Commands) -> None:
    parser = parser_for(
        commands, "compress", "write the compressed trace and a table of its spans", _DESCRIPTION, DRAFTS
    )
    add_trace_options(parser)
    parser.add_argument("--out", metavar="FILE", help="file for the messages; may be TRACE itself")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the whole Result as JSON, one line per conversation, instead of messages and table",
    )
    add_quiet(parser, "no table and no progress")
    add_settings(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from .output import console_on, names_file, write_line, writing
    from .table import print_events
    from .trace_file import conversations_in, read_trace, results_of, warn, warn_of_failures

    conversations = conversations_in(read_trace(arguments.trace, arguments.format))
    focus = focus_from(arguments)
    to_file = names_file(arguments.out)
    with writing(arguments.out) as file:
        results = results_of(focus, conversations, arguments)
        if to_file or not arguments.json:
            for conversation, result in zip(conversations, results, strict=True):
                write_line(file, conversation.with_messages(result.messages))
    if arguments.json:
        for result in results:
            write_line(sys.stdout.buffer, result.to_json())
    elif arguments.quiet:
        warn(conversations, results)
    else:
        console = console_on(sys.stdout if to_file else sys.stderr)
        names = [conversation.name for conversation in conversations]
        print_events(console, list(zip(names, results, strict=True)), arguments.budget, failures=False)
    warn_of_failures(conversations, results)
    return 0
