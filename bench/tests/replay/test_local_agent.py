"""A model that runs here as the agent's: what it reads, and what its answer is taken for."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.errors import DraftError, ModelError
from focusctx.types import Prompt, Reply
from focusctx_bench.replay.agreement.answers import action_of
from focusctx_bench.replay.agreement.local import ChatPrompt, LocalModel, conversation, message_of

TOOL = {"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "get", "arguments": '{"id": "#W1"}'}}
RUN: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Where is #W1?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "on its way"},
    {"role": "user", "content": "Well?"},
]

plain = st.text(max_size=8)
arguments = st.dictionaries(
    plain, st.one_of(plain, st.integers(), st.booleans(), st.lists(plain, max_size=2)), max_size=3
)


class Drafted:
    """A draft that says one thing and notes what it was asked."""

    name = "drafted"

    def __init__(self, *said: str) -> None:
        self.said = said
        self.asked: list[Prompt] = []

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        assert n == 1
        self.asked.append(prompt)
        for text in self.said:
            yield Reply(text)
        if not self.said:
            raise DraftError("out of memory")


def test_the_conversation_is_text_by_turns() -> None:
    system, user, assistant, answer = conversation(RUN, [TOOL])
    assert system[0] == "system"
    assert system[1].startswith("Be kind.")
    assert json.dumps(TOOL["function"]) in system[1]
    assert user == ("user", "Where is #W1?")
    assert assistant[1] == '<tool_call>\n{"name": "get", "arguments": {"id": "#W1"}}\n</tool_call>\nI look.'
    assert answer == ("user", "<tool_response>\non its way\n</tool_response>\nWell?\n\nNext tool call:")
    assert conversation(RUN, [])[-1][1].endswith("Well?")


@given(st.lists(st.tuples(st.sampled_from(["get", "set"]), arguments), max_size=3), st.sampled_from(["", "I look."]))
def test_what_is_written_as_an_agent_is_read_as_the_same_action(made: list[tuple[str, Any]], said: str) -> None:
    written = [{"id": "c", "function": {"name": name, "arguments": json.dumps(given)}} for name, given in made]
    message = {"role": "assistant", "content": said, **({"tool_calls": written} if written else {})}
    ((_, text),) = conversation([message], [])
    assert action_of(message_of(text)) == action_of(message)
    assert action_of(message_of(text.replace("<tool_call>", "").replace("</tool_call>", ""))) == action_of(message)


def test_a_call_that_was_cut_keeps_its_tool() -> None:
    message = message_of('<tool_call>\n{"name": "get", "arguments": {"id": "#W1')
    assert message["tool_calls"][0]["function"] == {"name": "get", "arguments": '{"id": "#W1'}
    assert message_of("On its way.") == {"role": "assistant", "content": "On its way."}


async def test_an_answer_is_one_greedy_sample() -> None:
    draft = Drafted('{"name": "get", "arguments": {"id": "#W2"}}')
    turn = await LocalModel(draft, tokens=48).answer(RUN, [TOOL])
    assert turn.message["tool_calls"][0]["function"]["name"] == "get"
    (prompt,) = draft.asked
    assert (prompt.temperature, prompt.max_tokens) == (0, 48)
    assert [message["role"] for message in prompt.messages] == ["system", "user", "assistant", "user"]
    assert str(prompt).endswith("Next tool call:\n\nassistant:")


async def test_a_model_that_fails_is_a_model_error() -> None:
    with pytest.raises(ModelError, match="out of memory"):
        await LocalModel(Drafted()).answer(RUN, [])


def test_the_name_has_no_folder() -> None:
    draft = Drafted("x")
    draft.name = "transformers:/models/tiny.gguf"
    assert LocalModel(draft).name == "transformers:tiny.gguf"


@pytest.mark.extra
def test_a_real_model_reads_all_turns_and_answers_many_at_once(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra `transformers`")
    pytest.importorskip("transformers", reason="needs the extra `transformers`")
    from focusctx.drafts import TransformersDraft
    from helpers.tiny_models import save

    model = LocalModel(TransformersDraft(save(tmp_path / "tiny", room=1024), device="cpu"), tokens=12)
    runs = [RUN, RUN[:2], [*RUN[:4], {"role": "user", "content": "And #W2?"}]]

    async def alone() -> list[Any]:
        return [(await model.answer(run, [])).message for run in runs]

    async def together() -> list[Any]:
        turns = await asyncio.gather(*(model.answer(run, []) for run in runs))
        assert all(turn.usage.input_tokens > len(run) for turn, run in zip(turns, runs, strict=True))
        return [turn.message for turn in turns]

    answers = asyncio.run(alone())
    assert asyncio.run(together()) == answers
    assert len({json.dumps(answer) for answer in answers}) == 3, "what stands in the turns matters"


def test_a_conversation_is_a_prompt() -> None:
    assert issubclass(ChatPrompt, Prompt)
