"""One coherent answer: what the SDKs read of a turn in which the model recalled something."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.invariants import violations
from focusctx.proxy.recall import turn as turn_module
from focusctx.proxy.recall.turn import RoundPart, add_usage, select
from focusctx.session.recall import TOOL
from helpers.sdk_types import sdk_errors
from proxy.recall.harness import (
    FORMATS,
    OTHER,
    RECALL,
    TASK,
    Played,
    play,
    read_by_sdk,
    seen,
    stream_of,
    whole_of,
)
from spoken import Call, Say

LAST = {"chat_completions": "tool_calls", "responses": "completed", "anthropic": "tool_use"}
PLAIN = {"chat_completions": "stop", "responses": "completed", "anthropic": "end_turn"}

every_format = pytest.mark.parametrize("format", FORMATS)
streamed_or_not = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


def check_requests(played: Played) -> None:
    """Every later round is one that a provider takes."""
    for extra, _ in played.asked:
        assert violations([TASK, *extra], played.format) == []
        assert sdk_errors(extra, played.format) == []


def said(format: str, *texts: str) -> list[str]:
    """Chat has one text per answer."""
    return ["\n\n".join(texts)] if format == "chat_completions" else list(texts)


@every_format
@streamed_or_not
async def test_a_recall_alone_leaves_no_trace(format: str, streamed: bool) -> None:
    rounds = Say("", (RECALL,), thinking="I forgot"), Say("Now I know.", (OTHER,), thinking="aha")
    played = await play(format, *rounds, streamed=streamed)
    assert played.queries == ["s_7"]
    check_requests(played)
    agent = seen(played, streamed=streamed)
    make = stream_of if streamed else whole_of
    direct = read_by_sdk(make(rounds[1], format, 2), format, streamed=streamed)
    assert (agent.texts, agent.thoughts, agent.calls) == (direct.texts, direct.thoughts, direct.calls)
    assert agent.finish == direct.finish == LAST[format]
    assert agent.input_tokens == 100 + 200, "both rounds are billed"
    assert format == "responses" or TOOL.encode() not in played.body  # Responses repeats the request's tools


@every_format
@streamed_or_not
@pytest.mark.parametrize("calls", [(RECALL, OTHER), (OTHER, RECALL), (OTHER, RECALL, OTHER)])
async def test_other_calls_wait_until_the_model_knows_what_it_recalled(
    format: str, streamed: bool, calls: tuple[Call, ...]
) -> None:
    again = Call("look", {"path": "b.py"})
    played = await play(format, Say("Let me see.", calls, thinking="hm"), Say("", (again,)), streamed=streamed)
    check_requests(played)
    agent = seen(played, streamed=streamed)
    assert agent.calls == [("look", {"path": "b.py"})]
    assert agent.texts == ["Let me see."]
    ((extra, offered),) = played.asked
    assert offered
    assert "a.py" not in str(extra)
    assert str(extra).count("'s_7'") + str(extra).count('"s_7"') == 1


@every_format
@streamed_or_not
async def test_two_recalls_in_one_round(format: str, streamed: bool) -> None:
    second = Call(TOOL, {"query": "the token"})
    played = await play(format, Say("", (RECALL, second)), Say("Done."), streamed=streamed)
    assert played.queries == ["s_7", "the token"]
    check_requests(played)
    ((extra, _),) = played.asked
    assert str(extra).index("recalled s_7") < str(extra).index("recalled the token")
    agent = seen(played, streamed=streamed)
    assert (agent.texts, agent.calls, agent.finish) == (["Done."], [], PLAIN[format])


@every_format
@streamed_or_not
async def test_what_several_rounds_say_is_one_answer(format: str, streamed: bool) -> None:
    rounds = Say("One.", (RECALL,)), Say("Two.", (RECALL,)), Say("Three.", (OTHER, OTHER))
    played = await play(format, *rounds, streamed=streamed)
    assert [offered for _, offered in played.asked] == [True, True]
    check_requests(played)
    agent = seen(played, streamed=streamed)
    assert agent.texts == said(format, "One.", "Two.", "Three.")
    assert agent.calls == [("look", {"path": "a.py"})] * 2
    assert agent.input_tokens == 600
    assert len(played.asked[1][0]) > len(played.asked[0][0])
    assert played.asked[1][0][: len(played.asked[0][0])] == played.asked[0][0], "the prefix stays"


@every_format
@streamed_or_not
async def test_at_the_bound_the_tool_is_no_longer_offered(format: str, streamed: bool) -> None:
    rounds = Say("One.", (RECALL,)), Say("Two.", (RECALL,)), Say("Three.", (OTHER,))
    played = await play(format, *rounds, streamed=streamed, rounds=2)
    assert [offered for _, offered in played.asked] == [True, False]
    assert seen(played, streamed=streamed).calls == [("look", {"path": "a.py"})]


@every_format
@streamed_or_not
@pytest.mark.parametrize(
    ("last", "calls"),
    [((RECALL,), 0), ((RECALL, OTHER), 1), ((OTHER, RECALL, OTHER), 2)],
)
async def test_a_model_that_recalls_once_too_often_is_not_heard(
    format: str, streamed: bool, last: tuple[Call, ...], calls: int
) -> None:
    rounds = Say("One.", (RECALL,)), Say("Two.", last, thinking="again")
    played = await play(format, *rounds, streamed=streamed, rounds=1)
    assert played.queries == ["s_7"]
    agent = seen(played, streamed=streamed)
    assert agent.texts == said(format, "One.", "Two.")
    assert agent.calls == [("look", {"path": "a.py"})] * calls
    assert agent.finish == (LAST if calls else PLAIN)[format]


@every_format
@streamed_or_not
async def test_without_any_further_round_recalls_are_left_out(format: str, streamed: bool) -> None:
    played = await play(format, Say("", (RECALL, OTHER)), streamed=streamed, rounds=0)
    assert played.asked == []
    agent = seen(played, streamed=streamed)
    assert agent.calls == [("look", {"path": "a.py"})]
    assert agent.finish == LAST[format]


@pytest.mark.parametrize("format", ["responses", "anthropic"])
@streamed_or_not
async def test_thoughts_before_a_recall_go_up_with_it_and_are_not_shown(format: str, streamed: bool) -> None:
    played = await play(format, Say("", (RECALL,), thinking="I forgot"), Say("Done."), streamed=streamed)
    check_requests(played)
    ((extra, _),) = played.asked
    first: Any = extra[0] if format == "responses" else extra[0]["content"][0]
    if format == "responses":
        assert (first["type"], first["id"]) == ("reasoning", "rs_000001")
        assert first["encrypted_content"] == "sealed-000001"
        assert (extra[1]["type"], extra[1]["id"]) == ("function_call", "fc_00000100")
    else:
        assert first == {"type": "thinking", "thinking": "I forgot", "signature": "signed-000001"}
    assert seen(played, streamed=streamed).thoughts == []


@streamed_or_not
async def test_thoughts_with_a_text_are_shown_with_it(streamed: bool) -> None:
    rounds = Say("Let me see.", (RECALL,), thinking="I forgot"), Say("Done.", (OTHER,), thinking="I see")
    played = await play("responses", *rounds, streamed=streamed)
    check_requests(played)
    assert [item.type for item in seen(played, streamed=streamed).raw.output] == [
        "reasoning",
        "message",
        "reasoning",
        "message",
        "function_call",
    ]
    played = await play("anthropic", *rounds, streamed=streamed)
    check_requests(played)
    # Signed thinking of two answers in one message is refused by the API: the agent sees that of the first.
    content = seen(played, streamed=streamed).raw.content
    assert [block.type for block in content] == ["thinking", "text", "text", "tool_use"]
    assert (content[0].thinking, content[0].signature) == ("I forgot", "signed-000001")


texts = st.sampled_from(["", "Let me see.", "naïve 🎉 text"])
recalling = st.sampled_from([(RECALL,), (RECALL, OTHER), (OTHER, RECALL), (RECALL, RECALL)])
plain = st.sampled_from([(), (OTHER,), (OTHER, OTHER)])
thoughts = st.sampled_from(["", "hm"])
SIZES = st.lists(st.integers(1, 400), min_size=1, max_size=8)


@every_format
@settings(max_examples=60, deadline=None)
@given(
    recalls=st.lists(st.builds(Say, texts, recalling, thoughts), max_size=3),
    last=st.builds(Say, texts, plain, thoughts),
    sizes=SIZES,
)
async def test_any_turn_in_any_pieces(format: str, recalls: list[Say], last: Say, sizes: list[int]) -> None:
    played = await play(format, *recalls, last, sizes=sizes)
    check_requests(played)
    agent = seen(played)
    rounds = [*recalls, last]
    if not last.text and not last.calls and format == "responses":
        assert agent.texts[-1] == "", "an empty message is what this provider says then"
        agent.texts.pop()
    shown = [say.text for say in rounds if say.text]
    assert agent.texts == (said(format, *shown) if shown else [])
    assert agent.calls == [(call.name, call.arguments) for call in last.calls]
    assert len(played.queries) == sum(call is RECALL for say in recalls for call in say.calls)
    assert agent.input_tokens == sum(100 * number for number in range(1, len(rounds) + 1))
    assert agent.finish == (LAST if last.calls else PLAIN)[format]
    led_on = [say for say in recalls if say.text and say.thinking] + ([last] if last.thinking else [])
    if format == "responses":
        assert len(agent.thoughts) == len(led_on)
    if format == "anthropic":
        assert len(agent.thoughts) == min(len(led_on), 1)


@every_format
async def test_a_long_text_is_read_as_it_goes(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_module, "_UNREAD", 100)
    played = await play(format, Say("A long text. " * 20, (RECALL,)), Say("Done."), sizes=(50,))
    check_requests(played)
    assert "A long text. " * 20 in str(played.asked[0][0])
    assert seen(played).texts == said(format, "A long text. " * 20, "Done.")


@every_format
async def test_text_is_shown_as_it_comes(format: str) -> None:
    played = await play(format, Say("Now, slowly.", (RECALL,), thinking="hm"), Say("And then.", (OTHER,)), sizes=(60,))
    shown = [piece for piece in played.pieces if b"delta" in piece]
    assert len(shown) > 6, "not in one piece"


# Which parts of a round go together, and the usage of several rounds.

KINDS = {"t": "thought", "c": "call", "r": "recall", "s": "said"}


def parts(text: str) -> list[RoundPart]:
    return [RoundPart(index, KINDS[kind], {}) for index, kind in enumerate(text)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("round", "kept", "bound"),
    [
        ("r", [0], [0]),
        ("tr", [0, 1], [0, 1]),
        ("ttr", [0, 1, 2], [0, 1, 2]),
        ("trc", [0, 1], [0, 1]),
        ("tcr", [0, 2], [2]),  # bound: the thought goes with the call it names
        ("tctr", [2, 3], [2, 3]),  # thoughts that were apart are not put side by side
        ("trtr", [0, 1, 2, 3], [0, 1, 2, 3]),
        ("trtc", [0, 1], [0, 1]),  # nor left without what they led to
        ("rsr", [0, 2], [0, 2]),
    ],
)
def test_recalls_keep_the_thoughts_before_them(round: str, kept: list[int], bound: list[int]) -> None:
    for expected, is_bound in ((kept, False), (bound, True)):
        found = select(parts(round), lambda part: part.kind == "recall", bound=is_bound)
        assert [part.index for part in found] == expected


def test_usage_adds_up() -> None:
    one = {"in": 1, "details": {"cached": 2, "kind": "a"}, "tier": "x", "only": 3, "none": 5, "flag": True}
    other = {"in": 10, "details": {"cached": 20, "kind": "b"}, "tier": "y", "new": 4, "none": None, "flag": True}
    assert add_usage(one, other) == {
        "in": 11,
        "details": {"cached": 22, "kind": "b"},
        "tier": "y",
        "only": 3,
        "new": 4,
        "none": 5,
        "flag": True,
    }
    assert add_usage({}, other) == other
