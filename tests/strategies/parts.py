"""What histories of every format are made of: texts, words that a person says, chance, and ids."""

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
texts = st.sampled_from(_SAMPLES) | st.text(min_size=1, max_size=6)
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
