"""Find the request with which each event happened.

Neither of them records it. But an event records the size of the view after it, and its request was sent in that size.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from ...session.events import SessionEvent
from ..sessions import Step


def moments(steps: Sequence[Step], events: Sequence[SessionEvent]) -> list[int | None]:
    """Return, for each event, the index of its request in `steps`; None if that is no longer remembered."""
    places: defaultdict[int, list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        if step.exact:
            places[step.sent].append(number)
    found: list[int | None] = []
    latest = len(steps) - 1
    next_begins: int | None = None
    for event in reversed(events):
        # A request may have two events: a decision made elsewhere, and then one made here.
        if found and event.cause in ("followed", "restored") and event.tokens_after == next_begins:
            found.append(found[-1])
        else:
            place = _last_up_to(places[event.tokens_after], latest)
            if place is not None and event.happened:
                place = _first_try(steps, place)
            found.append(place)
            latest = latest if place is None else place - 1
        next_begins = event.tokens_before
    return found[::-1]


def _last_up_to(places: Sequence[int], latest: int) -> int | None:
    number = bisect_right(places, latest)
    return places[number - 1] if number else None


def _first_try(steps: Sequence[Step], place: int) -> int:
    """Return the first of several equal requests: agents repeat failed ones, and the event came with the first."""
    sizes = steps[place].full, steps[place].sent
    while place and (steps[place - 1].full, steps[place - 1].sent) == sizes:
        place -= 1
    return place
