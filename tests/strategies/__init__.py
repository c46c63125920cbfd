"""Legal histories in every wire format, as agents really send them.

A history is a few events one after the other: the user speaks, the agent takes a step of one of many shapes.
Each shape is a small function that writes its messages with the ids it is given, so that a failing example
shrinks to the few shapes that matter. What a person says always begins with `SAID`: tests find it again by that.
"""

from .damaged import damaged_histories, json_lists, json_values
from .formats import COMPLETE_HISTORIES, HISTORIES, format_of
from .parts import SAID, Json, texts
from .react import ACTIONS, OBSERVATIONS
from .responses import UNKNOWN_ITEM

__all__ = [
    "ACTIONS",
    "COMPLETE_HISTORIES",
    "HISTORIES",
    "OBSERVATIONS",
    "SAID",
    "UNKNOWN_ITEM",
    "Json",
    "damaged_histories",
    "format_of",
    "json_lists",
    "json_values",
    "texts",
]
