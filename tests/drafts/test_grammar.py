"""What the grammar lets through can be read, and it lets nothing else through."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.config import FocusConfig
from focusctx.drafts.grammar import MOST_STEPS, Place, PlanGrammar
from focusctx.pipeline.cite import read_sketch
from focusctx.pipeline.draft import build_prompt
from focusctx.types import History, Span

GRAMMARS = st.builds(
    PlanGrammar,
    st.lists(st.integers(1, 130), max_size=12, unique=True).map(lambda spans: tuple(sorted(spans))),
    st.booleans(),
)
WORDS = "aD s_1,[].]ö|:\n\t<\u2028R"


def follow(grammar, text):
    place = Place()
    for letter in text:
        place = grammar.advance(place, letter)
        if place is None:
            return None
    return place


def wander(grammar, chance):
    """A plan made of letters that fit, drawn by chance."""
    place, text = Place(), ""
    while not (grammar.may_end(place) and (chance.random() < 0.3 or not grammar.next_letters(place))):
        options = grammar.next_letters(place)
        letters = sorted(options) if options is not None else list(WORDS)
        letter = chance.choice(letters)
        there = grammar.advance(place, letter)
        if there is None:
            assert options is None, f"{letter!r} was said to fit after {text!r}"
            continue
        place, text = there, text + letter
    return text


@given(GRAMMARS, st.integers(0, 2**32).map(random.Random))
def test_every_plan_can_be_read_to_the_letter(grammar, chance):
    text = wander(grammar, chance)
    sketch = read_sketch(text, grammar.spans)
    assert (sketch.problem, sketch.unknown) == (None, ())
    written = [
        [int(found) for found in re.findall(r"s_(\d+)", ids)] for ids in re.findall(r"(?:on|Spans): \[(.*?)\]", text)
    ]
    assert all(ids == sorted(set(ids)) for ids in written), "each once, in their order"
    assert set().union(*written) == sketch.cited | sketch.rescued
    assert 1 <= text.count("Step: ") <= MOST_STEPS
    assert text.count("Rescued Spans: ") == grammar.rescues


@given(GRAMMARS, st.integers(0, 2**32).map(random.Random))
def test_two_places_with_one_key_go_on_alike(grammar, chance):
    place, seen = Place(), {}
    for letter in wander(grammar, chance):
        fitting = {other for other in WORDS + letter if grammar.advance(place, other) is not None}
        assert seen.setdefault(place.key, fitting) & set(WORDS) == fitting & set(WORDS)
        place = grammar.advance(place, letter)


@pytest.mark.parametrize(
    "text",
    [
        "Step: use it | Depends on: [s_2]\n",
        "Step: use it | Depends on: [s_4, s_12]\nStep: b | Depends on: []\n",
        "Step: a b| Depends on: [s_4]\nRescued Spans: [] | Reason: none\n",
    ],
)
def test_good_plans(text):
    grammar = PlanGrammar((2, 4, 12), rescues="Rescued" in text)
    place = follow(grammar, text)
    assert place is not None
    assert grammar.may_end(place)


@pytest.mark.parametrize(
    "text",
    [
        "Su",
        "Step: |",
        "Step: a | Depends on: [s_3",
        "Step: a | Depends on: [s_1]",
        "Step: a | Depends on: [s_4, s_2",
        "Step: a | Depends on: [s_4, s_4",
        "Step: a | Depends on: [s_4,]",
        "Step: a | Depends on: [s_12,",
        "Step: it depends on:",
        "Step: a\n",
        "R",
        "Step: a | Depends on: []\nR",
        "Step: a | Depends on: []\n" * MOST_STEPS + "S",
    ],
)
def test_what_does_not_fit(text):
    grammar = PlanGrammar((2, 4, 12), rescues=False)
    assert follow(grammar, text) is None
    assert follow(grammar, text[:-1]) is not None, "up to the last letter it did"


def test_the_grammar_of_a_prompt():
    history = History("goal", tuple(Span(index, "t", "a", "o") for index in (1, 3)))
    assert PlanGrammar.of(build_prompt(history, FocusConfig())) == PlanGrammar((1, 3), rescues=True)
    assert PlanGrammar.of(build_prompt(history, FocusConfig(defensive=False))) == PlanGrammar((1, 3), rescues=False)


def test_gbnf():
    assert PlanGrammar((1, 3), rescues=True).gbnf().splitlines() == [
        "root ::= step{1,8} rescue",
        r'step ::= "Step: " text "| Depends on: [" ids "]\n"',
        r'rescue ::= "Rescued Spans: [" ids "] | Reason: " text "\n"',
        r"text ::= [^|:<\x00-\x1F\x7F-\x9F\u2028\u2029]{1,240}",
        'ids ::= "" | "s_1" after-1 | "s_3" after-3',
        'after-1 ::= (", s_3")? after-3',
        'after-3 ::= ""',
    ]
    assert "rescue" not in PlanGrammar((), rescues=False).gbnf()


def test_plans_differ():
    grammar = PlanGrammar((1, 2, 3), rescues=True)
    assert len({wander(grammar, random.Random(seed)) for seed in range(20)}) > 15, "the walk is no single path"
