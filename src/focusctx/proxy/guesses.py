"""Delay the answers to wrong tokens, longer with each one.

The right token is never delayed: an attacker who shares an address with a caller, as everybody behind one reverse
proxy does, must not be able to lock the caller out. So answers are delayed, not checks. Tokens of 16 or more
characters are safe from guessing because of their length.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_FREE = 3
"""Wrong tokens that an address may send before its answers are delayed: people mistype."""
_FIRST, _LONGEST = 0.25, 5.0
"""Seconds of delay: the first, which doubles with every further wrong token, and the longest."""
_FORGOTTEN = 600.0
"""Seconds without a wrong token after which the count of an address starts again."""
_ADDRESSES = 1000
"""Most addresses that are remembered."""
_WAITING_HERE, _WAITING = 8, 200
"""Most delayed answers at the same time: to one address, and to all."""


@dataclass(slots=True)
class _Address:
    wrong: int = 0
    last: float = 0.0
    waiting: int = 0


class Guesses:
    """Counts wrong tokens by the address they come from."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._waiting = 0

    async def wait(self, remote: str | None) -> bool:
        """Count a wrong token and wait before it is answered. False if too many wait already: then refuse at once."""
        address = self._note(_network(remote or ""))
        if address.wrong <= _FREE:
            return True
        if address.waiting >= _WAITING_HERE or self._waiting >= _WAITING:
            return False
        address.waiting += 1
        self._waiting += 1
        try:
            await asyncio.sleep(min(_FIRST * 2 ** min(address.wrong - _FREE - 1, 10), _LONGEST))
        finally:
            address.waiting -= 1
            self._waiting -= 1
        return True

    def _note(self, name: str) -> _Address:
        now = self._clock()
        address = self._addresses.setdefault(name, _Address())
        self._addresses.move_to_end(name)
        if now - address.last > _FORGOTTEN:
            address.wrong = 0
        address.wrong += 1
        address.last = now
        if len(self._addresses) > _ADDRESSES:
            self._addresses.popitem(last=False)
        return address


def _network(remote: str) -> str:
    """Return the part of an address that an attacker cannot vary at will: for IPv6, the first half."""
    try:
        address = ipaddress.ip_address(remote.partition("%")[0])
    except ValueError:
        return remote
    return remote if address.version == 4 else str(ipaddress.ip_network((int(address), 64), strict=False))
