"""Read fields of a server's JSON, which may have any type."""

from __future__ import annotations


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or the text blocks among others; "" if there is none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def count(value: object) -> int:
    """Return a token count from a server's JSON; 0 for anything else."""
    return value if isinstance(value, int) and value > 0 else 0
