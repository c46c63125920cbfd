"""The token mask against the grammar it stands for, and models that write under it."""

import asyncio
import random

import pytest

from focusctx.config import FocusConfig
from focusctx.drafts.grammar import MOST_LETTERS, Place, PlanGrammar
from focusctx.pipeline.cite import read_sketch
from focusctx.pipeline.draft import build_prompt
from focusctx.types import History, Prompt, Span
from tiny_models import Watched, save

torch = pytest.importorskip("torch", reason="needs the extra `transformers`")
pytest.importorskip("transformers", reason="needs the extra `transformers`")

from focusctx.drafts.local.mask import Guide, Vocabulary  # noqa: E402

PIECES = [
    *(" |", " | Depends", " Depends on: [", "s_", "s_1", "2", "12", "]\n", "], ", ", s_", " s", "Step", ": ", "S"),
    *("tep: go", "Rescued Spans: [", "] | Reason: no", "\n\n", "\nStep", "]\nStep: a", "word", " word", "|", "a|b"),
    *("o: x", "<", "]", "[s_1, s_2]\n", "w" * 100),
]


class Pieces:
    """A vocabulary of chosen pieces and all single letters."""

    def __init__(self):
        letters = sorted(set("".join(PIECES)) | set("0123456789RStep: "))
        self.texts = ["", *PIECES, *letters]
        self.order = sorted((text, token) for token, text in enumerate(self.texts) if text)
        self.model = type("Model", (), {"torch": torch, "device": "cpu", "ends": {0}})()

    words = property(lambda self: [bool(text) and not set(text) & set("|:<\n") for text in self.texts])
    others = property(lambda self: [token for token, text in enumerate(self.texts) if set(text) & set("|:<\n")])
    beginning_with = Vocabulary.beginning_with


def fits(grammar, place, text):
    for letter in text:
        place = grammar.advance(place, letter)
        if place is None:
            return False
    return True


@pytest.mark.parametrize("rescues", [True, False])
def test_a_token_is_allowed_where_all_its_letters_fit(rescues):
    grammar = PlanGrammar((1, 2, 12, 120), rescues)
    vocabulary = Pieces()
    chance = random.Random(3)
    checked, places = set(), []
    for _ in range(60):
        guide, place = Guide(vocabulary, grammar), Place()
        for _ in range(120):
            mask = guide.mask(place)
            expected = [
                fits(grammar, place, text) and not (place.long and text[0] not in "|\n")
                if text
                else grammar.may_end(place)
                for text in vocabulary.texts
            ]
            assert mask.tolist() == expected, place
            checked.add(place.key)
            places.append(place)
            token = chance.choice([token for token, allowed in enumerate(expected) if allowed])
            if token == 0:
                break
            place = guide.after(place, token)
    assert len(checked) > 40
    assert any(place.letters >= MOST_LETTERS for place in places), "some line was cut short"


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    return Watched(save(tmp_path_factory.mktemp("model") / "m", template=None, room=2048), grammar=True)


def question(count):
    spans = tuple(Span(index, "look", "act()", f"value {index}") for index in range(1, count + 1))
    prompt = build_prompt(History("goal", spans), FocusConfig(temperature=1.0, sketch_tokens=1000))
    return Prompt("Rescued Spans:", prompt.user, prompt.history, 1.0, 1500, 7 * count)


async def ask(draft, prompt, n):
    return sorted([(reply.text, reply.truncated) async for reply in draft.sample(prompt, n)])


async def test_a_model_that_writes_noise_writes_plans(watched):
    alone = [await ask(watched.draft, question(count), 2) for count in (2, 5)]
    for count, replies in zip((2, 5), alone, strict=True):
        for text, truncated in replies:
            sketch = read_sketch(text, count, truncated=truncated)
            assert sketch.problem is None, text
            assert sketch.unknown == ()
    assert len({text for replies in alone for text, _ in replies}) == 4
    together = await asyncio.gather(*(ask(watched.draft, question(count), 2) for count in (2, 5)))
    assert together == alone
