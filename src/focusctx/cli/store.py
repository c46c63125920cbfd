"""`focusctx store`: list or export a store, remove old conversations from it, and give the space back."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .command import Problem, commands_of, parser_for

if TYPE_CHECKING:
    from ..session.stores.sqlite import SQLiteStore, StoredConversation

_DESCRIPTION = """\
Maintain a store of decisions and dropped steps: an SQLite file.

  focusctx store list sqlite:///focus.db
  focusctx store export sqlite:///focus.db > events.json
  focusctx store purge sqlite:///focus.db --older-than 30d --yes
  focusctx store vacuum sqlite:///focus.db

An agent whose conversation was removed loses nothing: it still has its whole
history, which is compressed anew. Only recall of what was dropped is gone.
"""
_EPILOG = """\
A store also cleans up by itself: it removes conversations that were not used
for 30 days, and the least recently used ones if it takes more than 4 GB. Its
URL changes that: sqlite:///focus.db?max_age=7d&max_size=500MB (none: no limit).
Redis removes by itself what was not used for `ttl` seconds (30 days), as in
redis://host?ttl=604800; how much it may hold is a setting of the server.
"""


def add_to(commands: Any) -> None:
    parser = parser_for(commands, "store", "list, export, purge or vacuum a store of decisions", _DESCRIPTION, _EPILOG)
    parts = commands_of(parser)
    listing = parser_for(parts, "list", "show the stored conversations", "Show the stored conversations.")
    purging = parser_for(parts, "purge", "remove conversations", "Remove conversations, all or some of them.")
    about = "Print all events and savings as one JSON object. Texts of conversations are not in it."
    exporting = parser_for(parts, "export", "print events and savings as JSON", about)
    packing = parser_for(parts, "vacuum", "shrink the file", "Give the space of what was removed back to the disk.")
    for part, run in ((listing, _list), (exporting, _export), (purging, _purge), (packing, _vacuum)):
        part.add_argument("store", metavar="URL", help="sqlite:///FILE, or the path of the file")
        if part is not exporting:
            part.add_argument("--json", action="store_true", help="print one JSON object")
        part.set_defaults(run=run)
    for part in (listing, exporting, purging):
        part.add_argument("--tenant", metavar="NAME", help="only of this tenant: its name, or its hash from `list`")
    purging.add_argument("--older-than", metavar="AGE", help="only what was not used for this long: 30d, 12h, 90m")
    purging.add_argument("--yes", action="store_true", help="do not ask")


def _list(arguments: argparse.Namespace) -> int:
    store = _open(arguments.store)
    found = store.conversations(arguments.tenant)
    if arguments.json:
        return _answer(file=str(store.path), file_size=store.file_size, conversations=[asdict(each) for each in found])
    from ..session.retention import spelled_size

    if found:
        _say(f"{'last used':16}  {'tenant':32}  {'conversation':16}  {'events':>6}  {'size':>9}")
    for each in found:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.used))
        _say(f"{used}  {each.tenant:32}  {each.root[:16]:16}  {each.events:6}  {spelled_size(each.size):>9}")
    _say(f"{_sum(found)}; {store.path} has {spelled_size(store.file_size)}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    if arguments.store.partition(":")[0] in ("redis", "rediss"):
        raise Problem("only SQLite stores can be exported; a running proxy exports what it has seen at /ui/api/export")
    store = _open(arguments.store)
    events: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for tenant, root, event in store.events_by_conversation(arguments.tenant):
        events[tenant, root].append(asdict(event))
    return _answer(
        file=str(store.path),
        conversations=[
            {**asdict(each), "events": events[each.tenant, each.root]} for each in store.conversations(arguments.tenant)
        ],
        totals={
            tenant: {**asdict(totals), "net": totals.net}
            for tenant, totals in store.all_totals(arguments.tenant).items()
        },
    )


def _purge(arguments: argparse.Namespace) -> int:
    from ..session.retention import seconds_of

    store = _open(arguments.store)
    before = None
    if arguments.older_than is not None:
        before = time.time() - seconds_of(arguments.older_than, "--older-than")
    going = [each for each in store.conversations(arguments.tenant) if before is None or each.used < before]
    if going and not arguments.yes:
        _confirm(f"{_sum(going)} would be removed from {store.path}")
    gone = store.purge(tenant=arguments.tenant, before=before) if going else []
    if arguments.json:
        return _answer(file=str(store.path), removed=[asdict(each) for each in gone])
    hint = "; `focusctx store vacuum` gives the space back to the disk" if gone else ""
    _say(f"removed {_sum(gone)}{hint}")
    return 0


def _vacuum(arguments: argparse.Namespace) -> int:
    from ..session.retention import spelled_size

    store = _open(arguments.store)
    before = store.file_size
    store.vacuum()
    after = store.file_size
    if arguments.json:
        return _answer(file=str(store.path), size_before=before, size_after=after)
    _say(f"{store.path}: {spelled_size(before)} before, {spelled_size(after)} now")
    return 0


def _open(url: str) -> SQLiteStore:
    """Open the file that a URL or a path names; a missing file is not created."""
    from ..session.stores import store_from
    from ..session.stores.sqlite import SQLiteStore

    scheme = url.partition(":")[0]
    if scheme in ("redis", "rediss"):
        raise Problem("a Redis store needs no maintenance: unused data expires, see `focusctx store --help`")
    if url.partition("?")[0] == "memory":
        raise Problem("a memory store ends with its process; give the SQLite file to work on, sqlite:///FILE")
    store = SQLiteStore(url) if scheme != "sqlite" and Path(url).is_file() else store_from(url)
    if not isinstance(store, SQLiteStore):
        raise Problem(f"{scheme} is not an SQLite store: give sqlite:///FILE")
    if not store.path.is_file():
        raise Problem(f"there is no store at {store.path}; check the path")
    return store


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise Problem(f"{question}; add --yes to confirm")
    if input(f"{question}. Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise Problem("nothing was removed")


def _sum(found: Sequence[StoredConversation]) -> str:
    from ..session.retention import spelled_size

    events = sum(each.events for each in found)
    size = spelled_size(sum(each.size for each in found))
    return f"{_many(len(found), 'conversation')}, {_many(events, 'event')}, {size}"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _answer(**content: object) -> int:
    _say(json.dumps(content, indent=2))
    return 0
