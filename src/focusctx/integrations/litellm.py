"""LiteLLM: `litellm.callbacks = [FocusCallback(focus)]` for the SDK and the router; the proxy's config names it.

In the SDK a call is changed once a deployment is chosen. The proxy changes it before that, so that its own checks of a
model's context see what will be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..wire.held import is_held
from .plug import Plug, Source, fail_open, needs

with needs("litellm"):
    from litellm.integrations.custom_logger import CustomLogger

_CHAT, _RESPONSES, _MESSAGES = ("messages", "chat_completions"), ("input", "responses"), ("messages", "anthropic")
_HISTORIES = {
    "completion": _CHAT,
    "acompletion": _CHAT,
    "responses": _RESPONSES,
    "aresponses": _RESPONSES,
    "anthropic_messages": _MESSAGES,
}
"""For each kind of call, where the history stands in its arguments and in which format."""


class FocusCallback(CustomLogger):
    """Calls of a model carry views; the messages that were passed in stay as they are."""

    def __init__(self, focus: Source) -> None:
        super().__init__()
        self._plug = Plug(focus)

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """For the SDK and the router, once per attempt."""
        if "proxy_server_request" in kwargs or _is_translation(kwargs, call_type):
            return None
        return await self._with_view(kwargs, call_type)

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,  # noqa: ARG002  the framework's signature
        cache: Any,  # noqa: ARG002
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any] | None:
        """For the proxy, once per request."""
        return await self._with_view(data, call_type)

    async def _with_view(self, arguments: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """The arguments with a view in place of the history; None where they stay as they are."""
        field, wire = _HISTORIES.get(call_type, ("", ""))
        messages = arguments.get(field)
        if not isinstance(messages, list) or is_held(arguments):
            return None
        with fail_open():
            messages = await self._plug.aview(messages, wire, model=arguments.get("model"))
        return {**arguments, field: messages}


def _is_translation(kwargs: Mapping[str, Any], call_type: Any) -> bool:
    """Whether LiteLLM makes this call to carry out one of another kind, whose history was a view already."""
    outer = getattr(kwargs.get("litellm_logging_obj"), "call_type", call_type)
    return bool(outer != call_type)
