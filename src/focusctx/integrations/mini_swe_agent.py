"""mini-swe-agent: `DefaultAgent(FocusModel(model, focus), env)`; models are duck-typed there, so no import is needed.

What `DefaultAgent.query` hands to its model are wire messages with notes of the agent's own under `extra`, which every
model leaves out of the request. Models of the Responses API keep a whole response as one message and send its items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..types import Message
from .plug import Caller, Source, TenantOf, fail_open, plugged


class FocusModel:
    """Wraps a model, and queries it with views; everything else is passed on to it."""

    def __init__(self, model: Any, focus: Source, *, tenant: TenantOf | None = None) -> None:
        self._model = model
        self.focusctx = plugged(focus, tenant)

    def query(self, messages: Sequence[Message], **kwargs: Any) -> dict[str, Any]:
        with fail_open():
            given = list(_items(messages))
            name = getattr(self._model.config, "model_name", None)
            view = self.focusctx.view(given, _format(messages), Caller(model=name, framework="mini_swe_agent"))
            messages = view if view != given else messages
        answer: dict[str, Any] = self._model.query(messages, **kwargs)
        return answer

    def __getattr__(self, name: str) -> Any:
        if name == "_model" or name.startswith("__"):  # a copy in the making is asked for these, and has nothing yet
            raise AttributeError(name)
        return getattr(self._model, name)


def _items(messages: Sequence[Message]) -> Iterator[Message]:
    for message in messages:
        for item in message["output"] if _is_response(message) else [message]:
            yield {key: value for key, value in item.items() if key != "extra"}


def _format(messages: Sequence[Message]) -> str:
    return "responses" if any(map(_is_response, messages)) else "chat_completions"


def _is_response(message: Message) -> bool:
    return message.get("object") == "response"
