"""What has to stay because of what stays: the turns around a system message."""

from typing import Any

from focusctx import FocusConfig
from focusctx.invariants import violations
from focusctx.pipeline.companions import companions_of
from focusctx.pipeline.rebuild import rebuild
from focusctx.pipeline.split import read_history

SYSTEM = {"role": "system", "content": "Mind the rules."}


def step(number: int) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "seen"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def kept(messages: list[dict[str, Any]], *chosen: int) -> set[int]:
    """The spans that stay with the chosen ones; the list they make is one the provider takes."""
    history = read_history(messages, FocusConfig(), len, format="anthropic")
    stays = {*chosen, *companions_of(history, chosen)}
    assert violations(rebuild(history, stays), "anthropic") == []
    return stays


TASK = {"role": "user", "content": "Do it."}
MORE = {"role": "user", "content": "And that."}


def test_two_system_messages_do_not_meet():
    messages = [TASK, SYSTEM, *step(1), *step(2), *step(3), SYSTEM, *step(4), *step(5)]
    assert kept(messages, 5) == {3, 5}
    assert kept(messages, 1, 5) == {1, 5}
    assert kept(messages, 2, 4, 5) == {2, 4, 5}


def test_a_system_message_does_not_meet_the_users_words():
    messages = [TASK, SYSTEM, *step(1), *step(2), MORE, *step(3), *step(4)]
    assert kept(messages, 4) == {1, 4}


def test_without_system_messages_nothing_more_stays():
    assert kept([TASK, *step(1), *step(2), MORE, *step(3)], 3) == {3}


def test_thinking_that_a_gateway_passes_on_stays_with_the_steps_that_go_on_from_it():
    def chat(number: int, **more: Any) -> list[dict[str, Any]]:
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        result = {"role": "tool", "tool_call_id": f"c{number}", "content": "seen"}
        return [{"role": "assistant", "content": None, "tool_calls": [call], **more}, result]

    thinking = [{"type": "thinking", "thinking": "hm", "signature": "EqQBCg=="}]
    history = read_history([TASK, *chat(1, thinking_blocks=thinking), *chat(2), *chat(3)], FocusConfig(), len)
    assert [span.needs for span in history.spans] == [None, 1, 1]
    assert companions_of(history, {3}).keys() == {1}
