"""LiteLLM: `litellm.callbacks = [FocusCallback(focus)]` for the SDK and the router; the proxy's config names it.

In the SDK a call is changed once a deployment is chosen. The proxy changes it before that, so that its own checks of a
model's context see what will be sent. There, every key is a tenant.

LiteLLM has no hook for its synchronous `completion`: call that of the callback, `callback.completion(…)`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from hashlib import sha256
from typing import Any

from ..wire.foreign import is_held
from .plug import DEFAULT_TENANT, Caller, Source, TenantOf, fail_open, needs, plugged

with needs("litellm"):
    import litellm
    from litellm.integrations.custom_logger import CustomLogger

_log = logging.getLogger("focusctx")
_has_view: ContextVar[bool] = ContextVar("has_view", default=False)

_CHAT, _RESPONSES, _MESSAGES = ("messages", "chat_completions"), ("input", "responses"), ("messages", "anthropic")
_HISTORIES = {
    "completion": _CHAT,
    "acompletion": _CHAT,
    "responses": _RESPONSES,
    "aresponses": _RESPONSES,
    "anthropic_messages": _MESSAGES,
}
"""The argument with the history and its format, by the kind of call."""


class FocusCallback(CustomLogger):
    """Callback with which model calls carry views; the messages that were passed in stay as they are."""

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        super().__init__()
        self.focusctx = plugged(focus, tenant)
        self._has_warned = False

    def completion(self, model: str, messages: list[Any], **arguments: Any) -> Any:
        """Call `litellm.completion` with a view: LiteLLM has no hook for it."""
        sent = messages
        with fail_open():
            sent = self.focusctx.view(messages, "chat_completions", _caller({"model": model, **arguments}))
        token = _has_view.set(True)
        try:
            return litellm.completion(model=model, messages=sent, **arguments)
        finally:
            _has_view.reset(token)

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        """Warn once about calls without a view. LiteLLM would swallow an exception here."""
        if kwargs.get("call_type") == "completion" and not _has_view.get() and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "litellm.completion and Router.completion are not compressed, because LiteLLM has no hook for them: "
                "use acompletion, or the callback's own completion(model=…, messages=…)"
            )

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """Change a call of the SDK or the router; called once per attempt."""
        if "proxy_server_request" in kwargs or _is_translation(kwargs, call_type):
            return None
        return await self._with_view(kwargs, call_type)

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,
        cache: Any,  # noqa: ARG002  the framework's signature
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any] | None:
        """Change a call of the proxy; called once per request."""
        return await self._with_view(data, call_type, _tenant(user_api_key_dict))

    async def _with_view(
        self, arguments: dict[str, Any], call_type: Any, tenant: str = DEFAULT_TENANT
    ) -> dict[str, Any] | None:
        """Return the arguments with a view in place of the history; None to leave them unchanged."""
        field, wire = _HISTORIES.get(call_type, ("", ""))
        messages = arguments.get(field)
        if not isinstance(messages, list) or is_held(arguments):
            return None
        with fail_open():
            messages = await self.focusctx.aview(messages, wire, _caller(arguments, tenant))
        return {**arguments, field: messages}


def _caller(arguments: Mapping[str, Any], tenant: str = DEFAULT_TENANT) -> Caller:
    """Return the caller with the session that the user names. LiteLLM's own trace ids differ at every call."""
    noted = [arguments.get(field) or {} for field in ("litellm_metadata", "metadata")]
    named = [arguments.get("litellm_session_id"), *(note.get("session_id") for note in noted)]
    session = next((str(name) for name in named if name), None)
    return Caller(tenant=tenant, id=session, model=arguments.get("model"), framework="litellm")


def _tenant(key: Any) -> str:
    """Return a hash of the caller's key as its tenant: the key itself is stored nowhere."""
    name = getattr(key, "api_key", None)
    return f"key-{sha256(name.encode()).hexdigest()[:16]}" if name else DEFAULT_TENANT


def _is_translation(kwargs: Mapping[str, Any], call_type: Any) -> bool:
    """Return True if LiteLLM makes this call for a call of another kind, whose history is a view already."""
    outer = getattr(kwargs.get("litellm_logging_obj"), "call_type", call_type)
    return bool(outer != call_type)
