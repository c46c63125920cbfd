"""The llama.cpp draft with a fake `xllamacpp`, whose "model file" says what it does."""

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from focusctx.drafts import LlamaCppDraft
from focusctx.drafts import llama_cpp as module
from focusctx.errors import ConfigError, DraftRefused, DraftUnavailable, MissingExtraError
from focusctx.types import Usage

FAKE = """
import json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

class CommonParams(SimpleNamespace):
    def __init__(self):
        super().__init__(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace(),
                         n_ubatch=512)

class Server:
    def __init__(self, params):
        note = lambda **what: open(params.model.path + ".log", "a").write(json.dumps(what) + "\\n")
        script = json.load(open(params.model.path))
        note(started=os.getpid(), context=params.n_ctx, threads=vars(params.cpuparams).get("n_threads"))
        print("chatter on stdout", flush=True)
        time.sleep(script.get("load", 0))
        if "broken" in script:
            print("E bad magic", file=sys.stderr, flush=True)
            raise RuntimeError("please check the input params")
        http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), dict(
            params=params, script=script, note=staticmethod(note))))
        threading.Thread(target=http.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{http.server_port}"

class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", len(body))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Authorization"] == "Bearer " + self.params.api_keys[0]
        if self.path.endswith("input_tokens"):
            return self.answer(200, {"input_tokens": self.script.get("tokens", 100)})
        self.note(asked=body, at=time.time())
        if "dead" in self.script:
            os._exit(9)
        if "refuse" in self.script:
            return self.answer(self.script["refuse"], {"error": dict(code=self.script["refuse"], message="no")})
        self.send_response(200)
        self.end_headers()
        try:
            self.stream(body["n"])
        except OSError:
            self.note(gone=True)
        self.note(ended=time.time())

    def send(self, value):
        self.wfile.write(b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\\n\\n")

    def stream(self, n):
        for event in self.script.get("events", [[k, f"plan {k}", "stop"] for k in range(n)]):
            if event == "die":
                os._exit(9)
            if event == "error":
                return self.send({"error": {"code": 500, "message": "Context size has been exceeded."}})
            place, text, reason = event
            while text == "for ever":
                self.send({"choices": [dict(index=place, delta={"content": "x"}, finish_reason=None)]})
                time.sleep(0.01)
            self.send({"choices": [dict(index=place, delta={"content": None}, finish_reason=None)]})
            self.send({"choices": [dict(index=place, delta={"content": text}, finish_reason=None)]})
            if reason:
                self.send({"choices": [dict(index=place, delta={}, finish_reason=reason)],
                           "timings": {"cache_n": 30, "prompt_n": 70, "predicted_n": 5 + place}})
            time.sleep(self.script.get("pace", 0))
        self.send(b"[DONE]")
"""


class Model:
    """A file that tells the fake llama.cpp what to do, and the log of what it was asked."""

    def __init__(self, path):
        self.path = path

    def does(self, **script):
        self.path.write_text(json.dumps(script))

    def log(self, kind):
        lines = Path(f"{self.path}.log").read_text().splitlines()
        return [entry[kind] for entry in map(json.loads, lines) if kind in entry]


@pytest.fixture
def model(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "xllamacpp.py").write_text(FAKE)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    model = Model(tmp_path / "tiny.gguf")
    model.does()
    return model


@pytest.fixture
def draft(model):
    draft = LlamaCppDraft(model.path)
    yield draft
    draft.close()


async def test_one_request_for_all_sketches_each_handed_out_when_it_ends(model, draft, prompt, collect):
    model.does(events=[[0, "first ", None], [1, "second", "stop"], [2, "third", "length"], [0, "one", "stop"]])
    replies, error = await collect(draft, prompt, 3)
    assert error is None
    assert [(reply.text, reply.truncated) for reply in replies] == [
        ("second", False),
        ("third", True),
        ("first one", False),
    ]
    assert [reply.usage for reply in replies] == [
        Usage(1, 100, 6),
        Usage(output_tokens=7),
        Usage(output_tokens=5),
    ]
    (asked,) = model.log("asked")
    assert asked == {
        "messages": prompt.messages,
        "n": 3,
        "temperature": 0.7,
        "max_tokens": 1024,
        "seed": 42,
        "chat_template_kwargs": {"enable_thinking": False},
        "stream": True,
    }
    assert draft.name == "llama-cpp:tiny.gguf"


async def test_more_sketches_than_fit_side_by_side_are_asked_for_in_turns(model, draft, prompt, collect):
    replies, error = await collect(draft, prompt, 10)
    assert (len(replies), error) == (10, None)
    assert [(asked["n"], asked["seed"]) for asked in model.log("asked")] == [(8, 42), (2, 50)]


def test_the_model_is_loaded_once_for_all_event_loops(model, draft, prompt, collect):
    for _ in range(2):
        replies, error = asyncio.run(collect(draft, prompt, 2))
        assert (len(replies), error) == (2, None)
    assert len(model.log("started")) == 1


async def test_settings_reach_llama_cpp(model, prompt, collect):
    draft = LlamaCppDraft(str(model.path), context=9000, threads=3)
    await collect(draft, prompt, 1)
    draft.close()
    assert (model.log("context"), model.log("threads")) == ([9000], [3])


async def test_a_prompt_without_room_for_the_sketches_is_refused_before_any_work(model, draft, prompt, collect):
    model.does(tokens=13_500)
    replies, error = await collect(draft, prompt, 3)
    assert (replies, type(error)) == ([], DraftRefused)
    assert "13500 tokens" in str(error)
    assert "context=16572" in str(error)
    assert model.log("asked") == []


@pytest.mark.parametrize(("status", "kind"), [(400, DraftRefused), (500, DraftUnavailable)])
async def test_a_refused_request(model, draft, prompt, collect, status, kind):
    model.does(refuse=status)
    replies, error = await collect(draft, prompt, 3)
    assert (replies, type(error)) == ([], kind)
    assert str(status) in str(error)


@pytest.mark.parametrize(
    ("rest", "says"),
    [(["error"], "Context size"), ([], "2 of 3 sketches missing"), (["die"], "2 of 3 sketches missing")],
)
async def test_what_came_before_a_failure_counts(model, draft, prompt, collect, rest, says):
    model.does(events=[[1, "plan", "stop"], *rest])
    replies, error = await collect(draft, prompt, 3)
    assert [reply.text for reply in replies] == ["plan"]
    assert isinstance(error, DraftUnavailable)
    assert says in str(error)


async def test_a_dead_server_is_replaced(model, draft, prompt, collect):
    model.does(dead=True)
    _, error = await collect(draft, prompt, 3)
    assert isinstance(error, DraftUnavailable)
    assert "stopped answering" in str(error)
    model.does()
    replies, error = await collect(draft, prompt, 3)
    assert (len(replies), error) == (3, None)


async def test_a_file_that_is_no_model_is_refused_with_what_llama_cpp_says(model, draft, prompt, collect):
    model.does(broken=True)
    _, error = await collect(draft, prompt, 3)
    assert isinstance(error, DraftRefused)
    assert "E bad magic / please check the input params" in str(error)
    model.does()
    replies, _ = await collect(draft, prompt, 3)
    assert len(replies) == 3


async def test_closing_early_cancels_the_request(model, draft, prompt):
    model.does(events=[[0, "plan", "stop"], [1, "for ever", None]])
    async with aclosing(draft.sample(prompt, 2)) as replies:
        assert (await anext(replies)).text == "plan"
    await eventually(lambda: model.log("gone") == [True])


async def test_who_stops_waiting_does_not_stop_the_loading(model, draft, prompt, collect):
    model.does(load=1.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), aclosing(draft.sample(prompt, 1)) as replies:
            await anext(replies)
    replies, error = await collect(draft, prompt, 1)
    assert (len(replies), error) == (1, None)
    assert len(model.log("started")) == 1


async def test_events_take_turns(model, draft, prompt, collect):
    model.does(events=[[0, "plan", "stop"]], pace=0.2)
    await asyncio.gather(*(collect(draft, prompt, 1) for _ in range(3)))
    starts, ends = model.log("at"), model.log("ended")
    assert all(start >= end for start, end in zip(starts[1:], ends[:-1], strict=True))


async def test_close_ends_the_process_and_the_next_sketch_starts_another(model, draft, prompt, collect):
    await collect(draft, prompt, 1)
    draft.close()
    draft.close()
    assert [alive(pid) for pid in model.log("started")] == [False]
    replies, _ = await collect(draft, prompt, 1)
    assert (len(replies), len(model.log("started"))) == (1, 2)


async def test_closed_while_loading(model, draft, prompt, collect):
    model.does(load=20)
    waiting = asyncio.create_task(collect(draft, prompt, 1))
    await eventually(lambda: Path(f"{model.path}.log").exists())
    draft.close()
    _, error = await waiting
    assert isinstance(error, DraftRefused)


@pytest.mark.parametrize("ending", ["pass", "os._exit(1)", "os.kill(os.getpid(), 9)"])
async def test_the_server_ends_with_the_program_however_it_ends(model, ending):
    program = f"""
import asyncio, os
from focusctx.drafts import LlamaCppDraft
from focusctx.types import History, Prompt
draft = LlamaCppDraft({str(model.path)!r})
async def first():
    async for reply in draft.sample(Prompt("", "", History("", ())), 1):
        return reply
asyncio.run(first())
{ending}
"""
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | {"PYTHONPATH": paths},
        timeout=30,
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    (pid,) = model.log("started")
    await eventually(lambda: not alive(pid))


def test_what_is_wrong_is_said_at_once(model, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="no such GGUF file"):
        LlamaCppDraft(tmp_path / "nowhere.gguf")
    with pytest.raises(ConfigError, match="context must be"):
        LlamaCppDraft(model.path, context=0)
    with pytest.raises(ConfigError, match="threads must be"):
        LlamaCppDraft(model.path, threads=0)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"focusctx\[llama-cpp\]"):
        LlamaCppDraft(model.path)


async def eventually(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


def alive(pid):
    """Whether the process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
