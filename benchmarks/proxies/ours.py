"""focusctx's proxy with a draft that answers at once, for the requests in which a decision is applied.

    python ours.py PORT UPSTREAM STORE BUDGET KEEP_EVERY ahead|at-once

KEEP_EVERY n: the plans cite every nth step. 0: they cite none, and nothing else is kept either, so that the requests
after the decision fit into the room. `at-once`: no sketches are asked for ahead of time, so that the request that
crosses the budget does everything.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Unpack

from focusctx import Focus
from focusctx.config import FocusConfig, SessionOptions
from focusctx.drafts import ScriptedDraft
from focusctx.proxy.serve import serve
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream
from focusctx.session.session import Session
from focusctx.session.store import Store

STEP = 300
"""Tokens of a step, about."""


def plan(cited: list[int]) -> str:
    """A few steps to a line's citations, as drafts write them."""
    lines = [", ".join(f"s_{index}" for index in cited[first : first + 6]) for first in range(0, len(cited), 6)]
    steps = [f"Step: look at the handler again and repair it | Depends on: [{line}]" for line in lines or [""]]
    return "\n".join([*steps, "Rescued Spans: [] | Reason: none"])


class AtOnce(Focus):
    """Asks for sketches when they are needed and not before."""

    def session(self, store: str | Store = "memory", **options: Unpack[SessionOptions]) -> Session:
        options["ahead"] = 1.0
        return super().session(store, **options)


def main(port: str, upstream: str, store: str, budget: str, *draft: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    keep_every, when = draft
    cited = [*range(1, int(budget) // STEP, int(keep_every))] if int(keep_every) else []
    make = AtOnce if when == "at-once" else Focus
    config = FocusConfig(budget=int(budget))
    if not cited:
        config = config.with_changes(levels=False, target=None)
    focus = make(ScriptedDraft([plan(cited)]), config=config)
    settings = Settings((Upstream.named(f"openai={upstream}"),), port=int(port), store=store)
    asyncio.run(serve(focus, settings, lambda _address: None))


if __name__ == "__main__":
    main(*sys.argv[1:])
