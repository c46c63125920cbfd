"""The relay over real sockets: who is given which request, and that a killed run goes on."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from focusctx.baselines.rules import Fifo, NoCompression
from focusctx.jobs.engines import Meter
from focusctx_bench.agent import Agent
from focusctx_bench.benchmarks.office import Office
from focusctx_bench.benchmarks.office.clerk import decide
from focusctx_bench.job import Job
from focusctx_bench.models.served import model_from
from focusctx_bench.protocols import Options
from focusctx_bench.record import Record
from focusctx_bench.relay import TASK, serving
from focusctx_bench.run import run_task
from helpers.histories import run

TOOLS = [{"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"properties": {}}}}]
LOOK = json.dumps({"content": "I look.", "tool_calls": [{"name": "look", "arguments": {}}]})


class Client:
    """A program and its readers, as the relay sees them."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http, self.url = http, url
        self._tasks: list[asyncio.Task[Any]] = []

    def ask(
        self, messages: Sequence[Any], arm: str = "full", named: str | None = None, **more: Any
    ) -> asyncio.Task[Any]:
        body = {k: v for k, v in {"model": "agent", "messages": list(messages), "tools": TOOLS, **more}.items() if v}
        headers = {TASK: named} if named else {}
        task = asyncio.create_task(self._post(f"{arm}/v1/chat/completions", body, headers))
        self._tasks.append(task)
        return task

    async def take(
        self, reader: str, kind: str = "agent", wait: float = 0.2, follows: bool = False, arm: str = "*"
    ) -> Any:
        body = {"reader": reader, "kind": kind, "wait": wait, "follows": follows, "arm": arm}
        return await self._post("relay/take", body)

    async def reply(self, reader: str, id: str, text: str = LOOK) -> Any:
        return await self._post("relay/reply", {"reader": reader, "id": id, "text": text})

    async def asked(self, count: int) -> None:
        """Wait until so many requests have come."""
        while (await self._post("relay/status", {}))["asked"] < count:
            await asyncio.sleep(0.01)

    async def _post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
        async with self._http.post(f"{self.url}/{path}", json=body, headers=headers) as answer:
            return await answer.json()


@asynccontextmanager
async def relay(log: Path, patience: float = 300.0) -> AsyncIterator[Client]:
    async with serving(log, patience=patience) as url, aiohttp.ClientSession() as http:
        yield Client(http, url)


def entries(log: Path, event: str) -> list[Any]:
    return [entry for line in log.read_text().splitlines() if (entry := json.loads(line))["event"] == event]


async def test_a_named_task_is_the_same_whatever_its_first_words(tmp_path: Path) -> None:
    """A simulated customer begins in other words in every run."""
    other = [{"role": "user", "content": "Hi! My order, please."}]
    async with relay(tmp_path / "log.jsonl") as client:
        client.ask([{"role": "user", "content": "Hello, I want a refund."}], named="tau2 16")
        found = await client.take("ann", wait=5)
        await client.reply("ann", found["id"])
        client.ask(other, arm="offline", named="tau2 16")
        assert "My order" in (await client.take("bob", wait=5))["text"]
        client.ask(other, arm="summary", named="tau2 16")
        await client.asked(3)
        assert not await client.take("ann"), "she has seen the task"
        client.ask(other, arm="summary", named="tau2 17")
        assert "My order" in (await client.take("ann", wait=5))["text"]


async def test_a_task_that_begins_again_leaves_no_request_that_nobody_waits_for(tmp_path: Path) -> None:
    async with relay(tmp_path / "log.jsonl") as client:
        client.ask([{"role": "user", "content": "Hello, I want a refund."}], named="tau2 16")
        await client.asked(1)
        client.ask([{"role": "user", "content": "Hi! My order, please."}], named="tau2 16")
        await client.asked(2)
        assert "My order" in (await client.take("ann", wait=5))["text"]
        assert not await client.take("bob")


async def test_the_bench_names_its_tasks(tmp_path: Path) -> None:
    async with relay(tmp_path / "log.jsonl") as client:
        options = Options(more={"tasks": "3"})
        model = f"openai:agent@{client.url}/full/v1"
        job = Job(benchmarks={"office": options}, methods=("none",), model=model, step_limit=1)
        item = next(iter(job.items({"office": Office(tasks=3).tasks()})))
        running = asyncio.create_task(run_task(json.dumps(job.to_json()), item, Meter()))
        found = await client.take("ann", wait=5)
        await client.reply("ann", found["id"], json.dumps({"content": "done"}))
        await running
        (asked,) = entries(tmp_path / "log.jsonl", "ask")
        assert asked["task"] == f"office {item.task.id}"


async def test_who_goes_on_is_shown_tools_that_are_new(tmp_path: Path) -> None:
    jump = {"function": {"name": "jump", "description": "Jump.", "parameters": {"properties": {"height": {}}}}}
    async with relay(tmp_path / "log.jsonl") as client:
        messages: list[Any] = [{"role": "user", "content": "Go on."}]
        for tools, shown in ((TOOLS, "look: Look."), ([*TOOLS, jump], "New tools:\njump: Jump. {"), (TOOLS, "")):
            asked = client.ask(messages, tools=tools)
            found = await client.take("ann")
            assert shown in found["text"]
            assert ("New tools:" in found["text"]) == shown.startswith("New tools:")
            await client.reply("ann", found["id"])
            answer = (await asked)["choices"][0]["message"]
            result = {"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": "Nothing there."}
            messages += [answer, result]


async def test_a_question_may_go_to_anybody_and_n_answers_are_n_questions(tmp_path: Path) -> None:
    async with relay(tmp_path / "log") as client:
        asked = client.ask([{"role": "user", "content": "A plan?"}], tools=None, n=2)
        for text in ("One.", "Two."):
            found = await client.take("R1", "once", wait=5)
            assert "A plan?" in found["text"]
            assert await client.reply("R1", found["id"], text) == {}
        answer = await asked
        assert {choice["message"]["content"] for choice in answer["choices"]} == {"One.", "Two."}
        assert answer["usage"]["prompt_tokens"] > 0
        assert await client.take("R1") == {}, "nothing for an agent"


async def test_a_reader_who_names_arms_gets_no_question_of_another(tmp_path: Path) -> None:
    """A reader who plays the customer must not be shown a draft's question: it holds the agent's side."""
    async with relay(tmp_path / "log") as client:
        client.ask([{"role": "user", "content": "A plan?"}], arm="focus-draft", tools=None)
        assert await client.take("C1", "once", arm="*-user") == {}
        client.ask([{"role": "user", "content": "Hi! How can I help?"}], arm="focus-user", tools=None)
        assert "How can I help?" in (await client.take("C1", "once", wait=5, arm="*-user"))["text"]
        assert "A plan?" in (await client.take("D1", "once", wait=5, arm="focus-draft"))["text"]


async def test_a_reader_goes_on_with_what_is_new(tmp_path: Path) -> None:
    async with relay(tmp_path / "log") as client:
        asked = client.ask(run(1))
        first = await client.take("R1", wait=5)
        assert "look: Look." in first["text"]
        assert "Do the task." in first["text"]
        assert await client.take("R2") == {}, "it is taken"
        await client.reply("R1", first["id"])
        message = (await asked)["choices"][0]["message"]
        assert message["tool_calls"][0]["function"] == {"name": "look", "arguments": "{}"}
        client.ask(
            [*run(1), message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "new!"}]
        )
        assert await client.take("R2") == {}, "it is the other reader's"
        second = await client.take("R1", wait=5)
        assert second["text"].startswith("GOES ON")
        assert "new!" in second["text"]
        assert "result 1" not in second["text"]
        assert "I look." not in second["text"]


async def test_once_the_beginning_has_moved_the_task_goes_to_somebody_new(tmp_path: Path) -> None:
    async with relay(tmp_path / "log") as client:
        asked = client.ask(run(3))
        first = await client.take("R1", wait=5)
        await client.reply("R1", first["id"])
        await asked
        client.ask([*run(0), *run(4)[-2:]])  # steps 1 to 3 are gone
        assert await client.take("R1", wait=1) == {}
        second = await client.take("R2", wait=5)
        assert second["text"].startswith("NEW CONVERSATION")
        assert "result 3" not in second["text"]
        client.ask(run(3), arm="other")
        assert await client.take("R1") == {}, "nor the same task in another arm"
        assert await client.take("R2") == {}
        assert (await client.take("R3", wait=5))["text"].startswith("NEW CONVERSATION")


@pytest.mark.parametrize("took_it", [True, False])
async def test_an_abandoned_request_goes_to_another_reader(tmp_path: Path, took_it: bool) -> None:
    async with relay(tmp_path / "log", patience=0.5) as client:
        asked = client.ask(run(1))
        first = await client.take("R1", wait=5)
        if not took_it:  # R1 answers, and is gone when the conversation goes on
            await client.reply("R1", first["id"])
            message = (await asked)["choices"][0]["message"]
            result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "new!"}
            asked = client.ask([*run(1), message, result])
        found = await client.take("R2", wait=5)
        assert found["text"].startswith("NEW CONVERSATION")
        assert "result 1" in found["text"], "somebody new is shown everything"
        assert "not yours" in (await client.reply("R1", found["id"]))["problem"]
        assert await client.reply("R2", found["id"]) == {}
        await asked
        assert len(entries(tmp_path / "log", "abandoned")) == 1


async def test_a_program_that_asks_again_after_a_timeout_gets_the_same_answer(tmp_path: Path) -> None:
    async with relay(tmp_path / "log") as client:
        impatient = client.ask(run(1))
        found = await client.take("R1", wait=5)
        impatient.cancel()
        again = client.ask(run(1))
        await asyncio.sleep(0.2)
        assert await client.take("R2") == {}, "it is the request that R1 has"
        await client.reply("R1", found["id"])
        answer = await again
        assert (await client.ask(run(1)))["choices"] == answer["choices"], "and later, too"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no JSON", "is JSON of the form"),
        ("[]", "is JSON of the form"),
        ("{}", "neither content nor tool_calls"),
        ("", "empty"),
        ('{"tool_calls": [{"name": "leap"}]}', "there is no tool 'leap'; tools: look"),
        ('{"tool_calls": [{"name": "look", "arguments": [1]}]}', "must be JSON objects"),
        ('{"content": 7}', "must be JSON objects, and content a text"),
    ],
)
async def test_answers_that_cannot_be_used_are_given_back(tmp_path: Path, text: str, why: str) -> None:
    async with relay(tmp_path / "log") as client:
        asked = client.ask(run(1))
        found = await client.take("R1", wait=5)
        assert why in (await client.reply("R1", found["id"], text))["problem"]
        assert await client.reply("R1", found["id"]) == {}
        await asked


async def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    async with relay(tmp_path / "log") as client:
        assert "does not stream" in (await client.ask(run(1), stream=True))["error"]["message"]
        assert "no messages" in (await client.ask([]))["error"]["message"]


class Reader:
    """Answers as the office's scripted agent would, from all that it was shown of a conversation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.shown = ""
        self.answered = 0

    async def work(self, client: Client) -> None:
        follows = False
        while True:
            found = await client.take(self.name, wait=30, follows=follows)
            if not found:
                continue
            goes_on = found["text"].startswith("GOES ON")
            self.shown = f"{self.shown}\n{found['text']}" if goes_on else found["text"]
            say = decide([{"role": "user", "content": self.shown}])
            calls = [{"name": name, "arguments": dict(arguments)} for name, arguments in say.calls]
            self.shown += f"\n{say.text}"
            await client.reply(self.name, found["id"], json.dumps({"content": say.text, "tool_calls": calls}))
            self.answered += 1
            follows = True


async def office_run(
    client: Client, staff: list[Reader], method: Any = NoCompression, stop_after: int = 0
) -> Record | None:
    """One easy task; with `stop_after`, everything is killed after that number of answers."""
    tasks = [asyncio.create_task(reader.work(client)) for reader in staff]
    office = Office(11, 3)
    model = model_from(f"openai:agent@{client.url}/arm/v1")
    work = asyncio.create_task(Agent(model, method).run(office, office.tasks()[0]))
    try:
        while not work.done():
            if stop_after and sum(reader.answered for reader in staff) >= stop_after:
                work.cancel()
                return None
            await asyncio.sleep(0.01)
        return work.result()
    finally:
        for task in (*tasks, work):
            task.cancel()
        await asyncio.gather(*tasks, work, return_exceptions=True)


async def test_a_run_that_was_killed_catches_up_from_the_log(tmp_path: Path) -> None:
    log, staff = tmp_path / "log", [Reader("R0")]
    async with relay(log) as client:
        assert await office_run(client, staff, stop_after=6) is None
    assert len(entries(log, "reply")) >= 6
    with log.open("a") as file:
        file.write('{"event": "rep')  # killed while it wrote
    async with relay(log) as client:
        record = await office_run(client, staff)  # the reader is still there
    assert record is not None
    assert record.score.success == 1, record.score
    digests = [entry["digest"] for entry in entries(log, "reply")]
    assert len(digests) == len(set(digests)) == len(record.steps), "no step was answered twice"


async def test_no_reader_sees_a_task_again_over_a_whole_run(tmp_path: Path) -> None:
    """Under FIFO the beginning moves at almost every step, and each time somebody new goes on."""
    log, staff = tmp_path / "log", [Reader(f"R{number}") for number in range(30)]
    async with relay(log) as client:
        await asyncio.wait_for(office_run(client, staff, lambda: Fifo(8), stop_after=14), 60)
    shown: dict[str, int] = {}
    asked = {entry["id"]: entry for entry in entries(log, "ask")}
    for entry in entries(log, "take"):
        moves = asked[entry["id"]]["moves"]
        assert shown.setdefault(entry["reader"], moves) == moves, "one reader, one stretch of the conversation"
    assert len(shown) > 3


SERVE = """
import asyncio, sys
from pathlib import Path
from focusctx_bench.relay import TASK, serving
from focusctx_bench.run import run_task
async def main():
    async with serving(Path(sys.argv[1])) as url:
        print(url, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_relay_that_was_killed_still_knows_who_has_seen_what(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", SERVE, str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        async with aiohttp.ClientSession() as http:
            client = Client(http, url)
            asked = client.ask(run(2))
            found = await client.take("R1", wait=5)
            await client.reply("R1", found["id"])
            answer = await asked
            process.send_signal(signal.SIGKILL)
            process.wait()
    async with relay(log) as client:
        assert (await client.ask(run(2)))["choices"] == answer["choices"]
        client.ask([*run(0), *run(3)[-2:]])
        assert await client.take("R1") == {}
        assert (await client.take("R2", wait=5))["text"].startswith("NEW CONVERSATION")
