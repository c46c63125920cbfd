"""Things that other installed packages add to focusctx, found by entry point.

A package declares them in groups named `focusctx.KIND`:

    commands    `add_to(commands)` adds a subcommand's parser; `replay.study` is `focusctx replay study`
    methods     makes a `baselines.method.Factory` from `baselines.registry.MethodSettings`
    embedders   makes an embedder from what follows the colon in `NAME:MODEL`
    engines     makes a `jobs.engines.Engine` for `--engine NAME`

`focusctx-bench` uses all of them.
"""

from __future__ import annotations

from typing import Any

INSTALL_BENCH = "pip install focusctx-bench (in a clone: pip install ./bench)"


def plugin(kind: str, name: str) -> Any | None:
    """Load the plugin of this kind and name, or return None where no installed package has it."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=f"focusctx.{kind}", name=name):
        return entry.load()
    return None


def plugin_names(kind: str) -> tuple[str, ...]:
    """Return the names of all installed plugins of a kind, in alphabetical order."""
    from importlib.metadata import entry_points

    return tuple(sorted({entry.name for entry in entry_points(group=f"focusctx.{kind}")}))
