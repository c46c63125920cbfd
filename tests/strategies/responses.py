"""The Responses API: items in every order that servers and agents make of them."""

from itertools import count

from hypothesis import strategies as st

from .parts import PNG, Draw, Event, Ids, Json, booleans, events, maybe, one_of, some, texts, words
from .response_calls import function_call, item_pair

UNKNOWN_ITEM = "telepathy"
"""An item type of the future: the SDK does not know it yet, and neither do we."""


@st.composite
def responses_histories(draw: Draw, complete: bool = False) -> list[Json]:
    ids = map("id_{}".format, count())
    hiding = () if complete else (*_REFERENCES, _items_async)
    messages = _items_user(draw, ids) + events(draw, ids, [*_ITEM_EVENTS, *hiding])
    if complete or draw(booleans):
        messages += _items_calls(draw, ids, answered=complete)
    return messages


def _items_user(draw: Draw, ids: Ids) -> list[Json]:
    parts = [
        {"type": "input_text", "text": draw(words)},
        one_of(
            draw,
            {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"},
            {"type": "input_file", "file_id": "file-1"},
            {"type": "input_text", "text": draw(words)},
        ),
    ]
    return [{"role": "user", "content": one_of(draw, draw(words), parts), **maybe(draw, {"type": "message"})}]


def _items_system(draw: Draw, ids: Ids) -> list[Json]:
    return [{"role": one_of(draw, "system", "developer"), "content": "You help."}]


def _reasoning(draw: Draw, ids: Ids) -> Json:
    return {
        "type": "reasoning",
        "id": f"rs_{next(ids)}",
        "summary": [{"type": "summary_text", "text": draw(texts)}] if draw(booleans) else [],
        **maybe(draw, {"encrypted_content": "gAAAAABo" * 5}),
        **maybe(draw, {"content": [{"type": "reasoning_text", "text": "hm"}]}),
    }


def _reasoned(draw: Draw, ids: Ids) -> list[Json]:
    return [_reasoning(draw, ids)] if draw(booleans) else []


def _output_message(draw: Draw, ids: Ids) -> Json:
    if draw(booleans):
        return {"role": "assistant", "content": draw(texts)}
    part = one_of(
        draw,
        {"type": "output_text", "text": draw(texts), "annotations": []},
        {"type": "refusal", "refusal": "I will not."},
    )
    return {
        "type": "message",
        "id": f"msg_{next(ids)}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _items_text(draw: Draw, ids: Ids) -> list[Json]:
    return [*_reasoned(draw, ids), _output_message(draw, ids)]


def _items_calls(draw: Draw, ids: Ids, answered: bool = True) -> list[Json]:
    """One response with calls in parallel, each perhaps with reasoning before it, then their outputs."""
    pairs = [item_pair(draw, ids) for _ in some(draw)]
    made = _items_text(draw, ids) if draw(booleans) else []
    made += [item for call, _ in pairs for item in (*_reasoned(draw, ids), call)]
    outputs = draw(st.permutations([output for _, output in pairs]))
    return made + outputs[: None if answered else draw(st.integers(0, len(outputs) - 1))]


def _items_chain(draw: Draw, ids: Ids) -> list[Json]:
    """Calls one after the other that all rest on the reasoning before the first."""
    pairs = [item_pair(draw, ids) for _ in some(draw)]
    return [_reasoning(draw, ids), *(item for pair in pairs for item in pair)]


def _items_late(draw: Draw, ids: Ids) -> list[Json]:
    """Calls of which one is answered only after the next has been made."""
    first, second, third = (item_pair(draw, ids) for _ in range(3))
    return [first[0], second[0], first[1], third[0], second[1], third[1]]


def _items_async(draw: Draw, ids: Ids) -> list[Json]:
    """A call that is said to be asynchronous: people talk on while it runs."""
    asked, came = function_call(draw, f"call_{next(ids)}")
    talk = _items_user(draw, ids) + _items_text(draw, ids)
    return [{**asked, "async": True}, *talk, *([came] if draw(booleans) else [])]


def _items_hosted(draw: Draw, ids: Ids) -> list[Json]:
    """Tools the provider runs itself, inside one response."""
    hosted = one_of(
        draw,
        [{"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}}],
        [{"type": "file_search_call", "status": "completed", "queries": ["x"], "results": [{"text": draw(texts)}]}],
        [
            {
                "type": "code_interpreter_call",
                "status": "completed",
                "container_id": "c",
                "code": "1",
                "outputs": [{"type": "logs", "logs": draw(texts)}],
            }
        ],
        [{"type": "image_generation_call", "status": "completed", "result": PNG}],
        [
            {"type": "mcp_list_tools", "server_label": "m", "tools": []},
            {"type": "mcp_call", "server_label": "m", "name": "look", "arguments": "{}", "output": draw(texts)},
        ],
        [
            {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}},
            {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": []},
        ],
    )
    items = [{**item, "id": f"ht_{next(ids)}"} for item in hosted]
    return [*_reasoned(draw, ids), *items, *_items_text(draw, ids)]


def _items_approval(draw: Draw, ids: Ids) -> list[Json]:
    """A hosted call that the user must allow first: once allowed, the provider runs it and goes on."""
    asked, allowed = f"mcpr_{next(ids)}", draw(booleans)
    tool = {"server_label": "m", "name": "look", "arguments": "{}"}
    ran = {"type": "mcp_call", "id": f"mcp_{next(ids)}", **tool, "approval_request_id": asked, "output": draw(texts)}
    return [
        *_reasoned(draw, ids),
        {"type": "mcp_approval_request", "id": asked, **tool},
        {"type": "mcp_approval_response", "approval_request_id": asked, "approve": allowed},
        *([ran] if allowed else []),
        *_items_text(draw, ids),
    ]


def _items_program(draw: Draw, ids: Ids) -> list[Json]:
    """A program the provider runs, which calls the agent's tools on its way."""
    program = f"prog_{next(ids)}"
    caller = {"caller": {"type": "program", "caller_id": program}}
    pairs = [function_call(draw, f"call_{next(ids)}") for _ in some(draw, 2)]
    return [
        *_reasoned(draw, ids),
        {"type": "program", "id": f"p_{program}", "call_id": program, "code": "1", "fingerprint": "f"},
        *({**item, **caller} for pair in pairs for item in pair),
        {"type": "program_output", "id": f"o_{program}", "call_id": program, "result": "1", "status": "completed"},
        *(_items_text(draw, ids) if draw(booleans) else []),
    ]


def _reference(draw: Draw, identity: str) -> Json:
    return {"id": identity, **maybe(draw, {"type": "item_reference"})}


def _items_references(draw: Draw, ids: Ids) -> list[Json]:
    """A response whose reasoning and words, and perhaps calls, the provider stores: the AI SDK sends them so."""
    made = [_reference(draw, f"{kind}_{next(ids)}") for kind in ("rs", "msg") if draw(booleans)]
    pairs = [function_call(draw, f"call_{next(ids)}") for _ in some(draw)]
    if (made and "rs_" in made[-1]["id"]) or draw(booleans):
        made.append(one_of(draw, _output_message(draw, ids), _reference(draw, f"msg_{next(ids)}"), pairs[0][0]))
    made += [one_of(draw, call, _reference(draw, f"fc_{call['call_id']}")) for call, _ in pairs if call not in made]
    return made + draw(st.permutations([output for _, output in pairs]))


def _items_lone_references(draw: Draw, ids: Ids) -> list[Json]:
    """Items named by their id only; what they are, the provider knows."""
    kind = one_of(draw, "msg", "ws", "cmp", "item")
    return [*_reasoned(draw, ids), _reference(draw, f"{kind}_{next(ids)}"), *_items_user(draw, ids)]


def _items_approval_by_reference(draw: Draw, ids: Ids) -> list[Json]:
    asked = f"mcpr_{next(ids)}"
    return [
        _reference(draw, asked),
        {"type": "mcp_approval_response", "approval_request_id": asked, "approve": draw(booleans)},
        *_items_text(draw, ids),
    ]


def _items_other(draw: Draw, ids: Ids) -> list[Json]:
    return [
        one_of(
            draw,
            {"type": "compaction", "encrypted_content": "gAAAAABo"},
            {"type": "additional_tools", "role": "developer", "tools": []},
            {"type": UNKNOWN_ITEM, "thought": draw(texts)},
        )
    ]


_ITEM_EVENTS: list[Event] = [
    _items_calls,
    _items_calls,
    _items_chain,
    _items_text,
    _items_user,
    _items_system,
    _items_hosted,
    _items_approval,
    _items_program,
    _items_late,
    _items_other,
]
_REFERENCES: list[Event] = [
    _items_references,
    _items_references,
    _items_lone_references,
    _items_approval_by_reference,
]
