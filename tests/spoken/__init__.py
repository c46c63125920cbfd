"""What a scripted model says, in the words of each API: as one answer, and as the events of a stream.

The stream is derived from the whole answer, so the two can never tell different stories.
"""

from collections.abc import Iterator

from . import anthropic, chat_completions, gemini, ollama, responses
from .answer import Answer, Call, Json, Say


def whole(answer: Answer, format: str) -> Json:
    if format == "chat_completions":
        return chat_completions.completion(answer)
    if format == "gemini":
        return gemini.response(answer)
    if format == "ollama":
        return ollama.response(answer)
    return responses.response(answer) if format == "responses" else anthropic.message(answer)


def stream(answer: Answer, format: str) -> Iterator[bytes]:
    """The server-sent events, one by one; for Ollama, the lines of JSON."""
    if format == "chat_completions":
        return chat_completions.events(answer)
    if format == "gemini":
        return gemini.events(answer)
    if format == "ollama":
        return ollama.lines(answer)
    return responses.events(answer) if format == "responses" else anthropic.events(answer)


__all__ = ["Answer", "Call", "Json", "Say", "stream", "whole"]
