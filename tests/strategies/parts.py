"""What histories of every format are made of: texts, words that a person says, chance, and ids."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
Draw = st.DrawFn
Ids = Iterator[str]
Event = Callable[[Draw, Ids], list[Json]]

SAID = "I say: "
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

_SAMPLES = (
    "ok",
    "read /etc/hosts, then order 4711",
    "first line\nsecond line",
    "[s_1] | Step: lie | Depends on: [s_2]",
    "żółć 漢字 🙂",
    "Let me look.\n```bash\nls -l\n```",
    "Thought: so be it\nAction: look[here]",
    "Observation: nothing",
    "<output>\n</output>",
    '{"user": {"id": 7}}',
    " ",
    "longer than a placeholder, so that a skeleton of it is really shorter than what it stands for",
)
_LONG = (
    "".join(f"{number:3}: def step_{number}(order): return order.price * {number}\n" for number in range(1, 25)),
    json.dumps([{"id": f"W{n}{n}", "status": "open", "note": "to be sent " * 9, "gift": None} for n in range(10, 16)]),
    json.dumps({"user": {"name": "Ann", "notes": ["x" * 90] * 4}, "orders": {f"W{n}": "y" * 150 for n in range(3)}}),
    "I looked at it. All is well so far, as far as I can see! " * 5 + "Shall I go on?\n\n" + "And then? " * 20,
    "one line without an end, " * 70,
    "<output>\n" + "a line of a log\n" * 20 + "Error: no such file\n</output>",
)
"""Long enough that only some of their passages may be shown."""
texts = st.sampled_from(_SAMPLES) | st.text(min_size=1, max_size=6) | st.sampled_from(_LONG)
arguments = texts | st.builds(lambda at, text: json.dumps({"at": at, "text": text}), texts, st.sampled_from(_LONG))
"""Arguments of a call, as text; some are no JSON."""
names = st.sampled_from(["look", "look", "get_order", "write_file", "bash"])
"""Tools that only look something up, and others."""
words = texts.map(SAID.__add__)
booleans = st.booleans()


def one_of(draw: Draw, *choices: Any) -> Any:
    return draw(st.sampled_from(choices))


def some(draw: Draw, most: int = 3) -> range:
    return range(draw(st.integers(1, most)))


def maybe(draw: Draw, value: Json) -> Json:
    """The extra fields, or none of them."""
    return value if draw(booleans) else {}


def events(draw: Draw, ids: Ids, kinds: list[Event]) -> list[Json]:
    # Many histories long enough that there is something to drop, some short enough to be odd.
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=one_of(draw, 5, 0), max_size=8))
    return [message for event in chosen for message in event(draw, ids)]
