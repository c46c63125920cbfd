"""`focusctx explain`: why each step was kept, shortened or dropped, as text or as a page."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .command import add_quiet, note, parser_for
from .options import DRAFTS, TRACES, add_settings, add_trace_options, focus_from, setup_of

if TYPE_CHECKING:
    from .command import Commands

_DESCRIPTION = f"""\
Explain what each step of a trace did, whether it stays whole, as an excerpt, as a
record or not at all, why, and what would bring it back.

{TRACES}
The output of `focusctx compress --json` is accepted too, and shown without
asking a draft again.

With --out, one self-contained HTML page is written, which needs no server and
no network. It holds the full text of the trace: share it as you would the trace.
"""


def add_to(commands: Commands) -> None:
    parser = parser_for(
        commands,
        "explain",
        "explain why each step was kept, shortened or dropped, as text or as an HTML page",
        _DESCRIPTION,
        DRAFTS,
    )
    add_trace_options(parser)
    parser.add_argument("--out", metavar="FILE.html", help="write a page instead of text")
    add_quiet(parser, "no progress, and no line about the page that was written")
    add_settings(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from .output import names_file, printable, write_line, writing
    from .report import Entry, page
    from .trace_file import SavedResult, read_trace, results_of, warn_of_failures

    found = read_trace(arguments.trace, arguments.format)
    focus = focus_from(arguments)
    with writing(arguments.out) as file:
        results = results_of(focus, found, arguments)
        if arguments.out is not None:
            setups = [None if isinstance(entry, SavedResult) else setup_of(focus) for entry in found]
            names = [entry.name for entry in found]
            write_line(file, page([Entry(*parts) for parts in zip(names, results, setups, strict=True)]))
        else:
            for entry, result in zip(found, results, strict=True):
                if len(found) > 1:
                    write_line(file, f"{entry.name}:")
                write_line(file, printable(result.explain()))
    warn_of_failures(found, results)
    if names_file(arguments.out):
        note(arguments, f"focusctx: wrote {arguments.out}; open it in a browser")
    return 0
