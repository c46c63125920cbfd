"""LiteLLM: three kinds of calls, streamed and not, translated from one to another, through the router and the proxy."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from helpers import task
from helpers.provider import Provider, Say
from integrations.conformance import Conformance, compressing, moved

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it fetches prices otherwise
litellm = pytest.importorskip("litellm", reason="scripts/test-integrations litellm")

from focusctx.integrations.litellm import FocusCallback
from focusctx.integrations.plug import Source
from focusctx.session.stores import store_from


@pytest.fixture(autouse=True)
def callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are global, and the page sets them too."""
    monkeypatch.setattr(litellm, "callbacks", [])
    monkeypatch.setattr(litellm, "input_callback", [])


class TestLiteLLM(Conformance):
    name = "litellm"
    modes = ("chat", "chat sync", "router stream", "chat on anthropic", "messages on responses")
    imports = ("litellm",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        callback = None if focus is None else FocusCallback(focus)
        litellm.callbacks = [] if callback is None else [callback]  # the fixture clears them
        where = {"model": "openai/scripted", "api_base": f"{url}/v1"}
        if "anthropic" in mode:
            where = {"model": "anthropic/scripted", "api_base": url}
        return asyncio.run(audit(mode, callback, api_key="none", **where))


async def audit(mode: str, callback: FocusCallback | None = None, **where: Any) -> tuple[str, list[Any]]:
    history: list[Any] = [{"role": "user", "content": task.TASK}]
    router = litellm.Router([{"model_name": "auditor", "litellm_params": where}])
    while True:
        if "messages" in mode:
            answer = await messages_step(history, **where)
        elif "sync" in mode:
            answer = await chat_step(in_thread((callback or litellm).completion), history, **where)
        elif "router" in mode:
            answer = await chat_step(router.acompletion, history, model="auditor", stream=True)
        else:
            answer = await chat_step(litellm.acompletion, history, **where)
        if answer is not None:
            return answer, history


def in_thread(complete: Any) -> Any:
    async def call(**arguments: Any) -> Any:
        return await asyncio.to_thread(complete, **arguments)

    return call


async def chat_step(complete: Any, history: list[Any], **more: Any) -> str | None:
    """One call of the model and of the tools it asks for; the answer when it asks for none."""
    answer = await complete(messages=history, tools=task.chat_tools(), **more)
    if more.get("stream"):
        answer = litellm.stream_chunk_builder([chunk async for chunk in answer])
    message = answer.choices[0].message
    calls = [call.model_dump(include={"id", "type", "function"}) for call in message.tool_calls or ()]
    history.append({"role": "assistant", "content": message.content, **({"tool_calls": calls} if calls else {})})
    for call in calls:
        text = tool_text(call["function"]["name"], json.loads(call["function"]["arguments"]))
        history.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return None if calls else message.content


async def messages_step(history: list[Any], **where: Any) -> str | None:
    tools = task.anthropic_tools()
    answer = await litellm.anthropic_messages(messages=history, tools=tools, max_tokens=1000, **where)
    history.append({"role": "assistant", "content": answer["content"]})
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    if not calls:
        return answer["content"][-1]["text"]
    texts = [tool_text(call["name"], call["input"]) for call in calls]
    results = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": text}
        for call, text in zip(calls, texts, strict=True)
    ]
    history.append({"role": "user", "content": results})
    return None


def tool_text(name: str, arguments: dict[str, Any]) -> str:
    try:
        return task.run_tool(name, arguments)
    except task.ToolFailure as failure:
        return f"Error: {failure}"


CONFIG = """
general_settings: {{master_key: {key}, custom_auth: focus.keys}}
model_list:
  - model_name: auditor
    litellm_params: {{model: openai/scripted, api_base: {url}/v1, api_key: none}}
litellm_settings:
  callbacks: focus.callback
"""
CALLBACK = """
from focusctx import Focus
from focusctx.integrations.litellm import FocusCallback
from litellm.proxy._types import UserAPIKeyAuth
focus = Focus("offline", budget=3000)
callback = FocusCallback(lambda caller: focus.session("sqlite:///focus.db", tenant=caller.tenant))

async def keys(request, api_key):
    return UserAPIKeyAuth(api_key=api_key)
"""
OTHER_KEY = "sk-another-key-that-is-long-enough"
KEY = "sk-a-key-that-is-long-enough-for-a-test"


@contextmanager
def proxy(folder: Path, provider: Provider) -> Iterator[str]:
    """The address of LiteLLM's proxy, a process of its own, with that provider behind it."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])
    (folder / "config.yaml").write_text(CONFIG.format(url=provider.url, key=KEY))
    (folder / "focus.py").write_text(CALLBACK)
    command = [Path(sys.executable).with_name("litellm"), "--config", "config.yaml", "--host", "127.0.0.1"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, "--port", port], cwd=folder, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/health/liveliness", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url) as answer:
            if b"alive" in answer.read():  # and not another server, which was given the same port meanwhile
                return
        time.sleep(0.2)
    pytest.fail("LiteLLM's proxy did not start")


def test_a_synchronous_call_that_no_hook_sees_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    callback = FocusCallback(compressing())
    litellm.callbacks = [callback]
    more: dict[str, Any] = {"model": "openai/scripted", "messages": [{"role": "user", "content": "Hello?"}]}
    with Provider(lambda received: Say("Yes.")) as provider, caplog.at_level("WARNING", "focusctx"):
        more |= {"api_base": f"{provider.url}/v1", "api_key": "none"}
        callback.completion(**more, metadata={"session_id": "one"})
        assert not caplog.messages
        litellm.completion(**more)
        litellm.completion(**more)
    assert len(caplog.messages) == 1
    assert "use acompletion, or the callback's own completion" in caplog.text
    assert [conversation.id for conversation in callback.focusctx.conversations] == ["one"]


def test_the_proxy_compresses_what_its_clients_send(tmp_path: Path) -> None:
    """Chat requests go on as they are, Messages are translated to Responses: each is changed once."""
    with Provider(task.model) as provider, proxy(tmp_path, provider) as url:
        for mode, where in (
            ("chat", {"model": "openai/auditor", "api_base": f"{url}/v1"}),
            ("messages", {"model": "anthropic/auditor", "api_base": url}),
        ):
            provider.received.clear()
            answer, history = asyncio.run(audit(mode, api_key=KEY, **where))
            assert (answer, provider.rejected) == (task.FINAL, [])
            assert len(provider.received[-1].raw) < 0.6 * len(json.dumps(history))
            assert moved(provider.received) == events(history)


def test_every_key_of_the_proxy_is_a_tenant(tmp_path: Path) -> None:
    """Two keys with the same words: nothing of the first is there for the second."""
    with Provider(task.model) as provider, proxy(tmp_path, provider) as url:
        sent = []
        for key in (KEY, OTHER_KEY):
            provider.received.clear()
            answer, history = asyncio.run(audit("chat", api_key=key, model="openai/auditor", api_base=f"{url}/v1"))
            assert (answer, provider.rejected) == (task.FINAL, [])
            assert moved(provider.received) == events(history)
            sent.append([len(received.messages) for received in provider.received])
    assert sent[0] == sent[1]  # decided anew, not followed
    tenants = [f"key-{sha256(sha256(key.encode()).hexdigest().encode()).hexdigest()[:16]}" for key in (KEY, OTHER_KEY)]
    store = store_from(f"sqlite:///{tmp_path / 'focus.db'}")
    known = [store.recent(tenant, 100) for tenant in tenants]
    assert len(known[0]) == len(known[1]) > 0
    assert not store.recent("default", 1)
    store.close()


def events(history: list[Any]) -> int:
    """How often the view of such an agent changes."""
    session = compressing().session()
    for place, message in enumerate(history):
        if message["role"] == "assistant":
            session.view(history[:place])
    return sum(event.happened for event in session.events)
