"""The errors that focusctx raises, and when.

    FocusError
    ├── MessageError       the input is not a message list; names the position and what is wrong with it
    ├── ConfigError        a setting is out of range or two settings contradict each other
    ├── MissingExtraError  a feature needs a package that is not installed; names the extra
    ├── StoreError         a session's store cannot be read or written
    ├── BenchError         a benchmark lacks its data or its program; says how to get them
    ├── ModelError         the agent's model in the bench gave no answer, after all retries
    └── DraftError         the draft failed; `compress` catches it and fails open
        ├── DraftTimeout   no answer within the `timeout` of a draft
        ├── DraftRefused   the server refused the request (bad key, unknown model, no credit)
        └── DraftUnavailable  the server is down, overloaded or unreachable, after all retries

`Focus.compress` and `Session.view` raise only MessageError, ConfigError and MissingExtraError: they mean that the
program is wrong. A failing draft is not the program's fault, nor is a fault of this package or of a function given as a
setting: the history comes back unchanged, and the log and the result say why.
"""

from __future__ import annotations


class FocusError(Exception):
    """Base class of all errors of this package."""


class MessageError(FocusError, ValueError):
    """The input is not a message list of a known format."""

    def __init__(self, problem: str, position: int | None = None) -> None:
        self.problem = problem
        self.position = position
        super().__init__(problem if position is None else f"message {position}: {problem}")


class ConfigError(FocusError, ValueError):
    """A setting is out of range, unknown, or contradicts another."""


class MissingExtraError(FocusError, ImportError):
    """A feature needs an optional dependency."""

    def __init__(self, feature: str, extra: str, package: str = "focusctx") -> None:
        super().__init__(f"{feature} needs an extra: pip install '{package}[{extra}]'")


class StoreError(FocusError):
    """The store of a session cannot be reached, read or written."""


class BenchError(FocusError):
    """A benchmark cannot run; the message says what to do."""


class ModelError(FocusError):
    """The model of the bench's agent gave no answer."""


class DraftError(FocusError):
    """The draft model could not give a sketch."""


class DraftTimeout(DraftError):
    """The draft gave no answer in time."""


class DraftRefused(DraftError):
    """The draft's server refused the request; asking again will not help."""


class DraftUnavailable(DraftError):
    """The draft's server is down, overloaded or unreachable."""


WRONG_USE = (MessageError, ConfigError, MissingExtraError)
"""Errors that the caller has to correct, and that are raised. Any other leaves the history unchanged."""


def described(error: Exception) -> str:
    """Describe any other error in one line."""
    return str(error) if isinstance(error, FocusError) else f"unexpected {type(error).__name__}: {error}"
