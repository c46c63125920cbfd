"""Anthropic Messages: thinking, server tools, cache marks, system messages amid the others."""

from itertools import count, pairwise

from hypothesis import strategies as st

from .parts import PNG, Draw, Event, Ids, Json, booleans, events, maybe, names, one_of, some, texts, words


@st.composite
def anthropic_histories(draw: Draw, complete: bool = False) -> list[Json]:
    ids = map("id_{}".format, count())
    messages = _claude_user(draw, ids) + events(draw, ids, _CLAUDE_EVENTS)
    if complete or draw(booleans):
        messages += _claude_calls(draw, ids)[: None if complete else 1]
    return _with_cache_marks(draw, _dumped(draw, _with_system_messages(draw, messages)))


def _dumped(draw: Draw, messages: list[Json]) -> list[Json]:
    """With answers as the `model_dump()` of the SDK writes them, or as they were."""
    if not draw(booleans):
        return messages
    dump = {
        "id": "msg_1",
        "type": "message",
        "model": "m",
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {},
    }
    answers = [message["role"] == "assistant" and isinstance(message["content"], list) for message in messages]
    return [{**dump, **message} if answer else message for message, answer in zip(messages, answers, strict=True)]


def _with_system_messages(draw: Draw, messages: list[Json]) -> list[Json]:
    """Where Anthropic takes them: between the user's turn and the model's."""
    placed = messages[:1]
    for before, after in pairwise(messages):
        if (before["role"], after["role"]) == ("user", "assistant") and draw(booleans):
            placed.append({"role": "system", "content": draw(words)})
        placed.append(after)
    return placed


def _text(draw: Draw) -> Json:
    return {"type": "text", "text": draw(texts)}


def _media(draw: Draw) -> Json:
    return one_of(
        draw,
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": draw(texts)}},
        {"type": "search_result", "source": "x", "title": "t", "content": [_text(draw)]},
    )


def _claude_user(draw: Draw, ids: Ids) -> list[Json]:
    blocks = [{"type": "text", "text": draw(words)}, *([_media(draw)] if draw(booleans) else [])]
    return [{"role": "user", "content": one_of(draw, draw(words), blocks)}]


def _thinking(draw: Draw) -> list[Json]:
    return one_of(
        draw,
        [],
        [{"type": "thinking", "thinking": draw(texts), "signature": "EqQBCg=="}],
        [{"type": "redacted_thinking", "data": "EmwKAhgB"}],
    )


def _claude_text(draw: Draw, ids: Ids) -> list[Json]:
    content = one_of(draw, draw(texts), [*_thinking(draw), _text(draw)])
    return [{"role": "assistant", "content": content}]


def _tool_use(draw: Draw, ids: Ids) -> Json:
    return {"type": "tool_use", "id": f"toolu_{next(ids)}", "name": draw(names), "input": {"at": draw(texts)}}


def _tool_result(draw: Draw, use: Json) -> Json:
    content = one_of(draw, draw(texts), [_text(draw), _media(draw)], [_text(draw), _text(draw)], [])
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": content}
    if draw(booleans):
        del result["content"]
    return {**result, **maybe(draw, {"is_error": True})}


def _claude_calls(draw: Draw, ids: Ids) -> list[Json]:
    """A turn with calls in parallel; the one next user message (or a run of them) has all the results."""
    uses = [_tool_use(draw, ids) for _ in some(draw)]
    said = [_text(draw)] if draw(booleans) else []
    turn = [{"role": "assistant", "content": [*_thinking(draw), *said, *uses]}]
    if draw(booleans):
        # The API joins consecutive messages of one role: some agents send a turn in pieces.
        turn = [{"role": "assistant", "content": [*_thinking(draw), _text(draw)]}, *turn]
    results = draw(st.permutations([_tool_result(draw, use) for use in uses]))
    cut = draw(st.integers(0, len(results) - 1))
    runs = [results[:cut], [*results[cut:], *_words_behind(draw)]]
    return turn + [{"role": "user", "content": run} for run in runs if run]


def _claude_chain(draw: Draw, ids: Ids) -> list[Json]:
    """Steps one after the other that all rest on the thinking before the first."""
    thought: list[Json] = [{"type": "thinking", "thinking": draw(texts), "signature": "EqQBCg=="}]
    messages: list[Json] = []
    for number in range(draw(st.integers(2, 3))):
        use = _tool_use(draw, ids)
        messages.append({"role": "assistant", "content": [*thought, use] if number == 0 else [use]})
        messages.append({"role": "user", "content": [_tool_result(draw, use)]})
    return messages + (_claude_user(draw, ids) if draw(booleans) else [])


def _words_behind(draw: Draw) -> list[Json]:
    return one_of(draw, [], [], [{"type": "text", "text": draw(words)}, _media(draw)])


def _claude_server_tool(draw: Draw, ids: Ids) -> list[Json]:
    """A search the provider runs itself, use and result in one turn."""
    use, result = _search(draw, f"srvtoolu_{next(ids)}")
    if draw(booleans):
        return [{"role": "assistant", "content": [*_thinking(draw), use, result, _text(draw)]}]
    # The turn was paused in the middle and taken up again.
    return [
        {"role": "assistant", "content": [*_thinking(draw), use]},
        {"role": "assistant", "content": [result, _text(draw)]},
    ]


def _search(draw: Draw, identity: str) -> tuple[Json, Json]:
    found = {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": draw(texts)}
    return (
        {"type": "server_tool_use", "id": identity, "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": identity, "content": [found]},
    )


def _claude_program(draw: Draw, ids: Ids) -> list[Json]:
    """Code the provider runs, which calls the agent's tools: its result comes some messages later."""
    program = f"srvtoolu_{next(ids)}"
    caller = {"caller": {"type": "code_execution_20250825", "tool_id": program}}
    uses = [{**_tool_use(draw, ids), **caller} for _ in some(draw, 2)]
    start = {"type": "server_tool_use", "id": program, "name": "code_execution", "input": {"code": "1"}}
    printed = {"type": "code_execution_result", "stdout": "1", "stderr": "", "return_code": 0, "content": []}
    end = {"type": "code_execution_tool_result", "tool_use_id": program, "content": printed}
    messages: list[Json] = []
    for use in uses:
        first = [*_thinking(draw), start] if not messages else []
        messages.append({"role": "assistant", "content": [*first, use]})
        messages.append({"role": "user", "content": [_tool_result(draw, use)]})
    return [*messages, {"role": "assistant", "content": [end, _text(draw)]}]


_CLAUDE_EVENTS: list[Event] = [
    _claude_calls,
    _claude_calls,
    _claude_chain,
    _claude_text,
    _claude_user,
    _claude_server_tool,
    _claude_program,
]


def _with_cache_marks(draw: Draw, messages: list[Json]) -> list[Json]:
    """Up to four marks anywhere they may stand, those for an hour first."""
    markable = [
        block
        for message in messages
        if isinstance(message["content"], list)
        for outer in message["content"]
        for block in one_of(draw, [outer], [inner for inner in _inner(outer) if inner["type"] == "text"])
        if block["type"] not in ("thinking", "redacted_thinking")
    ]
    if not markable:
        return messages
    marked = sorted(draw(st.sets(st.integers(0, len(markable) - 1), max_size=4)))
    hours = draw(st.integers(0, len(marked)))
    for rank, place in enumerate(marked):
        markable[place]["cache_control"] = {"type": "ephemeral", **({"ttl": "1h"} if rank < hours else {})}
    return messages


def _inner(block: Json) -> list[Json]:
    content = block.get("content") if block["type"] == "tool_result" else None
    return content if isinstance(content, list) else []
