"""Agents that act in plain text: their observations go with their steps, and a person's words never go."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx import Focus
from helpers.histories import Messages
from helpers.raw_http import exchange, proxy, raw_upstream
from helpers.text_agents import ALONE, ASKS, HUMANS, REMARKS, RUNS, SPELLINGS, output, text_run
from helpers.thorough import examples
from pipeline.reading import FORMATS, read
from strategies.react import ACTIONS

MAJORITY_FIRST = ("output", "labelled fence, no prompt", "tags, no prompt")
"""Spellings that people use as well: two answers have to show it before the third is believed."""


def observed(messages: Messages, **rule: str) -> list[int]:
    """Return the positions of the user messages that are read as observations."""
    history = read(messages, **rule)
    return [place for place, owner in enumerate(history.owners) if owner and messages[place]["role"] == "user"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_observations_are_read_in_every_spelling(spelling: str, format: str) -> None:
    messages = text_run(spelling)
    answers = [place for place, message in enumerate(messages) if message["role"] == "user"][1:]
    late = 2 if spelling in MAJORITY_FIRST else 0
    assert observed(messages, format=format) == answers[late:]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_trace_gets_smaller_and_no_output_loses_its_action(spelling: str) -> None:
    messages = text_run(spelling)
    result = Focus("offline", budget=3000, tokens=lambda text: len(text) // 4).compress(messages)
    assert result.compressed
    assert result.tokens_after < 0.6 * result.tokens_before
    kept = list(result.messages)
    for before, message in pairwise(kept):
        if message["role"] == "user" and "src/shop/" in message["content"]:
            assert before["role"] == "assistant"
    assert ("2 user messages look like tool output" in "".join(result.warnings)) == (spelling in MAJORITY_FIRST)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_reading_does_not_change_as_the_history_grows(spelling: str) -> None:
    messages = text_run(spelling)
    whole = observed(messages)
    for length in range(1, len(messages)):
        assert observed(messages[:length]) == [place for place in whole if place < length]


@pytest.mark.parametrize("kind", HUMANS)
def test_a_persons_words_all_stay(kind: str) -> None:
    messages = HUMANS[kind]
    assert observed(messages) == []
    result = Focus("offline", budget=200, tokens=lambda text: len(text) // 4).compress(messages)
    said = [message for message in messages if message["role"] == "user"]
    assert [message for message in result.messages if message["role"] == "user"] == said


def test_doubt_is_a_warning_that_names_the_setting() -> None:
    messages = HUMANS["pastes logs alone"]
    warning, _too_large = Focus("offline", budget=200).compress(messages).warnings
    assert warning == (
        "14 user messages look like tool output, but may be the user's own words, so every word of them stays (the "
        'first is message 3); set observations to "always" if they are tool output, to "never" if they are not'
    )
    assert Focus("offline", budget=100_000).compress(messages).warnings == ()
    (too_large,) = Focus("offline", budget=200, observations="never").compress(messages).warnings
    assert "tool output" not in too_large
    decided = Focus("offline", budget=200, observations="always").compress(messages)
    assert decided.tokens_after < decided.tokens_before / 3
    assert "tool output" not in "".join(decided.warnings)


def test_short_answers_of_a_person_raise_no_doubt() -> None:
    messages = [{"role": "system", "content": ASKS}, *ALONE]
    for remark in REMARKS:
        messages += [{"role": "assistant", "content": ACTIONS[1]}, {"role": "user", "content": remark}]
    assert "tool output" not in "".join(Focus("offline", budget=20).compress(messages).warnings)


@pytest.mark.parametrize(
    "remark",
    [
        "Tool result: that is wrong, please run it again.",
        "Result of search: I found it myself, it is in tax.py.",
        "Output: should be JSON",
        "Result: 7, says my colleague",
        "Response: no",
        "My observation: it is slow",
    ],
)
def test_a_remark_that_begins_like_a_label_stays(remark: str) -> None:
    messages = [{"role": "system", "content": ASKS}, *ALONE]
    messages += [{"role": "assistant", "content": "Action: search[x]"}, {"role": "user", "content": remark}]
    assert observed(messages) == []


@pytest.mark.parametrize("label", ["**Observation:**", "### Observation 2:", "Command output:", "Function result:"])
def test_labels_may_be_decorated(label: str) -> None:
    messages = [{"role": "system", "content": ASKS}, *ALONE]
    messages += [{"role": "assistant", "content": "Action: search[x]"}]
    messages += [{"role": "user", "content": f"{label}\n{output(1)}"}]
    assert observed(messages) == [3]


def test_a_label_in_use_makes_an_unlabelled_answer_a_persons() -> None:
    messages = [{"role": "system", "content": RUNS}, *ALONE]
    for number, answer in enumerate([f"Observation: {output(1)}", output(2)], 1):
        messages += [{"role": "assistant", "content": f"```bash\ngrep rate_{number} .\n```"}]
        messages += [{"role": "user", "content": answer}]
    assert observed(messages) == [3]


def test_evidence_is_forgotten_with_the_messages_that_gave_it() -> None:
    """A reader that goes back to an earlier step must judge the next answers as a fresh one would."""
    messages = text_run("output", 6)
    marked = [{**message, "cache_control": {"type": "ephemeral"}} for message in messages]
    focus = Focus("offline", budget=10**6)
    focus.compress(messages, format="chat_completions")
    edited = [*messages[:4], *marked[4:]]
    again = focus.compress(edited, format="chat_completions")
    assert again.tokens_before == focus.compress(list(edited)).tokens_before
    reader = focus._recent.read(edited, "chat_completions")
    assert [place for place, owner in enumerate(reader.owners) if owner and edited[place]["role"] == "user"] == [
        *observed(messages)
    ]


LETTERS = st.characters(categories=["Lu", "Ll", "Lo"])
SENTENCES = st.one_of(
    st.sampled_from(REMARKS),
    st.lists(st.text(LETTERS, min_size=1, max_size=9), min_size=1, max_size=12).map(" ".join),
)
PERSONS = st.one_of(
    SENTENCES,
    st.tuples(SENTENCES, st.integers(1, 9)).map(lambda both: f"{both[0]}\n{output(both[1])}"),
    st.tuples(SENTENCES, st.integers(1, 9)).map(lambda both: f"{output(both[1])}\n{both[0]}"),
    st.tuples(SENTENCES, st.integers(1, 9)).map(lambda both: f"{output(both[1])}\n\n{both[0]}\n\n{output(both[1])}"),
    st.tuples(st.sampled_from(REMARKS), st.integers(1, 9)).map(
        lambda both: f"{output(both[1])}\n{both[0]} {both[0]}\n{output(both[1])}"
    ),
    st.tuples(SENTENCES, st.integers(1, 9)).map(lambda both: f"```\n{output(both[1])}\n```\n{both[0]}"),
)
OPENINGS = st.sampled_from(["", RUNS, ASKS, "You help people."])


@settings(max_examples=examples(400), deadline=None)
@given(OPENINGS, st.lists(st.tuples(st.sampled_from([*ACTIONS, "May I?"]), PERSONS), min_size=1, max_size=8))
def test_whatever_a_person_says_stays(opening: str, exchanges: list[tuple[str, str]]) -> None:
    """Without a label, no answer that holds a person's words is an observation, whatever else is pasted with it."""
    messages: Messages = [{"role": "system", "content": opening}] if opening else []
    messages += ALONE
    for turn, answer in exchanges:
        messages += [{"role": "assistant", "content": turn}, {"role": "user", "content": answer}]
    assert observed(messages) == []


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(sorted(SPELLINGS)), st.integers(0, 13), PERSONS)
def test_a_person_may_interrupt_any_agent(spelling: str, place: int, words: str) -> None:
    """A message of the user's between two steps of an agent is never read as an observation."""
    messages = text_run(spelling)
    turns = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    said = {"role": "user", "content": words}
    interrupted = [*messages[: turns[place] + 1], said, *messages[turns[place] + 1 :]]
    assert turns[place] + 1 not in observed(interrupted)


@pytest.mark.parametrize(("rule", "smaller"), [("auto", False), ("always", True), ("never", False)])
async def test_the_proxy_reads_user_messages_by_the_setting(
    rule: Any, smaller: bool, caplog: pytest.LogCaptureFixture
) -> None:
    messages = HUMANS["pastes logs alone"]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    focus = Focus("offline", budget=500, observations=rule)
    async with raw_upstream() as up, proxy(up.url, focus=focus) as (_, url):
        for _ in range(2):
            await exchange(url, "POST", "/v1/chat/completions", [], body)
    said = [message for message in messages if message["role"] == "user"]
    for got in up.got:
        forwarded = [message for message in json.loads(got.body)["messages"] if message["role"] == "user"]
        assert (forwarded != said) == smaller
    logged = [record for record in caplog.records if "14 user messages look like tool output" in record.getMessage()]
    assert len(logged) == (rule == "auto")


def test_a_session_reports_doubts_with_its_event() -> None:
    session = Focus("offline", budget=3000).session()
    session.view(text_run("output"))
    (event,) = session.events
    assert event.result is not None
    assert "2 user messages look like tool output" in event.result.warnings[0]
