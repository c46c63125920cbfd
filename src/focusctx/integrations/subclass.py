"""A copy of a model object with some methods changed: still of its class, and still copied and pickled as one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

Changed = Callable[[type], type]
"""Makes a subclass of a class; a function of a module, so that it can be found again when an object is unpickled."""


@cache
def subclass(changed: Changed, kind: type) -> type:
    """The subclass that `changed` makes of a class, the same one every time, under the name of the class."""
    made = changed(kind)
    made.__name__, made.__qualname__, made.__module__ = kind.__name__, kind.__qualname__, kind.__module__

    def reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
        _, (_, *more), *rest = super(made, self).__reduce_ex__(protocol)  # type: ignore[misc]
        return _new, (changed, kind, *more), *rest

    made.__reduce_ex__ = reduce  # type: ignore[assignment, method-assign]
    return made


def _new(changed: Changed, kind: type, *more: Any) -> Any:
    made = subclass(changed, kind)
    return made.__new__(made, *more)
