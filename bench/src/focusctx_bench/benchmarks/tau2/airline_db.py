"""The airline's database, made again from that of tau-bench, for copies of τ²-bench that lack the file.

τ²-bench took tau-bench's flights, users and reservations and changed little: users carry their id, amounts are
fractions, one reservation and one flight differ. The outcome is the very file: its git id is checked.

    python -m focusctx_bench.benchmarks.tau2.airline_db TAU_BENCH DB_JSON
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError

BLOB = "c6a1e817aa9102c5822e83affb3595acbc312701"
"""Git's name of the file in sierra-research/tau2-bench, from its first release to 1.0.1."""

_SOURCES = ("flights", "users", "reservations")


def rebuild(tau_bench: Path, target: Path) -> None:
    """Raises BenchError, and writes nothing, unless the outcome is the file that τ²-bench has."""
    folder = tau_bench / "tau_bench" / "envs" / "airline" / "data"
    try:
        flights, users, reservations = (json.loads((folder / f"{name}.json").read_bytes()) for name in _SOURCES)
        database = {"flights": _flights(flights), "users": _users(users), "reservations": _reservations(reservations)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(
            f"{tau_bench} is not a checkout of tau-bench ({error!r}): git clone https://github.com/sierra-research/tau-bench"
        ) from error
    content = json.dumps(database, indent=4).encode()
    if (blob := git_id(content)) != BLOB:
        raise BenchError(f"{tau_bench} has other airline data than τ²-bench was made from: {blob}, not {BLOB}")
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    unfinished.write_bytes(content)
    unfinished.replace(target)


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _flights(flights: dict[str, Any]) -> dict[str, Any]:
    flights["HAT018"]["dates"]["2024-05-11"] = {
        "status": "delayed",
        "estimated_departure_time_est": "2024-05-11T16:30:00",
        "estimated_arrival_time_est": "2024-05-11T19:05:00",
    }
    return {number: _first(flight, "origin", "destination", "flight_number") for number, flight in flights.items()}


def _users(users: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {
            "user_id": name,
            **user,
            "payment_methods": {key: _payment_method(method) for key, method in user["payment_methods"].items()},
        }
        for name, user in users.items()
    }


def _payment_method(method: dict[str, Any]) -> dict[str, Any]:
    if "amount" in method:
        method["amount"] = float(method["amount"])
    return _first(method, "source", "id")


def _reservations(reservations: dict[str, Any]) -> dict[str, Any]:
    reservations["Z7GOZK"] |= {"destination": "IAH", "flight_type": "round_trip"}
    return reservations


def _first(entry: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the entry with these fields in front."""
    return {**{name: entry[name] for name in names}, **entry}


if __name__ == "__main__":
    rebuild(Path(sys.argv[1]), Path(sys.argv[2]))
