"""A history read step by step is the history read at once."""

import copy
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.config import FocusConfig
from focusctx.errors import MessageError
from focusctx.pipeline.split import RecentHistories, read_history
from helpers.histories import call, run
from strategies import HISTORIES, Json

CONFIG = FocusConfig()


def shelf() -> RecentHistories:
    return RecentHistories(CONFIG, len)


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_however_the_list_grows_it_reads_the_same(kind: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[kind])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(messages)))) | {len(messages)})
    recent = shelf()
    for cut in cuts:
        prefix = messages[:cut]
        assert recent.read(prefix, None).history() == read_history(prefix, CONFIG, len)


@given(data=st.data())
def test_conversations_may_take_turns_branch_and_be_cut_back(data: st.DataObject) -> None:
    """Sub-agents share a beginning; a user goes back to an earlier step and goes on from there."""
    trunk = data.draw(HISTORIES["chat_completions"])
    branches = [trunk + data.draw(HISTORIES["chat_completions"]) for _ in range(3)]
    recent = shelf()
    for _ in range(8):
        branch = data.draw(st.sampled_from(branches))
        prefix = branch[: data.draw(st.integers(0, len(branch)))]
        assert recent.read(prefix, None).history() == read_history(prefix, CONFIG, len)


def counting_histories() -> tuple[RecentHistories, list[str]]:
    """Return a reader, and the list that gets each text that it counts."""
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    return RecentHistories(CONFIG, count), counted


def test_only_new_messages_are_counted() -> None:
    messages = run(5)
    recent, counted = counting_histories()
    recent.read(messages[:-2], None)
    counted.clear()
    recent.read(messages, None)
    assert counted == ["thought 5", "look({})", "result 5"]


def test_of_two_conversations_that_begin_alike_the_longer_one_is_continued() -> None:
    messages = run(5)
    recent, counted = counting_histories()
    recent.read(messages[:-2], None)
    recent.read(messages[:4], None)
    counted.clear()
    assert recent.read(messages, None).history() == read_history(messages, CONFIG, len)
    assert counted == ["thought 5", "look({})", "result 5"]


def test_a_counter_that_failed_once_leaves_no_wrong_sum_behind() -> None:
    failures = iter([True])

    def count(text: str) -> int:
        if text == "and hurry" and next(failures, False):
            raise RuntimeError
        return len(text)

    messages: list[Json] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t"}, {"type": "text", "text": "and hurry"}],
        },
    ]
    recent = RecentHistories(CONFIG, count)
    recent.read(messages[:2], None)
    with pytest.raises(RuntimeError):
        recent.read(messages, None)
    assert recent.read(messages, None).history() == read_history(messages, CONFIG, len)


def test_more_conversations_than_are_remembered_are_read_again() -> None:
    recent = shelf()
    conversations = [[{"role": "user", "content": f"task {number}"}, *run(3)] for number in range(20)]
    for length in (3, 6, 8):
        for messages in conversations:
            assert recent.read(messages[:length], None).history() == read_history(messages[:length], CONFIG, len)


def test_a_format_that_shows_late_is_read_from_the_start() -> None:
    messages: list[Json] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "well"},
        {"role": "assistant", "content": "so"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
    ]
    recent = shelf()
    assert recent.read(messages[:3], None).history().format == "chat_completions"
    grown = recent.read(messages, None).history()
    assert grown == read_history(messages, CONFIG, len)
    assert grown.format == "anthropic"


def test_the_format_asked_for_once_is_not_asked_for_ever_after() -> None:
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "well"}]
    recent = shelf()
    assert recent.read(messages[:1], "anthropic").history().format == "anthropic"
    assert recent.read(messages, None).history() == read_history(messages, CONFIG, len)
    assert recent.read(messages, "responses").history() == read_history(messages, CONFIG, len, format="responses")


def test_a_bad_message_leaves_no_half_read_history_behind() -> None:
    good = run(2)
    bad = [*good, *run(1)[2:], {"role": "tool", "content": "no id"}]
    recent = shelf()
    recent.read(good, None)
    for _ in range(2):
        with pytest.raises(MessageError, match=f"message {len(bad) - 1}: "):
            recent.read(bad, None)
    assert recent.read(good, None).history() == read_history(good, CONFIG, len)


def edit_text(messages: list[Json]) -> None:
    messages[1]["content"] = "Do another task."


def edit_block(messages: list[Json]) -> None:
    messages[-1]["content"][0]["content"] = "another result"


def edit_deep_inside(messages: list[Json]) -> None:
    messages[-2]["content"][0]["input"]["path"]["name"] = "/"


def add_block(messages: list[Json]) -> None:
    messages[-1]["content"].append({"type": "text", "text": "and mind the gap"})


def take_key(messages: list[Json]) -> None:
    del messages[-1]["content"][0]["content"]


@pytest.mark.parametrize("edit", [edit_text, edit_block, edit_deep_inside, add_block, take_key])
def test_what_was_edited_in_place_is_read_again(edit: object) -> None:
    """Agents add cache marks and reminders to messages they have sent before."""
    messages: list[Json] = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Do the task."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {"path": {"name": "x"}}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "a result"}]},
    ]
    recent = shelf()
    before = recent.current(recent.read(messages, None)).history()
    assert recent.current(recent.read(messages, None)).history() == before
    edit(messages)  # type: ignore[operator]
    after = recent.current(recent.read(messages, None)).history()
    assert after == read_history(messages, CONFIG, len)
    assert (after.spans, after.user_turns) != (before.spans, before.user_turns)


def test_equal_messages_are_known_but_the_callers_own_objects_go_back() -> None:
    """A proxy gets every request as new JSON."""
    recent = shelf()
    recent.read(run(3), None)
    again: Sequence[Json] = copy.deepcopy(run(4))
    reader = recent.read(again, None)
    assert all(mine is theirs for mine, theirs in zip(reader.messages, again, strict=True))
    assert reader.history() == read_history(again, CONFIG, len)


def test_a_list_that_shrank_is_another_list() -> None:
    messages = run(3)
    messages[2]["tool_calls"].append(call(9))
    recent = shelf()
    recent.read(messages, None)
    assert recent.read(messages[:3], None).history() == read_history(messages[:3], CONFIG, len)
    assert recent.read([], None).history() == read_history([], CONFIG, len)
