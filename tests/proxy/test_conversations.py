"""Conversations in memory: requests that the session is not asked about, finding earlier requests, and the bounds.

What goes up for a request that the session is not asked about is what the session would have sent.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from focusctx import Focus
from focusctx.config import FocusConfig
from focusctx.pipeline.split import read_history
from focusctx.proxy.compression import Compression, Route
from focusctx.proxy.conversations import AgentStep, Key, LiveConversation, LiveConversations
from focusctx.proxy.request import Request, most_tokens, read_request, root_of
from focusctx.session.events import Growth, SessionEvent
from focusctx.session.session import Session
from focusctx.session.store import Store
from focusctx.tokens import counter
from helpers.histories import Messages, call
from helpers.session_parts import WHOLE_STEPS, BreakableStore, Draft, cites
from helpers.thorough import examples
from strategies import HISTORIES, Json, format_of

COUNT = counter("cl100k_base")
BUDGET = 700
WORDS = ("the", "parser", "reads", "all", "of", "its", "input", "and", "fails", "in", "some", "line\n")


# ------------------------------------------------------------------------------------------------ how many tokens?


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
@settings(deadline=None)
def test_no_message_has_more_tokens_than_its_spelling_allows(kind: str, data: st.DataObject) -> None:
    history: list[Json] = data.draw(HISTORIES[kind])
    escaped = data.draw(st.booleans())
    for message in history:
        spelled = json.dumps(message, separators=(",", ":"), ensure_ascii=escaped).encode("utf-8", "surrogatepass")
        most = most_tokens([spelled], format_of(kind))
        tokens = read_history([message], FocusConfig(), COUNT, format=format_of(kind)).tokens
        assert most is None or tokens <= most


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("chat_completions", {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a"}}]}),
        ("chat_completions", {"role": "assistant", "content": None, "audio": {"id": "a"}}),
        ("anthropic", {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "a"}}]}),
        ("anthropic", {"role": "user", "content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]}),
        ("responses", {"type": "computer_call_output", "call_id": "c", "output": {"type": "x", "file_id": "f"}}),
        ("responses", {"role": "user", "content": [{"type": "input_image", "image_url": "a"}]}),
    ],
)
def test_what_is_no_text_has_to_be_looked_at(format: str, message: Json) -> None:
    for separators in ((",", ":"), (", ", ": ")):
        spelled = json.dumps(message, separators=separators).encode()
        assert read_history([message], FocusConfig(), COUNT, format=format).tokens > len(spelled)
        assert most_tokens([spelled], format) is None


def test_arguments_are_counted_with_their_blanks() -> None:
    numbers = {"type": "tool_use", "id": "c", "name": "n", "input": {"l": [1] * 500}}
    message = {"role": "assistant", "content": [numbers]}
    spelled = json.dumps(message, separators=(",", ":")).encode()
    tokens = read_history([message], FocusConfig(), COUNT, format="anthropic").tokens
    most = most_tokens([spelled], "anthropic")
    assert most is not None
    assert len(spelled) < tokens <= most


# --------------------------------------------------------------------------------------------- what goes up for them

ROUTE = Route("chat_completions", "messages")


class Agent:
    """Sends histories through the compression of a proxy, and asks a session that looks at every one what it would
    send."""

    def __init__(
        self,
        *,
        budget: int = BUDGET,
        store: Store | str = "memory",
        priced: bool = False,
        ahead: float = 1.0,
        seconds: float = 0.0,
    ) -> None:
        self._focus = Focus(Draft(cites(2, 5), seconds=seconds, name="scripted"), budget=budget, **WHOLE_STEPS)
        self._priced = priced
        self._ahead = ahead
        self.now = 0.0
        self.steps: list[AgentStep] = []
        self.route = ROUTE
        self.looks = self._session("memory", frozen=False)
        self._conversations = LiveConversations(lambda _key: self._session(store, frozen=True))
        self._compression = Compression(self._conversations, self._watch, limit=10**9, recall=False, dry_run=False)

    def _session(self, store: Store | str, *, frozen: bool) -> Session:
        return self._focus.session(
            store,
            model="gpt-4.1",
            only_if_it_pays=self._priced,
            ahead=self._ahead,
            frozen=frozen,
            clock=lambda: self.now,
        )

    def _watch(self, _live: LiveConversation, step: AgentStep, _events: list[SessionEvent]) -> None:
        self.steps.append(step)

    @property
    def session(self) -> Session:
        (session,) = {live.session for live in self._conversations}
        return session

    async def send(self, history: Messages) -> Messages:
        body = json.dumps({"model": "gpt-4.1", "messages": history}).encode()
        shrunk = await self._compression.compress(self.route, "up", {}, body)
        sent: Messages = json.loads(shrunk.body or body)["messages"]
        return sent


def words(number: int) -> str:
    return " ".join(WORDS[place % len(WORDS)] for place in range(2 * number))


def steps(*sizes: int, first: int = 1) -> Messages:
    return [
        message
        for number, size in enumerate(sizes, first)
        for message in (
            {"role": "assistant", "content": f"thought {number}", "tool_calls": [call(number)]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": words(size)},
        )
    ]


TASK: Messages = [{"role": "system", "content": words(20)}, {"role": "user", "content": "Do it."}]


def run(coroutine: Any) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 30))


MOVES = st.tuples(
    st.sampled_from(["step"] * 9 + ["steps", "again", "user", "rewind", "edit"]),
    st.integers(0, 160),
    st.sampled_from([1.0, 1.0, 1000.0]),
)
"""What an agent does, how much of it, and the seconds it takes."""


def played(moves: list[tuple[str, int, float]]) -> Iterator[tuple[float, Messages]]:
    """Its requests: mostly one or more steps longer than the last one."""
    history = list(TASK)
    for number, (what, size, seconds) in enumerate(moves):
        if what == "step":
            history = history + steps(size, first=10 * number)
        elif what == "steps":
            history = history + steps(*[size // 2] * (1 + size % 3), first=10 * number)
        elif what == "user":
            history = [*history, {"role": "user", "content": words(1 + size // 5)}]
        elif what == "rewind":
            history = history[: max(2, len(history) - 2 * (1 + size % 4))]
        elif what == "edit" and len(history) > 4:
            place = 2 + size % (len(history) - 2)
            history = [*history[:place], {**history[place], "content": words(7)}, *history[place + 1 :]]
        yield seconds, history


def events_of(session: Session) -> list[tuple[object, ...]]:
    return [(each.happened, each.cause, each.span, each.tokens_after, each.steps) for each in session.events]


@given(moves=st.lists(MOVES, min_size=3, max_size=14), priced=st.booleans(), ahead=st.sampled_from([0.5, 0.8, 1.0]))
@settings(deadline=None, max_examples=examples(150))
def test_whether_somebody_looks_or_not_the_same_goes_up(
    moves: list[tuple[str, int, float]], priced: bool, ahead: float
) -> None:
    agent = Agent(priced=priced, ahead=ahead)
    only_grows = not {"rewind", "edit"}.intersection(what for what, _, _ in moves)
    assume(only_grows or ahead == 1)  # when sketches for an edited past are let go of, depends on who looks

    async def go() -> None:
        for seconds, history in played(moves):
            agent.now += seconds
            expected = await agent.looks.aview(history, format="chat_completions")
            assert await agent.send(history) == expected
            assert agent.steps[-1].exact or expected.conversation.size[1] <= BUDGET
            for _ in range(20):  # sketches that are asked for ahead of time come
                await asyncio.sleep(0)

    run(go())
    assert events_of(agent.session) == events_of(agent.looks)
    assert agent.session.savings.tokens_saved == agent.looks.savings.tokens_saved
    if only_grows:  # else what the cache remembers is a guess
        assert agent.session.savings.net == pytest.approx(agent.looks.savings.net)


def histories(*sizes: int) -> Iterator[Messages]:
    for end in range(1, len(sizes) + 1):
        yield TASK + steps(*sizes[:end])


def test_nobody_looks_while_nothing_can_be_due_before_an_event_and_after_it() -> None:
    agent = Agent(budget=5000)

    async def go() -> list[bool]:
        return [(await agent.send(history), agent.steps[-1].exact)[1] for history in histories(*[60] * 70)]

    looked = run(go())
    event = next(event for event in agent.session.events if event.happened)
    assert not looked[0], "what is far below the budget is not counted"
    assert looked[event.span - 1]
    for some in (looked[: event.span], looked[event.span :]):
        assert some.count(False) > len(some) / 2


def test_what_nobody_counted_is_estimated() -> None:
    agent = Agent()
    run(agent.send(TASK + steps(12)))
    (step,) = agent.steps
    assert not step.exact
    assert step.full == step.sent == sum(len(json.dumps(message)) for message in TASK + steps(12)) // 4


# -------------------------------------------------------------------------------------------- when one has to look


def after_an_event(agent: Agent) -> Messages:
    """The history of an agent whose steps were dropped, and for whose next one there is room."""
    history = TASK + steps(*[70] * 11)
    for end in range(4, len(history) + 1, 2):
        run(agent.send(history[:end]))
        if agent.session.events and run(agent.send(history[:end])) and not agent.steps[-1].exact:
            return history[:end]
    raise AssertionError("no event")


def test_a_step_that_somebody_wants_back_is_back_at_once() -> None:
    agent = Agent()
    history = after_an_event(agent)
    dropped = [message for message in history if message not in run(agent.send(history))]
    assert not agent.steps[-1].exact
    assert agent.session.restore(1)
    assert dropped[0] in run(agent.send(history))
    assert agent.steps[-1].exact


def test_a_store_in_trouble_is_looked_into() -> None:
    store = BreakableStore()
    agent = Agent(store=store)
    history = after_an_event(agent)
    before = run(agent.send(history))
    store.broken.add("version")
    assert run(agent.send(history)) == before
    assert agent.steps[-1].exact, "so that it is told"


def test_after_a_question_for_the_count_the_next_request_is_looked_at() -> None:
    agent = Agent()
    history = after_an_event(agent)
    agent.route = Route("chat_completions", "messages", counts=True)
    counted = run(agent.send(history))
    agent.route = ROUTE
    assert run(agent.send(history)) == counted
    assert agent.steps[-1].exact


def test_while_one_request_is_looked_at_no_other_goes_on() -> None:
    """Two of one conversation at once: the second one waits for what the first one brings about."""
    agent = Agent(seconds=0.05)

    async def go() -> tuple[Messages, Messages]:
        history = TASK + steps(*[70] * 9)
        await agent.send(history[:6])
        first = asyncio.create_task(agent.send(history))
        await asyncio.sleep(0.01)
        second = await agent.send(history + steps(1, first=99))
        return await first, second

    first, second = run(go())
    assert len(first) < 2 + 18
    assert second == first + steps(1, first=99)


def test_whoever_counts_by_other_rules_is_asked_every_time() -> None:
    session = Focus(Draft(), budget=1000, tokens=lambda text: 50 * len(text)).session()
    assert not session._is_quiet(Growth(most=1), None)
    assert Focus(Draft(), budget=1000).session()._is_quiet(Growth(most=1), None)


def test_a_store_that_takes_its_time_is_not_asked_on_the_event_loop() -> None:
    class Slow(BreakableStore):
        quick = False

    agent = Agent(store=Slow())
    with pytest.raises(AssertionError, match="no event"):
        after_an_event(agent)
    assert any(event.happened for event in agent.session.events), "there was one, and from then on all are looked at"


# ------------------------------------------------------------------------------------- earlier requests and the bounds

TOOLS = "a list of tools that all conversations of one agent share " * 3


def request_of(*messages: str) -> tuple[bytes, Request]:
    history = [{"role": "user", "content": message} for message in messages]
    body = json.dumps({"model": "m", "tools": TOOLS, "messages": history}).encode()
    request = read_request(body, "messages")
    assert request is not None
    return body, request


def opened(conversations: LiveConversations, *messages: str, tenant: str = "ann") -> LiveConversation:
    _, request = request_of(*messages)
    assert request.messages is not None
    key = Key(tenant, "up", "chat_completions", "m")
    live = conversations.open(key, root_of(request.messages), request)
    live.append(request.messages)
    return live


def bounded(**bounds: int) -> LiveConversations:
    focus = Focus(Draft(cites(2)), budget=10**6)
    return LiveConversations(lambda key: focus.session(tenant=key.tenant, frozen=True), **bounds)


async def test_a_request_is_read_by_the_earlier_one_of_its_tenant_that_it_begins_with() -> None:
    conversations = bounded()
    lives = [opened(conversations, f"task {number}", "a") for number in range(5)]
    for number, live in enumerate(lives):
        body, _ = request_of(f"task {number}", "a", "b")
        assert conversations.earlier(body, "messages", "ann") is live.request
        assert conversations.earlier(body, "messages", "bob") is None
        assert conversations.earlier(body, "input", "ann") is None
    longer = opened(conversations, "task 3", "a", "b")
    assert longer is lives[3]
    assert conversations.earlier(request_of("task 3", "a")[0], "messages", "ann") is None, "only the last is kept"
    assert conversations.earlier(request_of("task 9")[0], "messages", "ann") is None
    await conversations.close()


async def test_memory_is_bounded_in_bytes_and_the_ones_used_longest_ago_are_dropped() -> None:
    one = request_of("0" + "x" * 5000)[1].size
    conversations = bounded(most_bytes=3 * one)
    lives = [opened(conversations, f"{number}" + "x" * 5000) for number in range(3)]
    assert len(conversations) == 3, "as much as the bound allows"
    assert conversations.held_bytes == 3 * one
    assert opened(conversations, "0" + "x" * 5000) is lives[0]
    last = opened(conversations, "3" + "x" * 5000)
    assert [live.id for live in conversations] == [last.id, lives[0].id, lives[2].id], "the second was used longest ago"
    assert conversations.held_bytes == 3 * one
    assert conversations.earlier(request_of("1" + "x" * 5000, "more")[0], "messages", "ann") is None
    await conversations.close()


async def test_a_conversation_that_grows_beyond_the_bound_stays_alone() -> None:
    conversations = bounded(most_bytes=20_000)
    for number in range(3):
        opened(conversations, f"{number}" + "x" * 1000)
    long = opened(conversations, "0" + "x" * 1000, "y" * 50_000)
    assert list(conversations) == [long]
    assert conversations.held_bytes == long.size > 50_000
    small = opened(conversations, "small")
    assert list(conversations) == [small]
    assert conversations.held_bytes == small.size
    await conversations.close()


async def test_a_conversation_in_use_is_not_dropped() -> None:
    conversations = bounded(most_bytes=1)
    busy = opened(conversations, "busy")
    busy.in_use = True
    other = opened(conversations, "other")
    assert list(conversations) == [other, busy]
    await conversations.close()
