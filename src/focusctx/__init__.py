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
    from .session.conversation import Conversation as Conversation
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

__version__ = "0.1.0"

_HOME = {
    "compressor": ("Focus",),
    "config": ("FocusConfig",),
    "errors": ("ConfigError", "DraftError", "FocusError", "MessageError", "MissingExtraError"),
    "session.conversation": ("Conversation",),
    "types": (
        "Certificate", "Decision", "DraftModel", "History", "Message", "Prompt", "Reply", "Result", "Sketch",
        "Span", "Usage",
    ),
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
