"""`focusctx bench relay take` and `reply`, against a relay on a real socket."""

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from focusctx_bench.models.served import model_from
from focusctx_bench.relay import serving

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[str]:
    started, ended = threading.Event(), threading.Event()
    found: list[str] = []

    async def serve() -> None:
        async with serving(tmp_path / "log") as url:
            found.append(url)
            started.set()
            while not ended.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait()
    yield found[0]
    ended.set()
    thread.join()


def test_take_and_reply(focusctx, relay, monkeypatch):
    port = relay.rpartition(":")[2]
    answers = []
    messages = [{"role": "user", "content": "Look around."}]
    model = model_from(f"openai:agent@{relay}/full/v1")
    agent = threading.Thread(target=lambda: answers.append(asyncio.run(model.answer(messages, TOOLS))))
    agent.start()
    take = ("bench", "relay", "take", "--reader", "R1", "--port", port)
    code, out, _ = focusctx(*take, "--arm", "other*", "--wait", 0.1)
    assert code == 0
    assert "NOTHING YET" in out
    code, out, _ = focusctx(*take, "--arm", "fu*", "--wait", 10)
    assert code == 0
    assert "Look around." in out
    number = out.splitlines()[0].strip("[]")
    reply = ("bench", "relay", "reply", number, "--reader", "R1", "--port", port, "--wait", 0.1)
    monkeypatch.setattr("sys.stdin", io.StringIO("no JSON"))
    code, out, _ = focusctx(*reply)
    assert code == 1
    assert "NOT ACCEPTED" in out
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"tool_calls": [{"name": "look"}]})))
    code, out, _ = focusctx(*reply)
    assert code == 0
    assert "NOTHING YET" in out
    code, out, _ = focusctx("bench", "relay", "status", "--port", port)
    assert code == 0
    assert json.loads(out)["seen"] == {"R1": 1}
    agent.join()
    assert answers[0].message["tool_calls"][0]["function"]["name"] == "look"
    assert answers[0].usage.input_tokens > 0


def test_a_relay_that_cannot_start_says_why(focusctx, relay, tmp_path):
    port = relay.rpartition(":")[2]
    code, _, err = focusctx("bench", "relay", "serve", "--port", port, "--log", tmp_path / "other")
    assert code == 2
    assert f"port {port} cannot be used" in err
    code, _, err = focusctx("bench", "relay", "serve", "--port", 0, "--log", tmp_path / "no" / "log")
    assert code == 2
    assert "the log cannot be written" in err


def test_no_relay(focusctx):
    code, _, err = focusctx("bench", "relay", "take", "--reader", "R1", "--port", 9)
    assert code == 2
    assert "no relay answers at http://127.0.0.1:9" in err
    assert "focusctx bench relay serve" in err
