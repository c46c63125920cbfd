"""Legal histories in every wire format, as agents really send them.

A history is a few events one after the other: the user speaks, the agent takes a step of one of many shapes.
Each shape is a small function that writes its messages with the ids it is given, so that a failing example
shrinks to the few shapes that matter. What a person says always begins with `SAID`: tests find it again by that.
"""

import copy
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
Draw = st.DrawFn
Ids = Iterator[str]
Event = Callable[[Draw, Ids], list[Json]]

SAID = "I say: "
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

_SAMPLES = (
    "ok",
    "read /etc/hosts, then order 4711",
    "first line\nsecond line",
    "[s_1] | Step: lie | Depends on: [s_2]",
    "żółć 漢字 🙂",
    "Let me look.\n```bash\nls -l\n```",
    "Thought: so be it\nAction: look[here]",
    "Observation: nothing",
    "<output>\n</output>",
    '{"user": {"id": 7}}',
    " ",
    "longer than a placeholder, so that a skeleton of it is really shorter than what it stands for",
)
texts = st.sampled_from(_SAMPLES) | st.text(min_size=1, max_size=6)
words = texts.map(SAID.__add__)
booleans = st.booleans()


def one_of(draw: Draw, *choices: Any) -> Any:
    return draw(st.sampled_from(choices))


def some(draw: Draw, most: int = 3) -> range:
    return range(draw(st.integers(1, most)))


def maybe(draw: Draw, value: Json) -> Json:
    """The extra fields, or none of them."""
    return value if draw(booleans) else {}


def events(draw: Draw, ids: Ids, kinds: list[Event]) -> list[Json]:
    # Many histories long enough that there is something to drop, some short enough to be odd.
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=one_of(draw, 5, 0), max_size=8))
    return [message for event in chosen for message in event(draw, ids)]


# ---------------------------------------------------------------------------------------------- Chat Completions


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
    turn = {"role": "assistant", "content": one_of(draw, None, "", draw(texts)), "tool_calls": calls}
    if draw(booleans):
        del turn["content"]
    if draw(booleans):
        turn["reasoning_content"] = draw(texts)
    results = draw(st.permutations([_chat_result(draw, call["id"]) for call in calls]))
    return [turn, *results[: None if answered else draw(st.integers(0, len(results) - 1))]]


def _chat_call(draw: Draw, identity: str) -> Json:
    if draw(booleans):
        return {"id": identity, "type": "custom", "custom": {"name": "sql", "input": draw(texts)}}
    return {"id": identity, "type": "function", "function": {"name": "look", "arguments": draw(texts)}}


def _chat_result(draw: Draw, identity: str) -> Json:
    content = one_of(draw, "", draw(texts), [{"type": "text", "text": draw(texts)}])
    return {"role": "tool", "tool_call_id": identity, "content": content}


def _chat_legacy(draw: Draw, ids: Ids) -> list[Json]:
    call = {"name": "look", "arguments": draw(texts)}
    return [
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "look", "content": one_of(draw, None, draw(texts))},
    ]


_CHAT_EVENTS: list[Event] = [_chat_calls, _chat_calls, _chat_text, _chat_legacy, _chat_user, _chat_system]


def _distinct(ids: Ids, times: range) -> list[str]:
    """So many ids, no two alike: within one batch even careless servers keep them apart."""
    return list(dict.fromkeys(next(ids) for _ in times))


# ----------------------------------------------------------------------------------------------------- Responses

UNKNOWN_ITEM = "telepathy"
"""An item type of the future: the SDK does not know it yet, and neither do we."""


@st.composite
def responses_histories(draw: Draw, complete: bool = False) -> list[Json]:
    ids = map("id_{}".format, count())
    hiding = () if complete else (_items_reference, _items_async)
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
    pairs = [_item_pair(draw, ids) for _ in some(draw)]
    made = _items_text(draw, ids) if draw(booleans) else []
    made += [item for call, _ in pairs for item in (*_reasoned(draw, ids), call)]
    outputs = draw(st.permutations([output for _, output in pairs]))
    return made + outputs[: None if answered else draw(st.integers(0, len(outputs) - 1))]


def _items_chain(draw: Draw, ids: Ids) -> list[Json]:
    """Calls one after the other that all rest on the reasoning before the first."""
    pairs = [_item_pair(draw, ids) for _ in some(draw)]
    return [_reasoning(draw, ids), *(item for pair in pairs for item in pair)]


def _items_late(draw: Draw, ids: Ids) -> list[Json]:
    """Calls of which one is answered only after the next has been made."""
    first, second, third = (_item_pair(draw, ids) for _ in range(3))
    return [first[0], second[0], first[1], third[0], second[1], third[1]]


def _items_async(draw: Draw, ids: Ids) -> list[Json]:
    """A call that is said to be asynchronous: people talk on while it runs."""
    asked, came = _function(draw, f"call_{next(ids)}")
    talk = _items_user(draw, ids) + _items_text(draw, ids)
    return [{**asked, "async": True}, *talk, *([came] if draw(booleans) else [])]


def _item_pair(draw: Draw, ids: Ids) -> tuple[Json, Json]:
    """A call that waits for the agent, and its output."""
    return one_of(draw, _function, _function, _custom, _computer, _local_shell, _shell, _patch, _tool_search)(
        draw, f"call_{next(ids)}"
    )


def _function(draw: Draw, identity: str) -> tuple[Json, Json]:
    blocks = [
        {"type": "input_text", "text": draw(texts)},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    ]
    return (
        {"type": "function_call", "call_id": identity, "name": "look", "arguments": draw(texts)},
        {"type": "function_call_output", "call_id": identity, "output": one_of(draw, "", draw(texts), blocks)},
    )


def _custom(draw: Draw, identity: str) -> tuple[Json, Json]:
    return (
        {"type": "custom_tool_call", "call_id": identity, "name": "sql", "input": draw(texts)},
        {"type": "custom_tool_call_output", "call_id": identity, "output": draw(texts)},
    )


def _computer(draw: Draw, identity: str) -> tuple[Json, Json]:
    shot = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"}
    return (
        {
            "type": "computer_call",
            "id": f"cu_{identity}",
            "call_id": identity,
            "status": "completed",
            "pending_safety_checks": [],
            "action": {"type": "click", "button": "left", "x": 1, "y": 2},
        },
        {"type": "computer_call_output", "call_id": identity, "output": shot},
    )


def _local_shell(draw: Draw, identity: str) -> tuple[Json, Json]:
    """The one output whose `id` is what others call `call_id`."""
    return (
        {
            "type": "local_shell_call",
            "id": f"lsh_{identity}",
            "call_id": identity,
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        {"type": "local_shell_call_output", "id": identity, "output": draw(texts)},
    )


def _shell(draw: Draw, identity: str) -> tuple[Json, Json]:
    chunk = {"stdout": draw(texts), "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    return (
        {"type": "shell_call", "call_id": identity, "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": identity, "output": [chunk]},
    )


def _patch(draw: Draw, identity: str) -> tuple[Json, Json]:
    return (
        {
            "type": "apply_patch_call",
            "call_id": identity,
            "status": "completed",
            "operation": {"type": "delete_file", "path": "a.py"},
        },
        {
            "type": "apply_patch_call_output",
            "call_id": identity,
            "status": "completed",
            **maybe(draw, {"output": "done"}),
        },
    )


def _tool_search(draw: Draw, identity: str) -> tuple[Json, Json]:
    return (
        {"type": "tool_search_call", "call_id": identity, "execution": "client", "arguments": {"goal": "find"}},
        {"type": "tool_search_output", "call_id": identity, "execution": "client", "tools": []},
    )


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
    pairs = [_function(draw, f"call_{next(ids)}") for _ in some(draw, 2)]
    return [
        *_reasoned(draw, ids),
        {"type": "program", "id": f"p_{program}", "call_id": program, "code": "1", "fingerprint": "f"},
        *({**item, **caller} for pair in pairs for item in pair),
        {"type": "program_output", "id": f"o_{program}", "call_id": program, "result": "1", "status": "completed"},
        *(_items_text(draw, ids) if draw(booleans) else []),
    ]


def _items_reference(draw: Draw, ids: Ids) -> list[Json]:
    """Items named by their id only; what they are, the provider knows."""
    shown = {"id": f"msg_{next(ids)}", **maybe(draw, {"type": "item_reference"})}
    output = {"type": "function_call_output", "call_id": f"call_{next(ids)}", "output": draw(texts)}
    return [*_reasoned(draw, ids), shown, *([output] if draw(booleans) else [])]


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


# ----------------------------------------------------------------------------------------------------- Anthropic


@st.composite
def anthropic_histories(draw: Draw, complete: bool = False) -> list[Json]:
    ids = map("id_{}".format, count())
    messages = _claude_user(draw, ids) + events(draw, ids, _CLAUDE_EVENTS)
    if complete or draw(booleans):
        messages += _claude_calls(draw, ids)[: None if complete else 1]
    return _with_cache_marks(draw, _with_system_messages(draw, messages))


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
    return {"type": "tool_use", "id": f"toolu_{next(ids)}", "name": "look", "input": {"at": draw(texts)}}


def _tool_result(draw: Draw, use: Json) -> Json:
    content = one_of(draw, draw(texts), [_text(draw), _media(draw)], [])
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


# --------------------------------------------------------------------------------------------------- Text ReAct

ACTIONS = ("```bash\nls\n```", "Action: search[x]", "<tool_call>{}</tool_call>", "```python\n```\nand so on")
OBSERVATIONS = (
    "<returncode>0</returncode>\n<output>\n{}\n</output>",
    "<returncode>-1</returncode>",
    "<returncode>0</returncode><warning>cut</warning>\n<output_head>{}</output_head>",
    "<tool_response>{}</tool_response>",
    "Observation: {}",
    "Observation 3: {}",
    "OBSERVATION:\n{}",
    "Tool output:\n```\n{}\n```",
    "exitcode: 0 (execution succeeded)\nCode output: {}",
)


@st.composite
def react_histories(draw: Draw) -> list[Json]:
    """Plain text only, so the list reads the same in all three formats."""
    ids = map(str, count())
    rules = "Answer with one action, such as:\n```bash\nls\n```"
    opening = one_of(
        draw,
        [{"role": "system", "content": rules}, {"role": "user", "content": draw(words)}],
        [{"role": "user", "content": SAID + rules}],
    )
    ending = [{"role": "assistant", "content": draw(texts)}] if draw(booleans) else []
    return opening + events(draw, ids, _REACT_EVENTS) + ending


def _react_step(draw: Draw, ids: Ids) -> list[Json]:
    observation = one_of(draw, *OBSERVATIONS).replace("{}", draw(texts))
    return [
        {"role": "assistant", "content": f"THOUGHT: {draw(texts)}\n{one_of(draw, *ACTIONS)}"},
        {"role": "user", "content": observation},
    ]


def _react_talk(draw: Draw, ids: Ids) -> list[Json]:
    return [{"role": "assistant", "content": "May I?"}, {"role": "user", "content": draw(words)}]


_REACT_EVENTS: list[Event] = [_react_step, _react_step, _react_step, _react_talk]


HISTORIES: dict[str, st.SearchStrategy[list[Json]]] = {
    "chat_completions": chat_histories(),
    "responses": responses_histories(),
    "anthropic": anthropic_histories(),
    "react": react_histories(),
}
COMPLETE_HISTORIES: dict[str, st.SearchStrategy[list[Json]]] = {
    "chat_completions": chat_histories(complete=True),
    "responses": responses_histories(complete=True),
    "anthropic": anthropic_histories(complete=True),
}
"""Histories with calls in them, all answered, and nothing given only by reference."""


def format_of(kind: str) -> str:
    return "chat_completions" if kind == "react" else kind


# -------------------------------------------------------------------------------------------------- Anything else

_KEYS = (
    "role", "content", "type", "text", "tool_calls", "tool_call_id", "function_call", "function", "name",
    "arguments", "id", "call_id", "output", "summary", "encrypted_content", "approval_request_id", "action",
    "results", "input", "tool_use_id", "thinking", "cache_control", "source", "reasoning_content", "refusal", "ttl",
)  # fmt: skip
_VALUES = (
    "user", "assistant", "system", "tool", "function", "message", "reasoning", "function_call",
    "function_call_output", "computer_call_output", "mcp_approval_request", "mcp_approval_response",
    "web_search_call", "item_reference", "program", "program_output", "tool_search_output", "text", "tool_use",
    "tool_result", "thinking", "server_tool_use", "web_search_tool_result", "input_text", "image", "call_0",
    "\ud800", "",
)  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(_VALUES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=12,
)
"""JSON made of the words the formats know, put together without sense: it gets further in than noise does."""

json_lists = st.lists(st.dictionaries(st.sampled_from(_KEYS), json_values, max_size=6) | json_values, max_size=4)


@st.composite
def damaged_histories(draw: Draw, kind: str) -> list[Any]:
    """A legal history with one value, anywhere in it, taken away or replaced by any other."""
    messages: list[Any] = copy.deepcopy(draw(HISTORIES[kind]))
    holder, key = draw(st.sampled_from(list(_places(messages))))
    if isinstance(holder, dict) and draw(booleans):
        del holder[key]
    else:
        holder[key] = draw(json_values)
    return messages


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value that holds another."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield value, key
        yield from _places(inner)
