"""`focusctx replay`: compress recorded runs as they would have been, and compare with what happened next.

`run` is in `replay_run.py`; the other subcommands come with `focusctx-bench`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import replay_run
from .parsers import commands_of, parser_for
from .research import add_research

if TYPE_CHECKING:
    from .parsers import Commands

_DESCRIPTION = """\
Replay recorded runs: what would each method have kept of the past, and did the
future need what it dropped? Takes any JSONL of message lists, such as your own
logs.

with no key, no model and no download:
  focusctx replay run my-logs.jsonl --draft offline
"""


def add_to(commands: Commands) -> None:
    summary = "what compression would have kept of your recorded runs, and what they needed"
    parts = commands_of(parser_for(commands, "replay", summary, _DESCRIPTION))
    replay_run.add_to(parts)
    add_research(parts, "replay")
