"""OpenAI's SDK: `client = focused(OpenAI(), focus)`, for chat completions and responses.

A call is changed once, before the SDK's retries. Only model calls with their whole history are changed: not other
endpoints, not a text as input, and no responses whose past the server holds.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..types import Message
from ..wire.foreign import is_held
from .plug import Caller, Plug, Source, TenantOf, fail_open, needs, plugged

with needs("openai"):
    from openai import AsyncOpenAI, OpenAI

if TYPE_CHECKING:
    from openai._models import FinalRequestOptions

Client = TypeVar("Client", OpenAI, AsyncOpenAI)

_HISTORIES = {"/chat/completions": ("messages", "chat_completions"), "/responses": ("input", "responses")}
"""The field with the history and its format, by endpoint."""


def focused(client: Client, focus: Source, *, tenant: TenantOf | None = None) -> Client:
    """Return a copy of the client whose calls carry views, as do copies of it made with `with_options`.

    Its attribute `focusctx` has the conversations, events and savings.
    """
    return _plugged(client.copy(), plugged(focus, tenant))


def _plugged(client: Client, plug: Plug) -> Client:
    any_client = cast("Any", client)  # its methods are replaced on this one object
    send, duplicate = any_client.request, any_client.copy

    def request(cast_to: Any, options: FinalRequestOptions, **more: Any) -> Any:
        with fail_open():
            if history := _history(options):
                options = history.replaced_by(plug.view(history.messages, history.format, history.caller))
        return send(cast_to, options, **more)

    async def arequest(cast_to: Any, options: FinalRequestOptions, **more: Any) -> Any:
        with fail_open():
            if history := _history(options):
                options = history.replaced_by(await plug.aview(history.messages, history.format, history.caller))
        return await send(cast_to, options, **more)

    any_client.focusctx = plug
    any_client.request = arequest if isinstance(client, AsyncOpenAI) else request
    any_client.copy = any_client.with_options = lambda **changes: _plugged(duplicate(**changes), plug)
    return client


@dataclass(frozen=True, slots=True)
class _RequestHistory:
    """The history in a request."""

    options: FinalRequestOptions
    field: str
    format: str
    messages: list[Message]
    model: str | None

    @property
    def caller(self) -> Caller:
        return Caller(model=self.model, framework="openai")

    def replaced_by(self, view: list[Message]) -> FinalRequestOptions:
        options = copy.copy(self.options)
        options.json_data = {**cast("dict[str, Any]", options.json_data), self.field: view}
        return options


def _history(options: FinalRequestOptions) -> _RequestHistory | None:
    body = options.json_data
    if options.method != "post" or options.url not in _HISTORIES or not isinstance(body, dict):
        return None
    field, wire = _HISTORIES[options.url]
    messages = body.get(field)
    if not isinstance(messages, list) or is_held(body):
        return None
    return _RequestHistory(options, field, wire, messages, body.get("model"))
