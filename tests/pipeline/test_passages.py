"""Passages: a text cut by its structure, always in the same way, and shown in part with marks."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.pipeline.passages import SHORT, Passages, Piece, cut, is_shortened, uncut
from helpers.oracles import is_cut_of

LOG = "".join(f"{number:3} handled request {number} in {number * 7 % 90} ms\n" for number in range(120))
ORDERS = [
    {
        "order_id": f"W{1000 + n}",
        "items": [f"item {n}.{k}" for k in range(9)],
        "note": "left at the door " * 6,
        "x": None,
    }
    for n in range(12)
]
SPEECH = "I looked at all of it. The first plan costs more than the second one! " * 6 + "Shall I book it?"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=12), inner, max_size=8),
    max_leaves=60,
)
texts = st.one_of(
    st.lists(st.sampled_from(["", "a", "  indented line", "Error: no such file", "word " * 60, "x" * 1500])).map(
        "\n".join
    ),
    st.builds(lambda value, indent: json.dumps(value, indent=indent), values, st.sampled_from([None, 2])),
    st.text(),
    st.text(alphabet='{}[]",: \n', max_size=400),
    st.sampled_from([LOG, json.dumps(ORDERS), json.dumps(ORDERS, indent=2), SPEECH]),
)


def leaves(piece: Piece) -> list[Piece]:
    return [leaf for one in piece.inside for leaf in leaves(one)] if piece.inside else [piece]


@given(text=texts, speech=st.booleans())
def test_passages_cover_the_text_in_order_and_are_numbered_from_one(text: str, speech: bool) -> None:
    found = cut(text, speech=speech)
    pieces = leaves(found.root)
    assert "".join(text[piece.start : piece.end] for piece in pieces) == text
    assert all(before.end == after.start for before, after in pairwise(pieces))
    assert [number for number, _ in found.numbered()] == list(range(1, found.count + 1))
    assert all(found.of(number) == words for number, words in found.numbered())


@given(text=texts, speech=st.booleans(), data=st.data())
def test_what_is_shown_is_the_texts_own_words(text: str, speech: bool, data: st.DataObject) -> None:
    found = cut(text, speech=speech)
    assert found.shown(range(1, found.count + 1)) == text
    numbers = data.draw(st.frozensets(st.integers(1, found.count))) if found.count else frozenset[int]()
    shown = found.shown(numbers)
    assert is_cut_of(text, shown)
    for number in numbers:
        assert found.of(number) in shown, "a passage that was asked for is there, whole"


@given(text=texts)
def test_cutting_again_is_cutting_alike(text: str) -> None:
    assert cut(text) == cut(f"{text} "[:-1])


@pytest.mark.parametrize("text", ["", "ok", "x" * SHORT, json.dumps({"a": list(range(40))})[:SHORT]])
def test_a_short_text_is_not_cut(text: str) -> None:
    assert cut(text) == uncut(text, 0)
    assert cut(text).shown(()) == text


def test_lines_left_out_are_counted_and_the_first_and_the_outcome_stay() -> None:
    shown = cut(LOG + "Error: disk full\n").shown(())
    assert shown == "  0 handled request 0 in 0 ms\n[… 119 lines left out]\nError: disk full\n"
    assert is_shortened(shown)
    assert not is_shortened(LOG)


def test_most_outcomes_are_left_out_where_there_are_many() -> None:
    text = "".join(f"Error: number {number} of a great many failures\n" for number in range(50))
    assert cut(text).shown(()).count("Error") == 3


def test_json_is_cut_between_elements_and_keeps_keys_and_brackets() -> None:
    found = cut(json.dumps({"user": "ann", "orders": ORDERS}))
    assert found.of(1) == '"user": "ann", '
    for number in range(2, found.count + 1):
        shown = found.shown({number})
        assert '"orders": [' in shown
        assert shown.startswith("{")
        assert shown.endswith("]}")
    assert found.shown({1}).startswith('{"user": "ann", [… ')


def test_an_object_that_fits_a_passage_is_never_torn_apart() -> None:
    small = [{"sku": f"A-{n}", "colour": "red" * n, "left": n} for n in range(40)]
    found = cut(json.dumps(small))
    assert found.count > 5
    for _, words in found.numbered():
        assert all(value in small for value in json.loads(f"[{words.rstrip(', ')}]"))


def test_an_id_stays_with_what_is_shown_of_its_object() -> None:
    big = [
        {"order_id": f"W{n}", "status": "open", **{f"field {k}": f"{n}.{k} " * 30 for k in range(6)}} for n in range(4)
    ]
    found = cut(json.dumps(big))
    number = next(number for number, words in found.numbered() if words.startswith('"field 3": "2.3'))
    shown = found.shown({number})
    assert '"order_id": "W2", "status": "open"' in shown
    assert '"W1"' not in shown
    assert "2.4" not in shown


def test_speech_is_cut_between_sentences() -> None:
    found = cut(SPEECH, speech=True)
    assert found.count > 3
    assert all(re.search(r"[.!?]\s*$", words) for _, words in found.numbered())
    assert "Shall I book it?" in found.shown({found.count})
    assert found.shown({found.count}).startswith("[… ")


def test_a_text_with_an_image_goes_as_a_whole() -> None:
    whole: Passages = uncut(LOG, 1)
    assert whole.shown({1}) == LOG
    assert whole.shown(()) == "[… 120 lines left out]\n"


def test_nothing_shorter_than_its_mark_is_left_out() -> None:
    text = "\n".join(["header", "x" * 200, "tiny", "y" * 200])
    found = cut(text)
    numbers = {number for number, words in found.numbered() if "tiny" not in words}
    assert found.shown(numbers) == text
