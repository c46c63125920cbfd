"""Which parts of a round go together, and what rounds cost together."""

import pytest

from focusctx.proxy.recall.parts import Part, add, keep

KINDS = {"t": "thought", "c": "call", "r": "recall", "s": "said"}


def parts(text: str) -> list[Part]:
    return [Part(index, KINDS[kind], {}) for index, kind in enumerate(text)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("round", "kept", "bound"),
    [
        ("r", [0], [0]),
        ("tr", [0, 1], [0, 1]),
        ("ttr", [0, 1, 2], [0, 1, 2]),
        ("trc", [0, 1], [0, 1]),
        ("tcr", [0, 2], [2]),  # bound: the thought goes with the call it names
        ("tctr", [2, 3], [2, 3]),  # thoughts that were apart are not put side by side
        ("trtr", [0, 1, 2, 3], [0, 1, 2, 3]),
        ("trtc", [0, 1], [0, 1]),  # nor left without what they led to
        ("rsr", [0, 2], [0, 2]),
    ],
)
def test_recalls_keep_the_thoughts_before_them(round: str, kept: list[int], bound: list[int]) -> None:
    for expected, is_bound in ((kept, False), (bound, True)):
        found = keep(parts(round), lambda part: part.kind == "recall", bound=is_bound)
        assert [part.index for part in found] == expected


def test_usage_adds_up() -> None:
    one = {"in": 1, "details": {"cached": 2, "kind": "a"}, "tier": "x", "only": 3, "none": 5, "flag": True}
    other = {"in": 10, "details": {"cached": 20, "kind": "b"}, "tier": "y", "new": 4, "none": None, "flag": True}
    assert add(one, other) == {
        "in": 11,
        "details": {"cached": 22, "kind": "b"},
        "tier": "y",
        "only": 3,
        "new": 4,
        "none": 5,
        "flag": True,
    }
    assert add({}, other) == other
