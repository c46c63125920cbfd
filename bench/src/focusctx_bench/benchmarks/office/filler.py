"""Names, and text that means nothing: the same for the same key, so a world is the same whenever it is made."""

from __future__ import annotations

import random


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST = _words(
    "Ada Ben Clara Dov Edith Farid Greta Hugo Iris Jonas Kaya Liam Mona Nils Olga Pablo Quinn Rosa Sven Tara Umar "
    "Vera Wanda Xenia Yusuf Zoe"
)
LAST = _words(
    "Abbott Brook Cole Dahl Ekdal Fisk Grant Holm Ivers Joyce Kern Lund Marsh Nagel Ostrow Penn Quist Rowe Stern "
    "Thorne Ulrich Voss Wick Young Zeller"
)
TOPICS = _words(
    "cabin picnic garden regatta concert workshop reunion marathon harvest gallery seminar festival bakery orchard "
    "lantern quartet archive harbour"
)
FIRMS = _words("Alder Birch Cedar Dogwood Elm Fir Ginkgo Hazel")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")

_NOUNS = _words(
    "train window ladder kettle meadow bridge letter season engine corner basket ticket winter market pencil "
    "river carpet signal garage morning cousin blanket island planet"
)
_VERBS = _words("passes finds leaves carries follows meets turns keeps opens misses paints answers")
_ADJECTIVES = _words("old quiet green early heavy narrow bright common distant plain late warm")


def prose(key: str, words: int) -> str:
    """About that many words of sentences."""
    chance = random.Random(f"prose {key} {words}")
    said: list[str] = []
    while len(said) < words:
        sentence = (
            f"The {chance.choice(_ADJECTIVES)} {chance.choice(_NOUNS)} {chance.choice(_VERBS)} "
            f"the {chance.choice(_ADJECTIVES)} {chance.choice(_NOUNS)}."
        )
        said += sentence.split()
    return " ".join(said)


def around(key: str, fact: str, words: int) -> str:
    """The fact on a line of its own, with prose before and behind it."""
    return f"{prose(f'before {key}', words // 2)}\n{fact}\n{prose(f'behind {key}', words // 2)}"


def banner(app: str, key: str) -> str:
    return f"Welcome to {app}. {prose(f'banner {app} {key}', 70)}"


def token(app: str, key: str) -> str:
    return f"{app[:2].upper()}-{random.Random(f'token {app} {key}').getrandbits(40):010x}"
