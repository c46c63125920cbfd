"""New settings for a proxy that goes on running."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from ..compressor import Focus
from ..errors import FocusError
from .settings import Settings
from .tls import load_certificate

if TYPE_CHECKING:
    from .app import Proxy

_log = logging.getLogger("focusctx.proxy")

_FIXED = ("host", "port", "store", "otel", "dry_run", "grace", "tls_cert", "tls_key")
"""Settings that a running proxy keeps."""

Read: TypeAlias = Callable[[], tuple[Focus, Settings]]
"""Reads the settings again."""


def reload(proxy: Proxy, read: Read) -> None:
    """Read the settings again and use them from the next request on. If they are wrong, the old ones stay in use.

    The certificate is read again, too. If anything about compression changed, conversations go on from the store.
    """
    old = proxy.settings
    try:
        focus, new = read()
        settings = replace(new, **{name: getattr(old, name) for name in _FIXED})
        if focus.draft.name == proxy.focus.draft.name:  # a model that is loaded need not be loaded again
            focus = Focus(proxy.focus.draft, config=focus.config)
        changed = _compression(proxy.focus, old) != _compression(focus, settings)
        if proxy.tls is not None and settings.tls_cert is not None:
            load_certificate(proxy.tls, settings.tls_cert, settings.tls_key)
        proxy.use(focus, settings)
    except (FocusError, OSError) as error:
        _log.error("the settings were not reloaded, the old ones stay in use: %s", str(error).split("\n", 1)[0])
        return
    if changed:
        proxy.conversations.renew()
    later = [name for name in _FIXED if getattr(new, name) != getattr(old, name)]
    _log.info("settings reloaded%s", f"; a restart is needed for {', '.join(later)}" if later else "")


def _compression(focus: Focus, settings: Settings) -> tuple[object, ...]:
    """Return everything that sessions were made from."""
    return (
        *(focus.draft.name, focus.config, settings.recall, settings.only_if_it_pays, settings.model_budgets),
        {caller.name: caller.budget for caller in settings.callers},
        {upstream.name: upstream.budget for upstream in settings.upstreams},
    )
