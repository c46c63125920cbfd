"""`focusctx demo`: compress a history that comes with the package; no key, no network."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from .command import parser_for
from .options import DRAFTS, add_settings, focus_from, setup_of

if TYPE_CHECKING:
    from .command import Commands

_NEXT = """\
Next, with a trace of your own agent:
  focusctx compress my_trace.json --out smaller.json
  focusctx explain my_trace.json --out report.html
and with a language model as the draft, which plans better than the default (data flow only):
  focusctx explain my_trace.json --draft openai:gpt-5-mini --out report.html
"""

_TARGET = 0.7
"""Share of the budget that the demo comes back to: half would leave no room for what the plans rescue."""


def add_to(commands: Commands) -> None:
    summary = "compress a bundled history, with no key and no network"
    about = "Compress a bundled history, an office assistant part-way through its task."
    parser = parser_for(commands, "demo", summary, about, DRAFTS)
    parser.add_argument("--out", metavar="FILE.html", help="also write the page that `focusctx explain` makes")
    add_settings(parser, draft=None)
    parser.set_defaults(run=run, target=_TARGET)


def run(arguments: argparse.Namespace) -> int:
    from ..drafts import ScriptedDraft
    from .output import console_on, printable, short, write_line, writing
    from .report import Entry, page
    from .table import print_events

    messages = _bundled("demo_trace.json")["messages"]
    recorded = arguments.draft is None
    if recorded:
        arguments.draft = ScriptedDraft(_bundled("demo_sketches.json"))
    focus = focus_from(arguments)
    console = console_on(sys.stdout)
    console.print("An office assistant is part-way through its task:", style="bold")
    console.print(f"  {short(messages[1]['content'], 600)}\n")
    if recorded:
        console.print("Three plans for the rest, as a large language model sketched them, are played back …\n")
    else:
        console.print(f"The draft ({focus.draft.name}) sketches {arguments.rollouts} plans for what is left to do …\n")
    result = focus.compress(messages)
    print_events(console, [("demo", result)], arguments.budget)
    if arguments.out is not None:
        with writing(arguments.out) as file:
            write_line(file, page([Entry("demo", result, setup_of(focus))]))
        console.print(f"\nWrote {printable(arguments.out)}: open it in a browser.")
    else:
        console.print("\n`focusctx demo --out report.html` writes this as a page, with every word of every step.")
        console.print("`focusctx demo --draft offline` does it with no language model at all.")
    console.print(f"\n{_NEXT}", end="")
    return 0


def _bundled(name: str) -> Any:
    return json.loads(files("focusctx.cli").joinpath(name).read_text("utf-8"))
