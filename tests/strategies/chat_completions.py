"""Chat Completions: steps with several calls, plain text, the old `function_call`."""

from itertools import count

from hypothesis import strategies as st

from .parts import PNG, Draw, Event, Ids, Json, arguments, booleans, events, maybe, names, one_of, some, texts, words


@st.composite
def chat_histories(draw: Draw, complete: bool = False) -> list[Json]:
    # Some servers count their call ids from the start again in every turn.
    ids = iter(lambda: one_of(draw, "call_0", "call_1"), "") if draw(booleans) else map("call_{}".format, count())
    opening = draw(st.lists(st.sampled_from([_chat_system, _chat_user]), max_size=2))
    messages = [message for event in (*opening, _chat_user) for message in event(draw, ids)]
    messages += events(draw, ids, _CHAT_EVENTS)
    if complete or draw(booleans):
        messages += _chat_calls(draw, ids, answered=complete)
    return messages


def _chat_system(draw: Draw, ids: Ids) -> list[Json]:
    content = one_of(draw, "You help.", [{"type": "text", "text": "You help."}])
    return [{"role": one_of(draw, "system", "developer"), "content": content}]


def _chat_user(draw: Draw, ids: Ids) -> list[Json]:
    parts = [
        {"type": "text", "text": draw(words)},
        one_of(
            draw,
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "text", "text": draw(words)},
        ),
    ]
    return [{"role": "user", "content": one_of(draw, draw(words), parts), **maybe(draw, {"name": "ann"})}]


def _chat_text(draw: Draw, ids: Ids) -> list[Json]:
    said = draw(texts)
    return [
        one_of(
            draw,
            {"role": "assistant", "content": said},
            {"role": "assistant", "content": [{"type": "text", "text": said}, {"type": "text", "text": "."}]},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            {"role": "assistant", "content": None, "refusal": "I will not."},
            {"role": "assistant", "audio": {"id": "audio_1"}},
        )
    ]


def _chat_calls(draw: Draw, ids: Ids, answered: bool = True) -> list[Json]:
    """A turn with calls in parallel and all their results, in any order; unanswered, some are missing."""
    calls = [_chat_call(draw, identity) for identity in _distinct(ids, some(draw))]
    said = one_of(draw, None, "", draw(texts), [{"type": "text", "text": draw(texts)}])
    turn = {"role": "assistant", "content": said, "tool_calls": calls}
    if draw(booleans):
        del turn["content"]
    if draw(booleans):
        turn["reasoning_content"] = draw(texts)
    results = draw(st.permutations([_chat_result(draw, call["id"]) for call in calls]))
    return [turn, *results[: None if answered else draw(st.integers(0, len(results) - 1))]]


def _chat_call(draw: Draw, identity: str) -> Json:
    if draw(booleans):
        return {"id": identity, "type": "custom", "custom": {"name": "sql", "input": draw(texts)}}
    return {"id": identity, "type": "function", "function": {"name": draw(names), "arguments": draw(arguments)}}


def _chat_result(draw: Draw, identity: str) -> Json:
    blocks = [{"type": "text", "text": draw(texts)} for _ in some(draw)]
    content = one_of(draw, "", draw(texts), blocks)
    return {"role": "tool", "tool_call_id": identity, "content": content}


def _chat_legacy(draw: Draw, ids: Ids) -> list[Json]:
    call = {"name": "look", "arguments": draw(arguments)}
    return [
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "look", "content": one_of(draw, None, draw(texts))},
    ]


_CHAT_EVENTS: list[Event] = [_chat_calls, _chat_calls, _chat_text, _chat_legacy, _chat_user, _chat_system]


def _distinct(ids: Ids, times: range) -> list[str]:
    """So many ids, no two alike: within one batch even careless servers keep them apart."""
    return list(dict.fromkeys(next(ids) for _ in times))
