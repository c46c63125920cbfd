"""The replies in the making: prompts are read and join the batch, rows get a token each, ended ones are handed out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...errors import FocusError
from ...types import Prompt, Reply, Usage
from ..grammar import Place, PlanGrammar
from .batch import Batch
from .draw import draw, numbers
from .mask import Guide, Vocabulary
from .model import LoadedModel


class Request(Protocol):
    """`n` replies to a prompt, handed over one by one and then None, or an error instead."""

    @property
    def prompt(self) -> Prompt: ...
    @property
    def n(self) -> int: ...
    @property
    def grammar(self) -> PlanGrammar | None: ...
    @property
    def stop(self) -> threading.Event: ...
    @property
    def hand_over(self) -> Callable[[Reply | FocusError | None], None]: ...


@dataclass(slots=True, eq=False)
class _Answer:
    """What is still to be handed over for a request."""

    request: Request
    guide: Guide | None
    missing: int
    usage: Usage
    """Of the request and its input; the first reply carries it."""


@dataclass(slots=True, eq=False)
class _Row:
    """One reply."""

    answer: _Answer
    numbers: list[float]
    tokens: list[int] = field(default_factory=list)
    place: Place = field(default_factory=Place)
    """In the grammar, where there is one."""

    @property
    def prompt(self) -> Prompt:
        return self.answer.request.prompt

    @property
    def full(self) -> bool:
        return len(self.tokens) == self.prompt.max_tokens


class Writer:
    """A loaded model with a batch that goes on from call to call."""

    def __init__(self, model: LoadedModel, batch: Batch, min_p: float) -> None:
        self.model = model
        self._batch = batch
        self._min_p = min_p
        self._rows: list[_Row] = []
        self._scores: Any = None
        """[rows, words]: how likely each word comes next."""
        self._vocabulary: Vocabulary | None = None
        self._encoded: tuple[Request, list[int]] | None = None

    @property
    def busy(self) -> bool:
        return bool(self._rows)

    def admit(self, request: Request, stopped: Callable[[], bool]) -> bool:
        """Read the prompt and begin its replies; False where they do not fit in now."""
        prompt, n = request.prompt, request.n
        tokens = self._encode(request)
        self.model.check_room(len(tokens), prompt.max_tokens)
        if not self._batch.room_for(len(tokens), n, prompt.max_tokens):
            return False
        self._encoded = None
        torch = self.model.torch
        with self.model.ready():
            scores, cache = self.model.read(tokens, stopped)
            self._batch.add(cache, n, prompt.max_tokens)
            scores = scores.expand(n, -1)
            self._scores = scores if not self._rows else torch.cat([self._scores, scores])
        answer = _Answer(request, self._guide(request), n, Usage(requests=1, input_tokens=len(tokens)))
        self._rows += [_Row(answer, numbers(torch, prompt.seed + k, prompt.max_tokens)) for k in range(n)]
        return True

    def _encode(self, request: Request) -> list[int]:
        """Once, however long it waits for room."""
        if self._encoded is None or self._encoded[0] is not request:
            self._encoded = (request, self.model.encode(request.prompt))
        return self._encoded[1]

    def _guide(self, request: Request) -> Guide | None:
        if request.grammar is None:
            return None
        self._vocabulary = self._vocabulary or Vocabulary(self.model)
        return Guide(self._vocabulary, request.grammar)

    def write(self) -> None:
        """One token for each row that someone waits for."""
        with self.model.ready():
            self._keep([not row.answer.request.stop.is_set() for row in self._rows])
            if not self._rows:
                return
            drawn = draw(
                self.model.torch,
                self._allowed(self._scores),
                [row.prompt.temperature for row in self._rows],
                [row.numbers[len(row.tokens)] for row in self._rows],
                self._min_p,
            )
            for row, token in zip(self._rows, drawn, strict=True):
                row.tokens.append(token)
                if row.answer.guide is not None:
                    row.place = row.answer.guide.after(row.place, token)
            ended = [row.full or row.tokens[-1] in self.model.ends for row in self._rows]
            for row in (row for row, over in zip(self._rows, ended, strict=True) if over):
                self._hand_out(row)
            self._keep([not over for over in ended])
            if self._rows:
                self._scores = self._batch.step([row.tokens[-1] for row in self._rows])

    def _allowed(self, scores: Any) -> Any:
        """The scores without the tokens that a row's grammar does not allow."""
        guided = [(place, row) for place, row in enumerate(self._rows) if row.answer.guide is not None]
        if not guided:
            return scores
        torch = self.model.torch
        masks = torch.stack([row.answer.guide.mask(row.place) for _, row in guided if row.answer.guide is not None])
        if len(guided) == len(self._rows):
            return scores.masked_fill(~masks, float("-inf"))
        places = torch.tensor([place for place, _ in guided], device=self.model.device)
        return scores.index_copy(0, places, scores[places].masked_fill(~masks, float("-inf")))

    def _keep(self, live: list[bool]) -> None:
        if all(live):
            return
        places = [place for place, stays in enumerate(live) if stays]
        self._batch.keep(places)
        self._rows = [self._rows[place] for place in places]
        self._scores = self._scores[self.model.torch.tensor(places, device=self.model.device)] if places else None

    def _hand_out(self, row: _Row) -> None:
        answer, ended = row.answer, row.tokens[-1] in self.model.ends
        usage = answer.usage + Usage(output_tokens=len(row.tokens))
        answer.usage = Usage()
        answer.missing -= 1
        answer.request.hand_over(Reply(self.model.decode(row.tokens), usage, truncated=not ended))
        if not answer.missing:
            answer.request.hand_over(None)

    def fail(self, error: FocusError) -> None:
        """Tell all who wait, and begin anew."""
        for request in {row.answer.request for row in self._rows}:
            request.hand_over(error)
        self._batch.keep([])
        self._rows, self._scores = [], None
