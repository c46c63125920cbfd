"""A model that runs in this process as the agent's model: it reads the conversation as text, and writes its turn.

Tool calls are written the way most open models learnt them: `<tool_call>` with a JSON object in it, answered by
`<tool_response>`. That is done here, so that it is the same for every model, whether its chat template knows tools
or not. A turn's calls stand before its words, and the next call is asked for: in a short answer the action counts,
and small models would only announce it. The model is that of a draft (`focusctx.drafts`). Logs hold calls but
rarely the definitions of tools: these are made from the calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from focusctx.errors import DraftError, ModelError
from focusctx.replay.methods import short_name
from focusctx.replay.runs import Run
from focusctx.types import DraftModel, History, Message, Prompt
from focusctx.wire.chat_completions import SYSTEM_ROLES

from ...protocols import ModelAnswer

Tool = Mapping[str, Any]
"""A Chat Completions tool definition."""

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}

_TOOLS = """
# Tools

{tools}

To call one, write
<tool_call>
{{"name": <its name>, "arguments": <a JSON object>}}
</tool_call>
"""
_NEXT = "Next tool call:"
_CALL = re.compile(r'(?:<tool_call>\s*)?\{\s*"name"\s*:\s*"([^"]+)"\s*,\s*"arguments"\s*:\s*')
"""The beginning of a call. The tags may be missing: to some tokenizers they are marks, not text."""


def runs_here(name: str) -> bool:
    """Return True if a draft of that name is a model in this process."""
    return name.partition(":")[0] in ("transformers", "llama-cpp")


class LocalModel:
    """Greedy: temperature 0. Its name is that of the draft, without the folder that the model lies in."""

    def __init__(self, draft: DraftModel, *, tokens: int = 128) -> None:
        self.name = short_name(draft.name)
        self._draft = draft
        self._tokens = tokens

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> ModelAnswer:
        prompt = ChatPrompt(
            "", "", History("", ()), temperature=0.0, max_tokens=self._tokens, turns=conversation(messages, tools)
        )
        try:
            async with aclosing(self._draft.sample(prompt, 1)) as replies:  # type: ignore[type-var]
                async for reply in replies:
                    return ModelAnswer(message_of(reply.text), reply.usage)
        except DraftError as error:
            raise ModelError(str(error)) from error
        raise ModelError(f"{self.name} gave no answer")


@dataclass(frozen=True, slots=True)
class ChatPrompt(Prompt):
    """A prompt of many turns."""

    turns: tuple[tuple[str, str], ...] = ()
    """Role and text."""

    @property
    def messages(self) -> list[dict[str, str]]:
        return [{"role": role, "content": text} for role, text in self.turns]

    def __str__(self) -> str:
        """For models without a chat template."""
        return "\n\n".join([*(f"{role}: {text}" for role, text in self.turns), "assistant:"])


def conversation(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return turns of text alone: the system prompt with the tools, then user and assistant by turns."""
    system = "\n\n".join(str(one.get("content") or "") for one in messages if one["role"] in SYSTEM_ROLES)
    if tools:
        system += _TOOLS.format(tools="\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools))
    turns = [("system", system)] if system else []
    for message in messages:
        if message["role"] in SYSTEM_ROLES:
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        text = _text(message)
        if turns and turns[-1][0] == role:
            turns[-1] = role, f"{turns[-1][1]}\n{text}"
        else:
            turns.append((role, text))
    if tools and turns[-1][0] == "user":
        turns[-1] = "user", f"{turns[-1][1]}\n\n{_NEXT}"
    return tuple(turns)


def message_of(text: str) -> Message:
    """Return an answer as an assistant message; a call that was cut, or is not JSON, gets the rest as it is."""
    calls: list[tuple[str, str]] = []
    first = next(_CALL.finditer(text), None)
    said = text[: first.start() if first else len(text)].strip()
    while (begun := _CALL.search(text)) is not None:
        text = text[begun.end() :]
        try:
            arguments, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            calls.append((begun[1], text))
            break
        calls.append((begun[1], json.dumps(arguments, ensure_ascii=False)))
        text = text[end:]
    if not calls:
        return {"role": "assistant", "content": said}
    written = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for place, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": said or None, "tool_calls": written}


def _text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, list | tuple):
        content = "\n".join(str(block.get("text", "")) for block in content)
    if message["role"] == "tool":
        return f"<tool_response>\n{content or ''}\n</tool_response>"
    said = []
    for call in message.get("tool_calls") or ():
        written = {"name": call["function"]["name"], "arguments": _arguments(call["function"])}
        said.append(f"<tool_call>\n{json.dumps(written, ensure_ascii=False)}\n</tool_call>")
    return "\n".join([*said, *([content] if content else [])])


def _arguments(function: Mapping[str, Any]) -> Any:
    """Return a call's arguments: the text as it is, where the model wrote something else than JSON."""
    try:
        return json.loads(function.get("arguments") or "{}")
    except ValueError:
        return function["arguments"]


def tools_seen(runs: Iterable[Sequence[Message]]) -> list[Tool]:
    """Return one definition per name that was called, in order of names. An argument of every call is required."""
    calls: dict[str, list[Mapping[str, Any]]] = {}
    for messages in runs:
        for message in messages:
            for call in message.get("tool_calls") or ():
                given = _arguments(call["function"])  # what is no object, the environment will have refused
                calls.setdefault(call["function"]["name"], []).append(given if isinstance(given, dict) else {})
    return [_definition(name, calls[name]) for name in sorted(calls)]


def tools_by_file(runs: Sequence[Run]) -> dict[str, list[Tool]]:
    return {file: tools_seen(run.messages for run in runs if run.file == file) for file in {run.file for run in runs}}


def _definition(name: str, calls: Sequence[Mapping[str, Any]]) -> Tool:
    names = sorted({argument for call in calls for argument in call})
    properties = {argument: _schema([call[argument] for call in calls if argument in call]) for argument in names}
    required = [argument for argument in names if all(argument in call for call in calls)]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


def _schema(values: Sequence[Any]) -> dict[str, Any]:
    """Return the JSON type that all values share, or no type."""
    types = {_TYPES[type(value)] for value in values if value is not None}
    if types != {"array"}:
        return {"type": types.pop()} if len(types) == 1 else {}
    # Providers want to know what an array holds.
    return {"type": "array", "items": _schema([item for value in values if value for item in value])}
