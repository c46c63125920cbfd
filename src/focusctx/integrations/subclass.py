"""A copy of a model object with some methods changed: still of its class, and still copied and pickled as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Changed = Callable[[type[Any]], type[Any]]
"""Makes a subclass of a class; a function of a module, so that it can be found again when an object is unpickled."""


_known: dict[tuple[Changed, type[Any]], type[Any]] = {}


def subclass(changed: Changed, kind: type[Any]) -> type[Any]:
    """The subclass that `changed` makes of a class, the same one every time, under the name of the class."""
    if (changed, kind) not in _known:
        _known.setdefault((changed, kind), _made(changed, kind))
    return _known[changed, kind]


def _made(changed: Changed, kind: type[Any]) -> type[Any]:
    made: Any = changed(kind)
    made.__name__, made.__qualname__, made.__module__ = kind.__name__, kind.__qualname__, kind.__module__

    def reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
        _, (_, *more), *rest = super(made, self).__reduce_ex__(protocol)
        return _new, (changed, kind, *more), *rest

    made.__reduce_ex__ = reduce
    found: type[Any] = made
    return found


def _new(changed: Changed, kind: type[Any], *more: Any) -> Any:
    made = subclass(changed, kind)
    return made.__new__(made, *more)
