"""Chain keys name a history's spans by all that came before them, and by nothing else."""

import copy
import json
import os
import subprocess
import sys
from collections import UserDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.config import FocusConfig
from focusctx.pipeline.split import read_history
from focusctx.session.store import Chain, canonical
from helpers.histories import Messages, run
from strategies import HISTORIES, Json, json_values

CONFIG = FocusConfig()
MARK = {"type": "ephemeral"}


def chain_of(messages: list[Json], format: str | None = None) -> Chain:
    history = read_history(messages, CONFIG, len, format=format)
    chain = Chain()
    chain.extend(history.messages, history.owners)
    return chain


def keys_of(messages: list[Json], format: str | None = None) -> list[str]:
    return chain_of(messages, format).keys


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=40)
@given(data=st.data())
def test_the_same_history_in_other_objects_has_the_same_keys(kind: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[kind])
    again = json.loads(json.dumps(messages, sort_keys=True))
    assert keys_of(again) == keys_of(copy.deepcopy(messages)) == keys_of(messages)


def test_another_process_finds_the_same_keys() -> None:
    code = (
        "import json, sys; sys.path.insert(0, 'tests'); sys.path.insert(0, 'tests/session');"
        "from test_chain import keys_of; print(json.dumps(keys_of(json.load(sys.stdin))))"
    )
    messages = run(4)
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(messages),
        capture_output=True,
        text=True,
        check=True,
        cwd=__file__.rsplit("/tests/", 1)[0],
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert json.loads(done.stdout) == keys_of(messages)


def test_any_mapping_is_read_like_a_dict() -> None:
    messages = run(2)
    assert keys_of([UserDict(message) for message in messages]) == keys_of(messages)  # type: ignore[misc]


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_fork_shares_the_keys_of_its_past_and_growing_changes_none(kind: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[kind])
    wire = read_history(messages, CONFIG, len).format
    cut = data.draw(st.integers(0, len(messages)))
    trunk = keys_of(messages[:cut], wire)
    whole = keys_of(messages, wire)
    assert whole[: max(len(trunk) - 1, 0)] == trunk[:-1]  # the newest may still have grown
    history = read_history(messages[:cut], CONFIG, len, format=wire)
    chain = Chain()
    for message, owner in zip(history.messages, history.owners, strict=True):
        chain.extend([message], [owner])
    assert chain.keys == trunk
    assert len(chain.heads) == cut


messages_of_spans = st.lists(
    st.tuples(st.dictionaries(st.sampled_from(("role", "content", "id")), json_values, max_size=3), st.booleans()),
    min_size=2,
    max_size=8,
)


def spans_and_keys(messages: list[Json], owners: list[int]) -> list[tuple[int, str]]:
    """Each span's last message, and its key."""
    chain = Chain()
    chain.extend(messages, owners)
    lasts = {owner: place for place, owner in enumerate(owners) if owner}
    return [(lasts[index], key) for index, key in enumerate(chain.keys, 1)]


@given(drawn=messages_of_spans, data=st.data())
def test_an_edit_changes_all_later_keys_and_none_before(drawn: list[tuple[Json, bool]], data: st.DataObject) -> None:
    messages = [message for message, _ in drawn]
    owners = [sum(begins for _, begins in drawn[: place + 1]) for place in range(len(drawn))]
    place = data.draw(st.integers(0, len(messages) - 1))
    edited = [*messages[:place], {**messages[place], "edited": True}, *messages[place + 1 :]]
    for (last, before), (_, after) in zip(
        spans_and_keys(messages, owners), spans_and_keys(edited, owners), strict=True
    ):
        assert (before != after) == (last >= place)


@pytest.mark.parametrize(
    ("change", "untouched"),
    [
        (lambda m: [*m[:4], m[6], m[7], m[4], m[5], *m[8:]], 1),  # two steps changed places
        (lambda m: [*m[:4], {"role": "user", "content": "Wait."}, *m[4:]], 1),  # the user's words were put in
        (lambda m: [*m[:4], *m[6:]], 1),  # a step was taken out
        (lambda m: [m[0], {"role": "user", "content": "Do another task."}, *m[2:]], 0),
        (lambda m: [{"role": "system", "content": "You refuse."}, *m[1:]], 0),
        (lambda m: [*m[:3], {**m[3], "content": m[3]["content"] + " "}, *m[4:]], 0),
        (lambda m: m[:-1], 3),  # the newest step still waits for its result
    ],
    ids=["reordered", "inserted", "removed", "task", "system prompt", "one blank", "unfinished"],
)
def test_what_changes_a_key(change: object, untouched: int) -> None:
    before, after = keys_of(run(4)), keys_of(change(run(4)))  # type: ignore[operator]
    assert before[:untouched] == after[:untouched]
    assert not set(before[untouched:]) & set(after[untouched:])


def test_the_users_words_count_to_the_step_after_them() -> None:
    said: Messages = [{"role": "user", "content": "And hurry."}]
    assert keys_of(run(2) + said) == keys_of(run(2))
    assert keys_of(run(2) + said + run(3)[-2:])[:2] == keys_of(run(2))
    assert keys_of(run(2) + said + run(3)[-2:])[2] != keys_of(run(3))[2]


def test_words_in_the_message_of_a_result_count_to_its_step() -> None:
    def spoken(words: str) -> list[Json]:
        return [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": "a result"},
                    {"type": "text", "text": words},
                ],
            },
        ]

    assert keys_of(spoken("Go on.")) != keys_of(spoken("Stop."))


def test_texts_cannot_slip_from_one_message_into_the_next() -> None:
    assert canonical({"role": "user", "content": "ab"}) + canonical({"role": "user", "content": "c"}) != canonical(
        {"role": "user", "content": "a"}
    ) + canonical({"role": "user", "content": "bc"})
    one = [{"role": "assistant", "content": 'a"},{"role":"assistant","content":"b'}]
    two = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert keys_of(one)[-1] != keys_of(two)[-1]


def without_marks(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_marks(inner) for key, inner in value.items() if key != "cache_control"}
    return [without_marks(inner) for inner in value] if isinstance(value, list) else value


@settings(max_examples=40)
@given(data=st.data())
def test_cache_marks_may_move(data: st.DataObject) -> None:
    messages = data.draw(HISTORIES["anthropic"])
    bare: list[Json] = without_marks(messages)  # type: ignore[assignment]
    moved = copy.deepcopy(bare)
    for message in moved:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
        for block in message["content"][data.draw(st.integers(0, 2)) :]:
            block["cache_control"] = MARK
    assert len({tuple(keys_of(each, "anthropic")) for each in (messages, bare, moved)}) == 1


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_a_text_that_became_a_block_to_be_marked_is_the_same_text(role: str) -> None:
    spellings = [
        "hello",
        [{"type": "text", "text": "hello", "cache_control": MARK}],
        [{"type": "text", "text": "hello"}],  # the mark has moved on and the block was left
    ]
    assert len({canonical({"role": role, "content": content}) for content in spellings}) == 1


def test_a_mark_on_the_message_itself_or_inside_a_result_does_not_count() -> None:
    result = {"type": "tool_result", "tool_use_id": "t"}
    spellings: list[Json] = [
        {"role": "user", "content": [{**result, "content": "out"}]},
        {"role": "user", "content": [{**result, "content": [{"type": "text", "text": "out", "cache_control": MARK}]}]},
        {"role": "user", "content": [{**result, "content": "out", "cache_control": MARK}], "cache_control": MARK},
    ]
    assert len(set(map(canonical, spellings))) == 1


def test_an_argument_that_is_called_like_a_mark_counts() -> None:
    def using(value: str) -> Json:
        block = {"type": "tool_use", "id": "t", "name": "put", "input": {"cache_control": value}}
        return {"role": "assistant", "content": [block]}

    assert canonical(using("no-store")) != canonical(using("public"))


def test_two_blocks_are_not_one_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert canonical({"role": "user", "content": parts}) != canonical({"role": "user", "content": "ab"})
    assert canonical({"role": "user", "content": [{"type": "refusal", "text": "a"}]}) != canonical(
        {"role": "user", "content": "a"}
    )


@given(message=st.dictionaries(st.text(max_size=3), json_values, max_size=4))
def test_whatever_json_holds_can_be_keyed(message: Json) -> None:
    assert canonical(message) == canonical(json.loads(json.dumps(message)))
    marked = {"content": [message, "half a pair: \ud800", {"cache_control": MARK}]}
    assert canonical(marked)
