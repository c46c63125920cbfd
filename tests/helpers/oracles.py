"""What must hold of any compressed history, said a second time and in another way than the library says it.

The checks compare the rebuilt list with the original by the identity of its parts, and know nothing of spans.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from focusctx.invariants import violations
from focusctx.pipeline.must_stay import companions_of, pinned_spans
from focusctx.types import History
from helpers.sdk_types import sdk_errors
from strategies import SAID, UNKNOWN_ITEM

Json = dict[str, Any]


def kept_spans(history: History, data: st.DataObject) -> frozenset[int]:
    """Any choice of spans, with those that may not be dropped and those they rest on."""
    chosen = data.draw(st.frozensets(st.sampled_from(range(1, history.newest + 1)))) if history.spans else frozenset()
    chosen |= pinned_spans(history, None).keys()
    return chosen | companions_of(history, chosen).keys()


def check(original: Sequence[Json], rebuilt: Sequence[Json], format: str) -> None:
    """All that holds whichever spans were dropped, and whatever was left of them."""
    assert violations(rebuilt, format) == []
    assert sdk_errors(official(rebuilt), format) == []
    assert rebuilt[-1] is original[-1], "what the agent is about to answer stays as it is"
    assert same(words(rebuilt), words(original)), "the user's words survive, all and in order"
    assert same(frame(rebuilt), frame(original)), "system messages and unknown items survive"
    assert same(reasoning(rebuilt), [part for part in reasoning(original) if part_in(part, reasoning(rebuilt))])
    assert open_calls(rebuilt) == open_calls(original), "a call loses its result only together with it"
    present = sources(original, rebuilt)
    for binding in (reasoning_pairs, reference_pairs, joint_work):
        for unit in binding(original):
            left = [part_in(part, present) for part in unit]
            assert all(left) or not any(left), f"torn apart: {unit}"
    if format == "anthropic":
        assert results_come_first(rebuilt) or not results_come_first(original)
        assert sum("cache_control" in block for block in all_blocks(rebuilt)) <= 4
        check_turns_open_with_thinking(original, rebuilt)


def check_removed(original: Sequence[Json], rebuilt: Sequence[Json]) -> None:
    """Nothing new stands in the list: its messages, or at least their blocks, are the very objects that came in."""
    assert in_order(
        [part for message in rebuilt for part in parts(message, part_in(message, original))],
        [part for message in original for part in (message, *blocks(message))],
    )


def check_verbatim(original: Sequence[Json], rebuilt: Sequence[Json]) -> None:
    """Every message is one that came in, or a copy with less of its text; a turn with hidden reasoning is not copied.

    `sources` fails if some text is not made of stretches of the original, in order.
    """
    for before, after in zip(sources(original, rebuilt), rebuilt, strict=True):
        if after is not before:
            assert is_result(before) or is_turn(before), f"not to be altered: {before}"
            assert not reasoning([before]) or before.get("role") == "user", "the model's turn beside its reasoning"
            assert not (is_turn(before) and before.get("reasoning_content")), "the model's turn beside its reasoning"
    said = "\n".join([*strings(original), json.dumps(original, ensure_ascii=False)])
    for text in strings(rebuilt):
        for deeds in _DEEDS.findall(text):
            assert all(piece.strip() in said for piece in _BETWEEN.split(deeds)), f"deeds in other words: {deeds}"


_DEEDS = re.compile(r"Done in them:\n((?:.*\n)*?)…\]")
_BETWEEN = re.compile(r'[()="…,:→\[\]{}\n]|×\d+|\bok\b|, after ')


def strings(value: object) -> Iterator[str]:
    """Every text in a value; arguments in JSON are read, too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings(inner)
    elif value is not None:
        text = value if isinstance(value, str) else json.dumps(value)
        yield text
        if text.startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                yield from strings(json.loads(text))


def is_turn(message: Json) -> bool:
    return message.get("role") in ("assistant", "model") or message.get("type") in ("function_call", "custom_tool_call")


def sources(original: Sequence[Json], rebuilt: Sequence[Json]) -> list[Json]:
    """The message that each of the rebuilt ones was made of."""
    known = {id(message) for message in original}
    rest = iter(original)
    found = []
    for after in rebuilt:
        source = next(
            (before for before in rest if (after is before if id(after) in known else is_less_of(before, after))), None
        )
        assert source is not None, f"not made of the original: {after}"
        found.append(source)
    return found


_LEFT_OUT = (
    r"[\d,]+ (?:lines?|characters) left out",
    r"[\d,]+ more calls? left out: [^\]]*",
    r"[\d,]+ (?:later|earlier) steps? left out(?:: [^\]]*?)?(?:\. Done in them:\n(?:.*\n)*?…)?",
    r"image or file left out",
)
MARK = re.compile(rf"\n?\[…(?: (?:{'|'.join(_LEFT_OUT)}))?\] ?\n?")


def is_less_of(before: object, after: object) -> bool:
    """Whether a value is what is left of another when texts and list elements are taken away, with marks for them."""
    if isinstance(before, dict) and isinstance(after, dict):
        if before.get("type") == "computer_screenshot":
            return after.keys() == before.keys()
        if before.get("type") == "execution-denied":  # a reason is optional, and a line may stand there
            before, after = {"reason": "", **before}, {"reason": "", **after}
        if isinstance(response := before.get("response"), dict) and "name" in before:  # Gemini's
            return _is_response_less(before, after, response)
        loose = {"content", "images"} if before.get("role") == "tool" else {"content"}
        same_keys = before.keys() - loose == after.keys() - loose
        return same_keys and all(_is_field_less(key, before.get(key), after[key]) for key in after)
    if isinstance(before, list) and isinstance(after, list):
        rest = iter(before)
        return all(_is_mark(one) or any(is_less_of(other, one) for other in rest) for one in after)
    if isinstance(before, str) and isinstance(after, str):
        return is_cut_of(before, after)
    return before == after


def _is_response_less(before: Json, after: Json, response: Json) -> bool:
    """Whether a function response is left of another: its object may become a text in a field, its images may go."""
    (text,) = after["response"].values() if len(after["response"]) == 1 else ("",)
    whole = [
        json.dumps(response, ensure_ascii=False),
        *(value for value in response.values() if isinstance(value, str)),
    ]
    rest = before.keys() - {"parts", "response"} == after.keys() - {"parts", "response"}
    is_cut = isinstance(text, str) and any(is_cut_of(one, text) for one in whole)
    failed = "error" in response
    return rest and (after == before or (is_cut and ("error" in after["response"]) == failed))


def _is_field_less(key: str, before: object, after: object) -> bool:
    if key == "arguments" and before != after and isinstance(before, str):
        return is_less_of(json.loads(str(before)), json.loads(str(after)))
    if key == "output" and isinstance(before, dict) and isinstance(after, dict) and "reason" in after:
        rest = {**before, "reason": ""} == {**after, "reason": ""}
        return rest and is_cut_of(before.get("reason", ""), after["reason"])
    if key == "output" and isinstance(before, dict) and isinstance(after, dict) and "value" in after:
        fails = str(before["type"]).startswith("error")
        return fails == str(after["type"]).startswith("error") and is_less_of(*_values(before, after))
    if key in ("content", "output") and not isinstance(before, str) and isinstance(after, str):
        texts = [one["text"] for one in before or () if "text" in one] if isinstance(before, list) else []
        return is_cut_of("\n".join(texts), after)
    return is_less_of(before, after)


def _values(before: Json, after: Json) -> tuple[object, object]:
    """The values of two outputs of the AI SDK: as texts, if one was shortened to a text."""
    value = before.get("value")
    if before == after or not isinstance(after["value"], str) or isinstance(value, str):
        return value, after["value"]
    if before["type"] == "content":
        return "\n".join(part["text"] for part in value or () if "text" in part), after["value"]
    return json.dumps(value, ensure_ascii=False), after["value"]


def _is_mark(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type", "text") == "text"
        and MARK.fullmatch(value.get("text") or "") is not None
    )


def is_cut_of(before: str, after: str) -> bool:
    """Whether a text is stretches of another, in order, with marks where something is missing."""
    if before == after:
        return True
    pieces = [piece.strip("\n") for piece in MARK.split(after)]
    place = 0
    for piece in pieces:
        found = [one for one in (piece, piece.removesuffix(" ")) if before.find(one, place) >= 0]
        if not found:
            return False
        place = before.find(found[0], place) + len(found[0])
    begins = before.strip("\n").startswith(pieces[0].removesuffix(" "))
    return len(pieces) > 1 and begins and before.strip("\n").endswith(pieces[-1])


def same(left: Sequence[object], right: Sequence[object]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


def in_order(some: Iterable[object], whole: Iterable[object]) -> bool:
    """Whether `some` is what is left of `whole` when parts of it are taken away."""
    rest = iter(whole)
    return all(any(part is other for other in rest) for part in some)


def part_in(part: object, whole: Iterable[object]) -> bool:
    return any(part is other for other in whole)


def official(messages: Iterable[Json]) -> list[Json]:
    """Without what imitators and the future add to a format: the SDKs do not know it."""
    known = [message for message in messages if message.get("type") != UNKNOWN_ITEM]
    known = [{key: each[key] for key in ("role", "content")} if "stop_reason" in each else each for each in known]
    return [{key: value for key, value in message.items() if key != "reasoning_content"} for message in known]


def blocks(message: Json) -> list[Json]:
    content = message.get("content", message.get("parts"))
    return content if isinstance(content, list) else []


def block_type(block: Json) -> str:
    """The type of a block; a part of Gemini's has none, but is named after the field that is set."""
    by_field = {"functionCall": "tool_use", "functionResponse": "tool_result"}
    fields = [field for field in by_field if block.get(field) or block.get(snake(field))]
    return by_field[fields[0]] if fields else str(block.get("type", "text"))


def snake(field: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", field)


def named(block: Json, field: str) -> str:
    """The name of a function call or response of Gemini's."""
    return str((block.get(field) or block[snake(field)])["name"])


def all_blocks(messages: Iterable[Json]) -> Iterator[Json]:
    for message in messages:
        for block in blocks(message):
            yield block
            yield from blocks(block)


def parts(message: Json, whole: bool) -> list[Json]:
    return [message] if whole else blocks(message)


def words(messages: Iterable[Json]) -> list[Json]:
    """What people said: blocks of user messages, or whole messages of plain text."""
    found: list[Json] = []
    for message in messages:
        if message.get("role") == "user" or (message.get("role") == "function" and "parts" in message):
            found += [block for block in blocks(message) if block_type(block) != "tool_result"]
            if str(message.get("content")).startswith(SAID):
                found.append(message)
    return found


def frame(messages: Iterable[Json]) -> list[Json]:
    fixed = ("compaction", UNKNOWN_ITEM)
    return [
        message
        for message in messages
        if message.get("role") in ("system", "developer")
        or message.get("type") in fixed
        or (is_reference(message) and message["id"].startswith("cmp_"))
    ]


def is_reference(message: Json) -> bool:
    return message.get("type") == "item_reference" or ("role" not in message and "type" not in message)


def reasoning(messages: Iterable[Json]) -> list[Json]:
    """Every reasoning item and thinking block."""
    items = [message for message in messages if message.get("type") == "reasoning"]
    hidden = ("thinking", "redacted_thinking", "reasoning")
    signed = ("thoughtSignature", "thought_signature")
    return items + [
        block for block in all_blocks(messages) if block_type(block) in hidden or any(map(block.get, signed))
    ]


def is_result(message: Json) -> bool:
    if message.get("role") == "user":
        return not str(message.get("content")).startswith(SAID)
    return message.get("role") in ("tool", "function") or message.get("type", "").endswith("_output")


def open_calls(messages: Iterable[Json]) -> dict[str, int]:
    """The ids asked for more often than answered, or the reverse, and by how much."""
    balance: Counter[str] = Counter()
    for message in messages:
        balance.update(_asked(message))
        balance.subtract(_answered(message))
    return {identity: missing for identity, missing in balance.items() if missing}


def _asked(message: Json) -> Iterator[str]:
    for call in message.get("tool_calls", ()):
        own = isinstance(call.get("function", {}).get("arguments"), dict)  # Ollama's
        yield call["function"]["name"] if own else call["id"]
    if "function_call" in message:
        yield message["function_call"]["name"]
    for block in blocks(message):
        if block_type(block).endswith("tool_use"):
            yield block["id"] if "type" in block else named(block, "functionCall")
        elif block_type(block) == "tool-call":
            yield block["toolCallId"]
    kind = message.get("type", "message")
    if kind == "mcp_approval_request" or (is_reference(message) and message["id"].startswith("mcpr_")):
        yield message["id"]
    elif is_reference(message) and message["id"].startswith("fc_"):
        yield message["id"].removeprefix("fc_")  # the strategies name it after the call
    elif message.get("call_id") and not kind.endswith("_output"):
        yield message["call_id"]


def _answered(message: Json) -> Iterator[str]:
    name = message.get("tool_name") or message.get("tool_call_id") or message.get("name")
    if message.get("role") in ("tool", "function") and name:
        yield name
    for block in blocks(message):
        if block_type(block).endswith("tool_result"):
            yield block["tool_use_id"] if "type" in block else named(block, "functionResponse")
        elif block_type(block) == "tool-result":
            yield block["toolCallId"]
    kind = message.get("type", "message")
    if kind == "mcp_approval_response":
        yield message["approval_request_id"]
    elif kind == "local_shell_call_output":
        yield message["id"]
    elif kind.endswith("_output") and message.get("call_id"):
        yield message["call_id"]


def reasoning_pairs(messages: Sequence[Json]) -> list[list[Json]]:
    """Responses: each reasoning item with the item it led to."""
    following = itertools.pairwise(messages)
    return [list(pair) for pair in following if pair[0].get("type") == "reasoning"]


def reference_pairs(messages: Sequence[Json]) -> list[list[Json]]:
    """Responses: each reference with what the model made directly after it."""
    return [
        [before, after]
        for before, after in itertools.pairwise(messages)
        if is_reference(before) and not is_result(after) and after.get("role", "assistant") == "assistant"
        if after.get("type") not in ("mcp_approval_response", "compaction", "additional_tools", UNKNOWN_ITEM)
        if not any(is_reference(each) and each["id"].startswith("cmp_") for each in (before, after))
    ]


def joint_work(messages: Sequence[Json]) -> list[list[Json]]:
    """Messages that speak of the same approval or program: the provider goes on with it from message to message."""
    units: dict[str, list[Json]] = {}
    for message in messages:
        for name in _joint_names(message):
            units.setdefault(name, []).append(message)
    return list(units.values())


def _joint_names(message: Json) -> Iterator[str]:
    kind = message.get("type")
    if kind == "mcp_approval_request":
        yield message["id"]
    if kind in ("mcp_approval_response", "mcp_call") and "approval_request_id" in message:
        yield message["approval_request_id"]
    if kind in ("program", "program_output"):
        yield message["call_id"]
    if "caller" in message:
        yield message["caller"]["caller_id"]
    yield from (block["approvalId"] for block in blocks(message) if "approvalId" in block)
    if message.get("role") == "assistant":
        yield from {
            block["toolCallId"]
            for block in blocks(message)
            if block.get("providerExecuted") or block["type"] == "tool-result"
        }
        yield from {
            block.get("caller", {}).get("tool_id") or block.get("tool_use_id") or block["id"]
            for block in blocks(message)
            if block["type"] == "server_tool_use" or block["type"].endswith("tool_result") or "caller" in block
        }


def results_come_first(messages: Sequence[Json]) -> bool:
    """Anthropic: where a turn's results and the user's words follow it, the results stand first."""
    spoken = False
    for message in messages:
        if message["role"] == "assistant":
            spoken = False
        for block in blocks(message) if message["role"] == "user" else ():
            if block["type"] == "tool_result" and spoken:
                return False
            spoken = spoken or block["type"] != "tool_result"
    return True


def check_turns_open_with_thinking(original: Sequence[Json], rebuilt: Sequence[Json]) -> None:
    """Anthropic: what was a thinking turn still opens with thinking, or the provider refuses its tool calls."""
    after_thinking = {
        id(message) for turn in turns(original) for place, message in enumerate(turn) if reasoning(turn[: place + 1])
    }
    source_of = dict(zip(map(id, rebuilt), sources(original, rebuilt), strict=True))
    for turn in turns(rebuilt):
        first = source_of[id(turn[0])]
        assert reasoning(turn[:1]) or id(first) not in after_thinking, "lost the thinking it rests on"


def turns(messages: Iterable[Json]) -> list[list[Json]]:
    """Anthropic: the assistant messages between one word of the user and the next."""
    found: list[list[Json]] = [[]]
    for message in messages:
        if message["role"] == "assistant":
            found[-1].append(message)
        elif words([message]):
            found.append([])
    return [turn for turn in found if turn]
