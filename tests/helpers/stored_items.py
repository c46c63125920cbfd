"""The items a scripted Responses API has stored, and how it judges references to them, as OpenAI's does.

Ids it did not make are not judged: a test may name any.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

Json = dict[str, Any]


class StoredItems:
    def __init__(self) -> None:
        self._items: dict[str, Json] = {}
        self._leads_to: dict[str, Json] = {}
        """For each reasoning item, by its id, the item that followed it."""
        self._led_by: dict[str, str] = {}
        """For each item that followed reasoning, by its id, that reasoning's id."""

        self._calls: dict[str, set[str]] = {}
        """For each item, by its id, the call ids of the response it came in."""

    def remember(self, output: Sequence[Json]) -> None:
        self._items |= {item["id"]: item for item in output}
        calls = {item["call_id"] for item in output if "call_id" in item}
        self._calls |= {item["id"]: calls for item in output}
        for before, after in pairwise(output):
            if before["type"] == "reasoning":
                self._leads_to[before["id"]] = after
                self._led_by[after["id"]] = before["id"]

    def expanded(self, items: Sequence[Json]) -> list[Json]:
        """The items, with what is stored in the place of references to it."""
        return [self._items.get(str(item.get("id")), item) if _is_reference(item) else item for item in items]

    def wrong(self, items: Sequence[Json]) -> Iterator[str]:
        """What the API would say about references that stand without the rest of their step."""
        called = {item.get("call_id") for item in self.expanded(items)}
        for place, item in enumerate(items):
            identity = str(item.get("id"))
            if not _is_reference(item) or identity not in self._items:
                continue
            if missing := self._calls[identity] - called:
                yield f"Item '{identity}' was provided without the calls it came with: {', '.join(sorted(missing))}."
            before, after = items[place - 1 : place], items[place + 1 : place + 2]
            led_to = self._leads_to.get(identity)
            if led_to is not None and not any(_is_same(one, led_to) for one in after):
                yield f"Item '{identity}' of type 'reasoning' was provided without its required following item."
            led_by = self._led_by.get(identity)
            if led_by is not None and not any(one.get("id") == led_by for one in before):
                yield f"Item '{identity}' was provided without its required 'reasoning' item: '{led_by}'."


def _is_reference(item: Json) -> bool:
    return item.get("type") == "item_reference"


def _is_same(item: Json, stored: Json) -> bool:
    """Whether an item is the stored one: by its id, or, as agents send calls in full, by its call id."""
    return item.get("id") == stored["id"] or ("call_id" in stored and item.get("call_id") == stored["call_id"])
