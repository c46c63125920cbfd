"""The calls of the Responses API that wait for the agent, each with its output."""

from .parts import PNG, Draw, Ids, Json, arguments, maybe, names, one_of, texts


def item_pair(draw: Draw, ids: Ids) -> tuple[Json, Json]:
    """A call that waits for the agent, and its output."""
    return one_of(draw, function_call, function_call, _custom, _computer, _local_shell, _shell, _patch, _tool_search)(
        draw, f"call_{next(ids)}"
    )


def function_call(draw: Draw, identity: str) -> tuple[Json, Json]:
    blocks = [
        {"type": "input_text", "text": draw(texts)},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    ]
    return (
        {"type": "function_call", "call_id": identity, "name": draw(names), "arguments": draw(arguments)},
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
