"""The loop: what is sent, what comes back, how a run ends."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_helpers.ledger import Audit, Ledger, Untouched, auditor, decide
from focusctx.baselines.method import Compressed
from focusctx.errors import ModelError
from focusctx.invariants import violations
from focusctx.types import Message, Usage
from focusctx_bench.agent import Agent
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import ContextTooLong, Model, ModelAnswer, Task
from focusctx_bench.record import Record, Step
from focusctx_bench.sizes import size
from helpers import task as ledger


class Listening:
    """A model that notes what it was sent."""

    name = "listening"

    def __init__(self, model: Model) -> None:
        self.model = model
        self.requests: list[list[Message]] = []

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> ModelAnswer:
        self.requests.append(list(messages))
        return await self.model.answer(messages, tools)


def run(model: Model, method: Callable[[], Any] = Untouched, **options: Any) -> tuple[Record, Audit]:
    benchmark = Ledger()
    record = asyncio.run(Agent(model, method, **options).run(benchmark, benchmark.tasks()[0]))
    return record, benchmark.started[0]


def test_a_whole_task() -> None:
    record, environment = run(auditor())
    assert record.ended == "done"
    assert record.score.success == 1
    assert environment.closed
    assert len(record.steps) == ledger.STEPS + 1
    assert (record.benchmark, record.task, record.difficulty) == ("ledger", "audit", "hard")
    assert (record.model, record.method) == ("scripted", "none")
    assert record.messages[0] == {"role": "system", "content": Audit.system}
    assert record.messages[-1]["content"] == ledger.FINAL


def test_without_a_method_the_history_is_sent_as_it_is() -> None:
    model = Listening(auditor())
    record, _ = run(model)
    for step, request in zip(record.steps, model.requests, strict=True):
        assert request == list(record.messages[: step.reply]) == record.sent(step)
        assert step.sent == ((0, step.reply),)
        assert step.input_tokens == step.history_tokens == size(request)
        assert step.output_tokens == size([record.messages[step.reply]])
        assert step.event is None


def test_the_history_is_legal_at_every_step() -> None:
    record, _ = run(auditor())
    for step in record.steps:
        assert not violations(record.messages[: step.reply], "chat_completions")


class Every:
    """Drops all but the opening and the newest `kept` turns at every third step, and says so in a message."""

    name = "every third"

    def __init__(self, kept: int = 2) -> None:
        self.kept = kept

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        turns = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        if len(turns) < 3:
            return Compressed(messages)
        note: Message = {"role": "user", "content": f"[{len(turns) // 3} times shortened]"}
        sent = [*messages[:2], note, *messages[turns[-self.kept] :]]
        return Compressed(sent, happened=len(turns) % 3 == 0, usage=Usage(2, 30, 7, 0.5))


@given(st.integers(1, 3))
@settings(max_examples=3, deadline=None)
def test_what_a_method_sends_can_be_read_from_the_record(kept: int) -> None:
    model = Listening(auditor())
    record, _ = run(model, lambda: Every(kept))
    assert record.score.success == 1
    assert [record.sent(step) for step in record.steps] == model.requests
    assert len(record.made) == 10  # each note once
    assert [size(request) for request in model.requests] == [step.input_tokens for step in record.steps]
    events = [number for number, step in enumerate(record.steps) if step.event and step.event.happened]
    assert events == list(range(3, 31, 3))
    event = record.steps[30].event
    assert event is not None
    assert event.usage == Usage(2, 30, 7, 0.5)
    assert event.tokens_before == record.steps[30].history_tokens > event.tokens_after == record.steps[30].input_tokens


def test_a_due_event_that_failed_is_recorded() -> None:
    class Failing:
        name = "failing"

        async def compress(self, messages: Sequence[Message]) -> Compressed:
            return Compressed(messages, failure="no draft")

    record, _ = run(auditor(), Failing, step_limit=2)
    assert [step.event and (step.event.happened, step.event.failure) for step in record.steps] == 2 * [
        (False, "no draft")
    ]


def test_the_steps_run_out() -> None:
    record, environment = run(auditor(), step_limit=4)
    assert record.ended == "steps"
    assert record.score.success == 0
    assert len(record.steps) == 4
    assert environment.closed


@pytest.mark.parametrize(("error", "ended"), [(ModelError, "model"), (ContextTooLong, "context")])
def test_a_model_that_gives_up(error: type[ModelError], ended: str) -> None:
    def decide_for_a_while(messages: Sequence[Message]) -> Say:
        if len(messages) > 9:
            raise error("no more")
        return decide(messages)

    record, environment = run(FunctionModel(decide_for_a_while))
    assert (record.ended, record.problem) == (ended, "no more")
    assert len(record.steps) == 4
    assert environment.closed


def test_whoever_watches_may_stop_the_run() -> None:
    class Enough(Exception):
        pass

    seen: list[Step] = []

    def watch(step: Step) -> None:
        seen.append(step)
        if len(seen) == 3:
            raise Enough

    benchmark = Ledger()
    with pytest.raises(Enough):
        asyncio.run(Agent(auditor(), Untouched).run(benchmark, Task("audit"), watch))
    assert benchmark.started[0].closed


def _once(*calls: Mapping[str, Any]) -> Any:
    """A model that makes these calls and then stops."""

    class Once:
        name = "once"

        async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> ModelAnswer:
            if messages[-1]["role"] == "tool":
                return ModelAnswer({"role": "assistant", "content": "Done."})
            return ModelAnswer({"role": "assistant", "content": None, "tool_calls": list(calls)})

    return Once()


def _call(name: str, arguments: str, id: str = "call_1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("call", "observed"),
    [
        (_call("fly", "{}"), "Error: there is no tool 'fly'. Tools: read_page, trace_lot, verify_balance."),
        (_call("read_page", '{"page": '), "Error: the arguments are no JSON"),
        (_call("read_page", "[1]"), "Error: the arguments must be a JSON object."),
        (_call("read_page", '{"page": 99}'), "Error: There is no page 99."),
    ],
)
def test_what_the_agent_does_wrong_is_an_observation(call: dict[str, Any], observed: str) -> None:
    record, _ = run(_once(call))
    assert record.messages[3]["content"].startswith(observed)
    assert record.ended == "done"


def test_calls_after_the_end_are_answered_but_not_done() -> None:
    class Brief(Audit):
        def is_over(self) -> bool:
            return bool(self.calls)

    class BriefLedger(Ledger):
        async def start(self, task: Task) -> Audit:
            self.started.append(Brief())
            return self.started[-1]

    two = [_call("read_page", json.dumps({"page": page}), f"call_{page}") for page in (1, 2)]
    benchmark = BriefLedger()
    record = asyncio.run(Agent(_once(*two), Untouched).run(benchmark, Task("audit")))
    assert len(benchmark.started[0].calls) == 1
    assert record.messages[-1] == {
        "role": "tool",
        "tool_call_id": "call_2",
        "content": "Not done: the task was over.",
    }
    assert not violations(record.messages, "chat_completions")


def test_a_user_who_answers() -> None:
    class Talkative(Audit):
        async def hear(self, text: str) -> str | None:
            return None if text == "Goodbye." else f"You said: {text}"

    class Room(Ledger):
        async def start(self, task: Task) -> Audit:
            return Talkative()

    def speak(messages: Sequence[Message]) -> Say:
        return Say("Hello." if len(messages) == 2 else "Goodbye.")

    record = asyncio.run(Agent(FunctionModel(speak), Untouched).run(Room(), Task("audit")))
    assert [message["content"] for message in record.messages[2:]] == ["Hello.", "You said: Hello.", "Goodbye."]


@pytest.mark.parametrize(("unanswered", "ended"), [(True, "model"), (False, "done")])
def test_a_method_whose_model_gives_no_answer_is_not_judged(unanswered: bool, ended: str) -> None:
    class Failing(Untouched):
        async def compress(self, messages: Sequence[Message]) -> Compressed:
            return Compressed(messages, failure="nobody there", unanswered=unanswered)

    record, environment = run(auditor(), Failing)
    assert record.ended == ended
    assert environment.closed
    if unanswered:
        assert record.problem == "none got no answer: nobody there"
        assert record.steps == ()
