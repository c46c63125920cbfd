"""Which tokens a grammar allows next.

The vocabulary is read once and sorted, so that the tokens that begin with a given text stand together. Where the
grammar leaves little choice, only those are looked at; within words nearly all tokens are allowed, and what is
forbidden there is known beforehand. A mask is kept for each kind of place, and few kinds occur.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from ..grammar import FORBIDDEN, TEXT, Place, PlanGrammar
from .model import LoadedModel


class Vocabulary:
    """What each token of a model reads as."""

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self.texts = _texts(model)
        self.order = sorted((text, token) for token, text in enumerate(self.texts) if text)
        self.words = [bool(text) and not FORBIDDEN.search(text) for text in self.texts]
        self.others = [token for token, text in enumerate(self.texts) if FORBIDDEN.search(text)]

    def beginning_with(self, text: str) -> Iterator[tuple[str, int]]:
        for place in range(bisect_left(self.order, (text,)), len(self.order)):
            if not self.order[place][0].startswith(text):
                return
            yield self.order[place]


class Guide:
    """The masks of one prompt's grammar."""

    def __init__(self, vocabulary: Vocabulary, grammar: PlanGrammar) -> None:
        self.grammar = grammar
        self._vocabulary = vocabulary
        self._masks: dict[tuple[object, ...], Any] = {}

    def mask(self, place: Place) -> Any:
        """[words]: True for each token that may come next. Never empty: a plan that cannot go on ends."""
        if place.key not in self._masks:
            self._masks[place.key] = self._make(place)
        return self._masks[place.key]

    def after(self, place: Place, token: int) -> Place:
        """The place after one more token, an allowed one."""
        end = self._walk(place, self._vocabulary.texts[token])
        return end if end is not None else place

    def _make(self, place: Place) -> Any:
        model, vocabulary = self._vocabulary.model, self._vocabulary
        if place.kind == TEXT:
            closing = place.line[place.part + 1][0] if place.long else ""
            others = (token for token in vocabulary.others if vocabulary.texts[token].startswith(closing))
            allowed = [token for token in others if self._walk(place, vocabulary.texts[token])]
            mask = [False] * len(vocabulary.texts) if place.long else list(vocabulary.words)
        else:
            allowed = list(self._allowed(place))
            mask = [False] * len(vocabulary.texts)
        for token in allowed:
            mask[token] = True
        if self.grammar.may_end(place) or not any(mask):
            for token in model.ends:
                mask[token] = True
        return model.torch.tensor(mask, device=model.device)

    def _allowed(self, place: Place) -> Iterator[int]:
        """Follow the letters that fit as long as some token begins with them."""
        paths = [("", place)]
        while paths:
            text, here = paths.pop()
            letters = self.grammar.next_letters(here)
            if letters is None:  # words follow: whatever begins so is tried to its end
                found = self._vocabulary.beginning_with(text)
                yield from (token for whole, token in found if whole != text and self._walk(here, whole[len(text) :]))
                continue
            for letter in letters:
                longer, there = text + letter, self.grammar.advance(here, letter)
                first = next(self._vocabulary.beginning_with(longer), None)
                if first is None or there is None:
                    continue
                for whole, token in self._vocabulary.beginning_with(longer):
                    if whole != longer:
                        break
                    yield token
                paths.append((longer, there))

    def _walk(self, place: Place, text: str) -> Place | None:
        here: Place | None = place
        for letter in text:
            here = self.grammar.advance(here, letter) if here is not None else None
            if here is None:
                return None
        return here


def _texts(model: LoadedModel) -> list[str]:
    """What each token adds behind another one: alone, some tokenizers drop a leading space. Special ones: nothing."""
    tokenizer, size = model.tokenizer, model.model.get_output_embeddings().weight.shape[0]
    before = tokenizer("a", add_special_tokens=False)["input_ids"][-1]
    known = range(min(size, len(tokenizer)))
    pairs = tokenizer.batch_decode([[before, token] for token in known], clean_up_tokenization_spaces=False)
    start = len(tokenizer.decode([before]))
    special = {*tokenizer.all_special_ids, *model.ends}
    texts = ["" if token in special else pair[start:] for token, pair in zip(known, pairs, strict=True)]
    return texts + [""] * (size - len(texts))
