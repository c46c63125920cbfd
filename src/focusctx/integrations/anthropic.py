"""Anthropic's SDK: `client = Anthropic(middleware=[FocusMiddleware(focus)])`.

The SDK runs middleware once per attempt; a repeated call gets the same view again (see `plug.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..wire.foreign import is_held
from .plug import Caller, Source, TenantOf, fail_open, needs, plugged

with needs("anthropic"):
    from anthropic import Middleware

if TYPE_CHECKING:
    from anthropic import APIRequest, APIResponse, AsyncAPIResponse, AsyncCallNext, CallNext

_MESSAGES = "/v1/messages"


class FocusMiddleware(Middleware):
    """Middleware of `Anthropic` and `AsyncAnthropic`: model calls carry views, other requests are unchanged."""

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        self.focusctx = plugged(focus, tenant)

    def handle(self, request: APIRequest, call_next: CallNext) -> APIResponse[Any]:
        with fail_open():
            if body := _body(request):
                view = self.focusctx.view(body["messages"], "anthropic", _caller(body))
                request = _with(request, body, view)
        return call_next(request)

    async def handle_async(self, request: APIRequest, call_next: AsyncCallNext) -> AsyncAPIResponse[Any]:
        with fail_open():
            if body := _body(request):
                view = await self.focusctx.aview(body["messages"], "anthropic", _caller(body))
                request = _with(request, body, view)
        return await call_next(request)


def _body(request: APIRequest) -> dict[str, Any] | None:
    """Return the request's body if it is a model call with its whole history."""
    body = request.json
    if request.method != "post" or request.url.partition("?")[0] != _MESSAGES or not isinstance(body, dict):
        return None
    return body if isinstance(body.get("messages"), list) and not is_held(body) else None


def _caller(body: dict[str, Any]) -> Caller:
    return Caller(model=body.get("model"), framework="anthropic")


def _with(request: APIRequest, body: dict[str, Any], view: list[Any]) -> APIRequest:
    return request if view == body["messages"] else request.copy(body={**body, "messages": view})
