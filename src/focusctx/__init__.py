"""focusctx: keep, word for word, the steps your agent's future depends on, and drop the rest."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compressor import Focus as Focus
    from .config import FocusConfig as FocusConfig
    from .errors import ConfigError as ConfigError
    from .errors import DraftError as DraftError
    from .errors import FocusError as FocusError
    from .errors import MessageError as MessageError
    from .errors import MissingExtraError as MissingExtraError
    from .errors import StoreError as StoreError
    from .session.conversation import Conversation as Conversation
    from .session.conversation import View as View
    from .session.events import SessionEvent as SessionEvent
    from .session.session import Session as Session
    from .session.store import Archived as Archived
    from .session.store import Store as Store
    from .session.store import StoredEvent as StoredEvent
    from .session.store import Totals as Totals
    from .types import Certificate as Certificate
    from .types import Decision as Decision
    from .types import DraftModel as DraftModel
    from .types import History as History
    from .types import Message as Message
    from .types import Prompt as Prompt
    from .types import Reply as Reply
    from .types import Result as Result
    from .types import Sketch as Sketch
    from .types import Span as Span
    from .types import Usage as Usage
    from .types import UserTurn as UserTurn
    from .wire.calls import read_only_tools as read_only_tools

__version__ = "0.1.0"

_HOME = {
    "compressor": ("Focus",),
    "config": ("FocusConfig",),
    "errors": ("ConfigError", "DraftError", "FocusError", "MessageError", "MissingExtraError", "StoreError"),
    "session.conversation": ("Conversation", "View"),
    "session.events": ("SessionEvent",),
    "session.session": ("Session",),
    "session.store": ("Archived", "Store", "StoredEvent", "Totals"),
    "types": (
        "Certificate", "Decision", "DraftModel", "History", "Message", "Prompt", "Reply", "Result", "Sketch",
        "Span", "Usage", "UserTurn",
    ),
    "wire.calls": ("read_only_tools",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [*sorted(_MODULE_OF), "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import focusctx` itself costs almost nothing."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'focusctx' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
