"""`focusctx replay`: recorded runs, compressed as they would have been, held against what then happened.

Each subcommand is a file of its own, `replay_NAME.py`, with one function: `add_to(parts)` adds its parser, which sets
`run`. Such a file imports nothing heavy before `run` is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import replay_ablate, replay_agree, replay_points, replay_record, replay_report, replay_run, replay_study
from .parsers import commands_of, parser_for

if TYPE_CHECKING:
    from .parsers import Commands

_PARTS = (replay_run, replay_points, replay_record, replay_report, replay_agree, replay_study, replay_ablate)

_DESCRIPTION = """\
Replay recorded runs: what would each method have left of the past, and did the
future need what it dropped? Any JSONL of message lists will do, your own logs
too.

with no key, no model and no download:
  focusctx replay run my-logs.jsonl --draft offline
"""


def add_to(commands: Commands) -> None:
    told = "what compression would have kept of your recorded runs, and what they needed"
    parts = commands_of(parser_for(commands, "replay", told, _DESCRIPTION))
    for part in _PARTS:
        part.add_to(parts)
