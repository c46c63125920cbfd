"""Models behind an API, from what a user writes, `openai:gpt-4.1`: names, connections, keys and retries are those of
drafts.

`/chat/completions` serves OpenAI, Azure, vLLM, Ollama and most aggregators; histories go to Anthropic's Messages
API translated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from focusctx.drafts.anthropic import AnthropicDraft
from focusctx.drafts.http import BadRequest, Endpoint, RejectedParameters, count, open_session, text_of
from focusctx.drafts.openai_compatible import OpenAICompatibleDraft
from focusctx.drafts.registry import draft_from
from focusctx.errors import ConfigError, DraftError, ModelError
from focusctx.prices import price_of
from focusctx.types import Message, Usage
from focusctx.wire.chat_completions import SYSTEM_ROLES

from ..agent import SEED, TEMPERATURE
from ..protocols import ContextTooLong, Model, ModelAnswer

_LOCAL = ("127.0.0.1", "localhost", "::1")
_DRAFTS_ONLY = ("offline", "transformers", "llama-cpp")
TIMEOUT, LOCAL_TIMEOUT = 300.0, 3600.0
"""Seconds one answer may take; on this machine there may be a queue before the model, or a person in its place."""
RETRIES = 10
"""With their growing waits, over a minute: a rate limit that counts by the minute is over by then."""
_TOO_LONG = re.compile(r"context.{0,3}(length|window)|prompt is too long|maximum.{0,20}tokens", re.IGNORECASE)
_KEPT = ("reasoning_content", "reasoning_details", "refusal")
"""Beside words and calls: what servers of reasoning models want to see again."""
_MOST_OUTPUT = 8192
_MARK = {"cache_control": {"type": "ephemeral"}}
_SILENCE = "(nothing said)"
"""This API refuses empty texts."""
_BEGINNING = "(The conversation begins.)"
Block = dict[str, Any]


def model_from(name: str, *, seed: int = SEED, headers: Mapping[str, str] | None = None) -> Model:
    """Return `openai:MODEL`, `openai:MODEL@URL`, `azure:DEPLOYMENT`, `anthropic:MODEL`, `deepseek:MODEL` and so on.

    `headers` go with every request, beside those that the server needs.
    """
    if name.partition(":")[0] in _DRAFTS_ONLY:
        raise ConfigError(f"{name!r} can be a draft but not the agent's model: name one behind an API")
    try:
        known = draft_from(name)
    except ConfigError as error:
        raise ConfigError(f"no model {name!r} for the agent: {error}") from error
    # A draft of that name already knows the server, its URL and its key.
    assert isinstance(known, OpenAICompatibleDraft | AnthropicDraft)
    endpoint = replace(known.endpoint, headers={**known.endpoint.headers, **(headers or {})})
    if isinstance(known, OpenAICompatibleDraft):
        return OpenAICompatibleModel(known.name, endpoint, model=known.model, temperature=TEMPERATURE, seed=seed)
    fixed = {"model": known.model, "max_tokens": _MOST_OUTPUT, "temperature": TEMPERATURE}
    return AnthropicModel(known.name, endpoint, **fixed, thinking={"type": "disabled"})


class ServedModel:
    """A model behind one URL."""

    optional: ClassVar[tuple[str, ...]]
    """Parameters that some servers refuse, and can do without."""

    def __init__(self, name: str, endpoint: Endpoint, **fixed: Any) -> None:
        self.name = name
        is_local = urlsplit(endpoint.url).hostname in _LOCAL
        self.endpoint = replace(endpoint, timeout=LOCAL_TIMEOUT if is_local else TIMEOUT, retries=RETRIES)
        self._rejected = RejectedParameters(self.optional)
        self._fixed = fixed

    async def ask(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer, asked again without each optional parameter that the server refuses."""
        try:
            async with open_session() as session:
                while True:
                    sent = self._rejected.strip({**self._fixed, **body})
                    try:
                        return await self.endpoint.post(session, sent)
                    except BadRequest as refusal:
                        if _TOO_LONG.search(refusal.body):
                            raise ContextTooLong(str(refusal)) from refusal
                        if self._rejected.learn(refusal, sent) is None:
                            raise
        except DraftError as error:
            raise ModelError(str(error)) from error

    def malformed(self, what: str, sent: object) -> ModelError:
        return ModelError(str(self.endpoint.malformed(what, sent)))


def priced_answer(
    model: str, message: Message, input_tokens: int, output_tokens: int, *, cached: int = 0, written: int = 0
) -> ModelAnswer:
    """Return an answer with its cost. `cached` and `written`: tokens of the input read from and put into the cache."""
    price = price_of(model)
    if price is None:
        return ModelAnswer(message, Usage(1, input_tokens, output_tokens, None), cached, None)
    cost = price.cost(input_tokens, output_tokens)
    moved = cached * (price.cache_read - 1) + written * (price.cache_write - 1)
    return ModelAnswer(
        message, Usage(1, input_tokens, output_tokens, cost), cached, cost + moved * price.input / 1_000_000
    )


class OpenAICompatibleModel(ServedModel):
    optional = ("temperature", "seed")

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> ModelAnswer:
        offered = {"tools": list(tools)} if tools else {}
        answer = await self.ask({"messages": list(messages), **offered})
        usage = _mapping(answer.get("usage"))
        return priced_answer(
            self.name,
            self._message(answer),
            count(usage.get("prompt_tokens")),
            count(usage.get("completion_tokens")),
            cached=count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        )

    def _message(self, answer: Mapping[str, Any]) -> Message:
        try:
            said = answer["choices"][0]["message"]
            calls = [_openai_call(call, place) for place, call in enumerate(said.get("tool_calls") or ())]
        except (LookupError, TypeError, AttributeError) as error:
            raise self.malformed("no message", answer) from error
        message: dict[str, Any] = {"role": "assistant", "content": text_of(said.get("content")) or None}
        message |= {name: said[name] for name in _KEPT if said.get(name)}
        if calls:
            return {**message, "tool_calls": calls}
        return {**message, "content": message["content"] or ""}


def _openai_call(call: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return a call as OpenAI writes it: some servers leave out the id, or send the arguments as an object."""
    arguments = call["function"].get("arguments") or "{}"
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {
        "id": call.get("id") or f"call_{place}",
        "type": "function",
        "function": {"name": str(call["function"]["name"]), "arguments": arguments},
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


class AnthropicModel(ServedModel):
    """Takes no seed: the API has none. Thinking is off where the model allows that, as temperature 0 wants it."""

    optional = ("temperature", "thinking")

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> ModelAnswer:
        answer = await self.ask(request(messages, tools))
        usage = answer.get("usage") or {}
        cached = count(usage.get("cache_read_input_tokens"))
        written = count(usage.get("cache_creation_input_tokens"))
        return priced_answer(
            self.name,
            self._message(answer),
            count(usage.get("input_tokens")) + cached + written,  # the API counts them apart
            count(usage.get("output_tokens")),
            cached=cached,
            written=written,
        )

    def _message(self, answer: Mapping[str, Any]) -> Message:
        try:
            return message(answer["content"])
        except (LookupError, TypeError) as error:
            raise self.malformed("no content", answer) from error


def request(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Translate to `system`, `messages` and `tools`, with cache marks where the next request will go on from."""
    system = [_text(message.get("content")) for message in messages if message["role"] in SYSTEM_ROLES]
    body: dict[str, Any] = {"messages": _turns(messages)}
    if system:
        body["system"] = [*system[:-1], system[-1] | _MARK]
    if tools:
        body["tools"] = [_tool(tool["function"]) for tool in tools]
    if body["messages"]:
        blocks = body["messages"][-1]["content"]
        blocks[-1] = blocks[-1] | _MARK
    return body


def message(content: Sequence[Mapping[str, Any]]) -> Message:
    """Translate the content of an answer to a Chat Completions message; thinking travels along, untouched."""
    said = "".join(block["text"] for block in content if block["type"] == "text")
    calls = [_call(block) for block in content if block["type"] == "tool_use"]
    thinking = [dict(block) for block in content if block["type"] in ("thinking", "redacted_thinking")]
    found: dict[str, Any] = {"role": "assistant", "content": said or (None if calls else "")}
    if thinking:
        found["thinking_blocks"] = thinking
    return {**found, "tool_calls": calls} if calls else found


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return user and assistant by turns: results and words that come together share one user message."""
    turns: list[dict[str, Any]] = []
    for given in messages:
        if given["role"] in SYSTEM_ROLES:
            continue
        role = "assistant" if given["role"] == "assistant" else "user"
        if not turns and role == "assistant":  # this API wants the user to begin
            turns.append({"role": "user", "content": [_text(_BEGINNING)]})
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"].extend(_blocks(given))
    return turns


def _blocks(given: Message) -> list[Block]:
    if given["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": given["tool_call_id"], "content": given.get("content") or ""}]
    calls = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"] or "{}"),
        }
        for call in given.get("tool_calls") or ()
    ]
    words = [_text(given.get("content"))] if given.get("content") or not calls else []
    return [*given.get("thinking_blocks", ()), *words, *calls]


def _text(content: Any) -> Block:
    return {"type": "text", "text": content or _SILENCE}


def _call(block: Mapping[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(block["input"], ensure_ascii=False)
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {"name": function["name"], "description": function.get("description", ""), "input_schema": schema}
