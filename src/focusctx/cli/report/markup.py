"""HTML that is escaped by construction: text becomes markup only through `tag`."""

from __future__ import annotations

from html import escape


class Markup(str):
    """A piece of HTML. Only `tag` and `together` make it from data."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Make an element. Children that are not Markup are escaped; `class_`, `aria_label` and so on name attributes.

    An attribute that is None or False is left out; one that is True has no value.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name == "img":  # the only element here that has no end
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{together(*children)}</{name}>")


def together(*children: object) -> Markup:
    """Join pieces; None adds nothing."""
    return Markup("".join(_piece(child) for child in children if child is not None))


def _piece(child: object) -> str:
    return child if isinstance(child, Markup) else escape(str(child))


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
