"""Focus end to end, with scripted drafts."""

import asyncio
import json
import logging
import time
from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import pytest

from focusctx import ConfigError, DraftError, Focus, FocusConfig, History, MessageError, Prompt, Result, Span
from focusctx import compressor as compressor_module
from focusctx.drafts import ScriptedDraft
from focusctx.pipeline.split import Reader
from helpers.histories import Messages, run, step

PLAN = "Step: finish | Depends on: [s_2]\nRescued Spans: [s_3] | Reason: it failed"
EMPTY = "Step: finish | Depends on: []"


def focus(*replies: Any, **settings: Any) -> Focus:
    return Focus(ScriptedDraft(replies or [PLAN]), **{"budget": 10, "target": None, "tokens": len, **settings})


def test_under_budget_the_same_list_comes_back_and_nobody_is_asked() -> None:
    draft = ScriptedDraft([PLAN])
    messages = run(5)
    result = Focus(draft, budget=10_000).compress(messages)
    assert result.messages is messages
    assert not result.compressed
    assert result.kept == (1, 2, 3, 4, 5)
    assert result.failure is None
    assert draft.prompts == []


def test_cited_rescued_and_pinned_spans_stay_word_for_word() -> None:
    messages = run(6)
    result = focus().compress(messages)
    assert (result.kept, result.dropped, result.rescued, result.pinned) == ((2, 3, 6), (1, 4, 5), (3,), (6,))
    assert result.utilities == {1: 0, 2: 1, 3: 0, 4: 0, 5: 0, 6: 0}
    assert result.compressed
    kept = [messages[i] for i in (0, 1, 4, 5, 6, 7, 12, 13)]
    assert len(result.messages) == len(kept)
    assert all(a is b for a, b in zip(result.messages, kept, strict=True))


def test_optimistic_ignores_rescues() -> None:
    draft = ScriptedDraft([PLAN])
    result = Focus(draft, tokens=len, budget=10, target=None, defensive=False).compress(run(6))
    assert result.kept == (2, 6)
    assert "Rescued" not in draft.prompts[0].system, "nobody is asked for rescues that would not count"


def test_one_of_three_is_enough_at_the_default_threshold() -> None:
    result = focus(PLAN, EMPTY, EMPTY).compress(run(6))
    assert result.kept == (2, 3, 6)
    assert result.utilities[2] == 1 / 3


def test_tokens_are_counted_without_the_system_prompt() -> None:
    messages = run(3)
    texts = ["Do the task."] + [t for n in (1, 2, 3) for t in (f"thought {n}", "look({})", f"result {n}")]
    result = focus().compress(messages)
    assert result.tokens_before == sum(map(len, texts))
    assert result.tokens_after == result.tokens_before - sum(map(len, ("thought 1", "look({})", "result 1")))


def test_the_async_form_gives_the_same_result() -> None:
    messages = run(6)

    async def go() -> Result:
        return await focus().acompress(messages)

    assert asyncio.run(go()).messages == focus().compress(messages).messages


async def test_the_sync_form_works_inside_a_running_loop() -> None:
    assert focus().compress(run(6)).kept == (2, 3, 6)


def test_same_inputs_and_replies_give_the_same_output() -> None:
    first, second = (focus().compress(run(9)) for _ in range(2))
    assert first.messages == second.messages
    assert first.decisions == second.decisions


def test_a_record_keeps_the_call_and_an_excerpt_the_passages_that_are_cited() -> None:
    messages = run(4)
    messages[3]["content"] = "".join(f"line {number} of a long observation\n" for number in range(100))
    messages[5]["content"] = messages[3]["content"].replace("observation", "list")
    result = focus("Step: finish | Depends on: [s_1.0, s_2.3]").compress(messages)
    assert (result.kept, result.dropped, result.shortened) == ((4,), (3,), {1: (), 2: (3,)})
    assert [decision.fate for decision in result.decisions] == ["record", "excerpt", "dropped", "pinned"]
    assert result.history is not None
    assert result.history.outlines is not None
    assert result.messages[2] is messages[2]
    assert result.messages[3] == {**messages[3], "content": "line 0 of a long observation\n[… 99 lines left out]\n"}
    assert result.messages[4] is messages[4]
    assert result.messages[5]["content"].startswith("line 0 of a long list\n[…]\n")
    passage = result.history.outlines.of(result.history.spans[1]).text_of(3)
    assert len(passage.splitlines()) > 2
    assert f"[…]\n{passage}[… " in result.messages[5]["content"]
    assert result.tokens_after < result.tokens_before
    assert result.decisions[1].parts == (3,)
    assert result.decisions[0].left < result.decisions[1].left < result.decisions[1].tokens


def test_what_is_left_is_at_most_the_target_or_the_result_says_why_not() -> None:
    messages = [message for number in range(1, 9) for message in step(number, f"line {number} of a log\n" * 40)]
    messages = [*run(0), *messages]
    result = focus("Step: finish | Depends on: [s_1-s_8]", budget=5000, target=0.6).compress(messages)
    assert (result.target, result.warnings) == (3000, ())
    assert 2500 < result.tokens_after <= 3000
    assert focus(budget=5000, target=2000).compress(messages).tokens_after <= 2000
    small = focus(budget=500, target=0.5).compress(messages)
    assert small.tokens_after > 250
    assert any("above the target of 250" in warning for warning in small.warnings)


def test_the_result_explains_itself() -> None:
    text = focus().compress(run(6)).explain()
    for word in ("s_1", "dropped", "rescued", "pinned", "newest span", "it failed", "finish", "certificate"):
        assert word in text


def test_the_certificate_speaks_of_the_dropped_set() -> None:
    split = [f"Step: go | Depends on: [s_{n}]" for n in (1, 2, 3, 4, 5)]
    result = focus(*split, rollouts=5, threshold=0.3).compress(run(7))
    assert result.dropped == (1, 2, 3, 4, 5, 6)
    assert result.certificate is not None
    assert result.certificate.set_utility == 1.0
    assert result.certificate.bound == 1.0
    assert result.certificate.rollouts == 5


def test_results_survive_json() -> None:
    for result in (focus().compress(run(6)), focus(budget=10_000).compress(run(2)), focus("no").compress(run(4))):
        assert Result.from_json(result.to_json()) == result
        json.loads(result.to_json())
    for broken in (
        '{"messages": [], "compressed": false, "colour": "red"}',
        '{"messages": [], "compressed": 1}',
        '{"messages": 3, "compressed": true}',
        '{"messages": [], "compressed": true, "kept": ["1"]}',
        '{"compressed": true}',
        "[]",
        "{",
    ):
        with pytest.raises(MessageError, match="not a saved Result"):
            Result.from_json(broken)


def test_an_agent_without_a_chat_format_gives_spans() -> None:
    history = History("win", tuple(Span(n, f"idea {n}", f"move {n}", "board" * n) for n in range(1, 6)))
    result = focus().compress(history)
    assert result.kept == (2, 3, 5)
    assert result.messages == []
    with pytest.raises(MessageError, match="index 2 after 3"):
        focus().compress(History("win", (Span(3), Span(2))))


def test_the_goal_can_be_given() -> None:
    draft = ScriptedDraft([PLAN])
    Focus(draft, budget=1).compress(run(4), goal="Water the plants")
    assert "Water the plants" in draft.prompts[0].user
    assert "Do the task." not in draft.prompts[0].user


def test_any_function_can_be_the_draft() -> None:
    def plan(prompt: Prompt) -> str:
        assert prompt.messages[0]["role"] == "system"
        return PLAN

    async def slow_plan(prompt: Prompt) -> str:
        return PLAN

    for draft in (plan, slow_plan):
        assert Focus(draft, budget=10, target=None).compress(run(6)).kept == (2, 3, 6)


class TestFailingOpen:
    """Whatever the draft does, the agent gets its history back."""

    @pytest.mark.parametrize(
        "replies",
        [
            ["I cannot help with that."],
            [DraftError("down")],
            [RuntimeError("boom")],
            [PLAN, "nonsense", DraftError("down")],
            [""],
        ],
    )
    def test_untouched_with_the_reason(self, replies: list[Any], caplog: pytest.LogCaptureFixture) -> None:
        messages = run(6)
        with caplog.at_level(logging.WARNING, "focusctx"):
            result = focus(*replies).compress(messages)
        assert result.messages is messages
        assert not result.compressed
        assert result.failure
        assert result.failure in caplog.text

    def test_a_majority_of_usable_sketches_is_enough(self) -> None:
        result = focus(PLAN, "nonsense", PLAN).compress(run(6))
        assert result.kept == (2, 3, 6)
        assert any("sketch 2" in warning for warning in result.warnings)

    def test_unknown_citations_are_reported(self) -> None:
        result = focus("Step: go | Depends on: [s_2, s_70]").compress(run(6))
        assert result.kept == (2, 6)
        assert any("s_70" in warning for warning in result.warnings)

    def test_the_deadline_holds_even_for_a_hung_function(self) -> None:
        def hang(prompt: Prompt) -> str:
            time.sleep(5)
            return PLAN

        started = time.perf_counter()
        result = Focus(hang, budget=10, deadline=0.2).compress(run(6))
        assert time.perf_counter() - started < 2
        assert "0.2 s" in str(result.failure)

    def test_what_came_before_the_deadline_counts(self) -> None:
        calls = []

        async def third_hangs(prompt: Prompt) -> str:
            calls.append(prompt)
            if len(calls) == 3:
                await asyncio.sleep(5)
            return PLAN

        result = Focus(third_hangs, budget=10, target=None, deadline=0.5).compress(run(6))
        assert result.kept == (2, 3, 6)
        assert result.certificate is not None
        assert result.certificate.rollouts == 2

    def test_the_breaker_leaves_a_failing_draft_alone(self) -> None:
        draft = ScriptedDraft([DraftError("down")])
        compressor = Focus(draft, budget=10, breaker_failures=2, breaker_pause=30)
        for _ in range(4):
            compressor.compress(run(6))
        assert len(draft.prompts) == 2
        assert "left alone" in str(compressor.compress(run(6)).failure)

    def test_an_illegal_history_passes_through(self) -> None:
        messages = run(6)
        del messages[5]  # the result of call_2
        result = focus().compress(messages)
        assert result.messages is messages
        assert "message 4" in str(result.failure)

    def test_a_history_with_nothing_to_drop_asks_nobody(self) -> None:
        draft = ScriptedDraft([PLAN])
        messages: Messages = [{"role": "user", "content": "x" * 100}, *step(1)]
        result = Focus(draft, budget=10, tokens=len).compress(messages)
        assert result.messages is messages
        assert result.failure is None
        assert draft.prompts == []


class TestUnexpectedErrors:
    """A fault of ours, or of a function given as a setting, never makes the agent's call fail."""

    @pytest.mark.parametrize("name", ["pinned_spans", "build_prompt", "read_sketch", "survey", "decide", "rebuild"])
    async def test_a_fault_at_any_step_leaves_the_history_as_it_is(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
    ) -> None:
        def fault(*_: object, **__: object) -> None:
            raise ZeroDivisionError("a fault")

        monkeypatch.setattr(compressor_module, name, fault)
        messages = run(6)
        compressor = focus()
        for result in (compressor.compress(messages), await compressor.acompress(messages)):
            assert result.messages is messages
            assert not result.compressed
            assert result.failure == "unexpected ZeroDivisionError: a fault"
        assert caplog.text.count("history passed on uncompressed: unexpected ZeroDivisionError: a fault") == 2
        assert "Traceback" in caplog.text

    def test_a_fault_while_reading_leaves_no_trace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        messages = run(6)
        compressor = focus()
        with monkeypatch.context() as patched:
            patched.setattr(Reader, "extend", lambda *_: 1 / 0)
            assert compressor.compress(messages).messages is messages
        assert compressor.compress(messages) == replace(focus().compress(messages), latency=ANY)

    def test_a_raising_pin_rule_is_named(self, caplog: pytest.LogCaptureFixture) -> None:
        def keep_orders(span: Span) -> bool:
            raise KeyError("order")

        messages = run(5)
        result = focus(budget=10, pin=keep_orders).compress(messages)
        assert result.messages is messages
        assert result.failure == "the function given as pin (keep_orders) raised KeyError for s_1: 'order'"
        assert result.failure in caplog.text

    def test_a_raising_token_function_is_named(self, caplog: pytest.LogCaptureFixture) -> None:
        def count(text: str) -> int:
            raise RuntimeError("no vocabulary")

        messages = run(5)
        result = focus(budget=10, tokens=count).compress(messages)
        assert result.messages is messages
        assert result.failure == "the function given as tokens (count) raised RuntimeError: no vocabulary"
        assert result.failure in caplog.text


class TestBadInput:
    @pytest.mark.parametrize(
        ("messages", "words"),
        [
            ("hello", "expected a list of messages, got str$"),
            (None, "expected a list of messages, got None$"),
            ({"messages": []}, "pass its 'messages'"),
            ([{"role": "user", "content": "a"}, "b"], "message 1: expected a dict, got str"),
            ((message for message in run(1)), r"got generator: pass list\(messages\)"),
            (iter(run(1)), r"got list_iterator: pass list\(messages\)"),
            ([{"content": "a"}], "message 0: 'role' must be a str, got None"),
            ([{"role": "user", "content": 7}], "message 0: 'content' must be a str, a list of blocks or None, got int"),
            ([{"role": "user", "content": [3]}], "message 0: content block 0"),
            ([{"role": "assistant", "tool_calls": [{}]}], "message 0: tool call 0"),
            ([{"role": "tool", "content": "a"}], "message 0: 'tool_call_id'"),
        ],
    )
    def test_names_the_position_and_the_problem(self, messages: Any, words: str) -> None:
        with pytest.raises(MessageError, match="(?s)" + words):
            focus().compress(messages)

    @pytest.mark.parametrize("count", [lambda text: None, lambda text: "7", lambda text: -1, lambda text: float("nan")])
    def test_a_bad_token_function_is_named(self, count: Any) -> None:
        with pytest.raises(ConfigError, match=r"given as tokens \(<lambda>\) must return a number, 0 or more, and"):
            focus(budget=10, tokens=count).compress(run(5))

    def test_an_estimate_in_fractions_is_rounded_up(self) -> None:
        assert type(focus(tokens=lambda text: len(text) / 4).compress(run(5)).tokens_before) is int

    def test_a_bad_message_later_on_does_not_spoil_what_was_read(self) -> None:
        compressor = focus(budget=10_000)
        messages: list[Any] = run(3)
        compressor.compress(messages)
        with pytest.raises(MessageError, match="message 8"):
            compressor.compress([*messages, 5])
        assert compressor.compress(messages).kept == (1, 2, 3)

    def test_unknown_settings_and_formats(self) -> None:
        with pytest.raises(ConfigError, match="budgte"):
            Focus("offline", budgte=5)  # type: ignore[call-arg]
        with pytest.raises(ConfigError, match="anthropic"):
            focus().compress(run(2), format="antropic")
        with pytest.raises(ConfigError, match="budget"):
            Focus("offline", config=FocusConfig(), budget=-1)


def test_an_empty_history_is_fine() -> None:
    messages: Messages = []
    assert focus(budget=0).compress(messages).messages is messages


def test_messages_edited_in_place_are_seen_as_they_are_now() -> None:
    compressor = focus(budget=150)
    messages = run(3)
    assert not compressor.compress(messages).compressed
    messages[2]["tool_calls"], messages[3]["content"] = [dict(messages[2]["tool_calls"][0])], "edited"
    messages += step(4, "x" * 200)
    result = compressor.compress(messages)
    assert result.history is not None
    assert result.history.spans[0].observation == "edited"
