"""Text ReAct: agents that act in plain text and get the environment's answer as the next `user` message.

A `user` message then has two readings: the user's own words, which must never be lost, or an observation, which belongs
to its span. `auto` reads it as an observation only if three conditions hold, which a person's words rarely meet: the
task (system prompt or first user message) asks for actions written as text, the assistant turn before it wrote one, and
the whole message has the form of tool output. Otherwise it is the user's words. Later messages are never considered, so
the reading of a message does not change as the history grows.
"""

from __future__ import annotations

import re

_TEXT_ACTION = re.compile(
    r"```[\w+-]*[ \t]*\n.*?```"  # a fenced block
    r"|^[ \t>*]*Action(?:[ \t]*Input)?[ \t]*:"  # ReAct's own form
    r"|<(?:tool_call|function=|execute_\w+|invoke|action|command|code)\b[^<>]*>",  # tags
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)

_TOOL_OUTPUT = re.compile(
    r"\s*(?:"
    r"<returncode>-?\d+</returncode>\s*+(?:<\w+>.*</\w+>)?"
    r"|<(tool_response|tool_result|function_results?|observation|output|stdout|result|execution_result)\b[^>]*>"
    r".*</\1>"
    r"|(?:Observation|OBSERVATION)(?:[ \t]*\d+)?[ \t]*:.*"
    r"|(?:Tool output|Tool result|Execution result|Execution logs|Code output)[ \t]*:\s*```.*```"
    r"|exitcode: -?\d+ \(execution \w+\).*"
    r"|EXECUTION RESULT of \[.*"
    r")\s*",
    re.DOTALL,
)

_TASK = 1_000_000
"""Characters of a task that are searched for an action."""


def asks_for_text_actions(task: str) -> bool:
    """True if a system prompt or task shows the agent how to write an action as text.

    Only its beginning is searched: scanning many megabytes would block all other threads.
    """
    return _TEXT_ACTION.search(task, 0, _TASK) is not None


def looks_like_tool_output(text: str) -> bool:
    return _TOOL_OUTPUT.fullmatch(text) is not None


def split_turn(text: str) -> tuple[str, str]:
    """Split a text turn into (thought, action): the action starts where the first one is written."""
    found = _TEXT_ACTION.search(text)
    if found is None:
        return text, ""
    return text[: found.start()].rstrip(), text[found.start() :]
