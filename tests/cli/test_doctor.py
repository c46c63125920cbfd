"""`focusctx doctor`, asking real servers on this machine."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from focusctx import Focus
from focusctx.cli.doctor_live import first_event
from helpers.provider import Provider, Received, Say
from helpers.raw_http import Head, Line, Raw, in_background, proxy, raw_upstream

Run = Callable[..., tuple[int, str, str]]
SECRET = "sk-a-secret-that-nobody-prints"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "FOCUSCTX_TOKEN", "OPENAI_BASE_URL", "FOCUSCTX_PRICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


@pytest.fixture
def provider() -> Iterator[Provider]:
    def say(_received: Received) -> Say:
        return Say("OK")

    with Provider(say) as running:
        yield running


@pytest.fixture
def free() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


def findings(out: str) -> dict[str, dict[str, str | bool | None]]:
    return {check["name"]: check for check in json.loads(out)["checks"]}


def test_all_is_well(focusctx: Run, provider: Provider, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    options = ["--upstream", f"one={provider.url}", "--draft", f"openai:gpt-5-mini@{provider.url}/v1"]
    code, out, err = focusctx("doctor", *options, "--listen", free)
    assert (code, err) == (0, "")
    assert "OPENAI_API_KEY" in out
    assert SECRET not in out
    assert "openai:gpt-5-mini" in out
    assert f"127.0.0.1:{free} is free" in out
    assert "Everything that was asked for is there." in out
    code, out, _ = focusctx("doctor", *options, "--listen", free, "--json")
    found = findings(out)
    assert code == 0
    assert json.loads(out)["ok"] is True
    assert all(found[name]["ok"] for name in ("focusctx", "proxy", "draft", "upstream one", "store", "port"))


def test_without_options_nothing_is_asked(focusctx: Run) -> None:
    code, out, _ = focusctx("doctor")
    assert code == 0
    assert "offline: needs no model" in out
    assert "add --upstream" in out


def test_what_does_not_answer(focusctx: Run, free: int) -> None:
    gone = f"http://127.0.0.1:{free}"
    options = ["--upstream", f"one={gone}", "--draft", f"openai:m@{gone}/v1", "--store", "redis://127.0.0.1:1/0"]
    code, out, _ = focusctx("doctor", *options, "--listen", "0", "--json")
    found = findings(out)
    assert code == 1
    for name in ("draft", "upstream one", "store"):
        assert found[name]["ok"] is False
        assert found[name]["hint"]
    assert "no answer from 127.0.0.1" in str(found["upstream one"]["said"])
    code, out, _ = focusctx("doctor", *options, "--listen", "0")
    assert code == 1
    assert "3 to be put right." in out


def test_a_server_that_never_answers_is_not_waited_for(
    focusctx: Run, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    monkeypatch.setattr("focusctx.cli.doctor_live._PATIENCE", 0.3)

    async def never(line: Line, head: Head) -> None:
        await line.body(head)
        await asyncio.sleep(60)

    with in_background(lambda: raw_upstream(never)) as up:
        options = ["--upstream", f"one={up.url}", "--draft", f"openai:m@{up.url}/v1", "--listen", free, "--json"]
        code, out, _ = focusctx("doctor", *options)
    found = findings(out)
    assert code == 1
    assert "no answer within" in str(found["draft"]["said"])
    assert "no answer within" in str(found["upstream one"]["said"])


@pytest.mark.parametrize(
    ("status", "ok", "said"), [(401, True, "send their own key"), (500, False, "answers with 500")]
)
def test_a_provider_that_refuses(focusctx: Run, free: int, status: int, ok: bool, said: str) -> None:
    answer = f"HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n".encode()
    with in_background(lambda: raw_upstream(answer)) as up:
        code, out, _ = focusctx("doctor", "--upstream", f"one={up.url}", "--listen", free, "--json")
    assert code == (0 if ok else 1)
    assert findings(out)["upstream one"]["ok"] is ok
    assert said in str(findings(out)["upstream one"]["said"])


def test_a_key_that_the_proxy_holds_is_tried(
    focusctx: Run, free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    with in_background(lambda: raw_upstream(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")) as up:
        file = tmp_path / "focusctx.toml"
        file.write_text(f'listen = "{free}"\n[upstreams.one]\nurl = "{up.url}"\nkey = "env:MY_KEY"\n')
        code, out, _ = focusctx("doctor", "--config", file, "--json")
    assert code == 1
    assert "refuses the key" in str(findings(out)["upstream one"]["said"])
    assert SECRET not in out
    assert up.got[0]["authorization"] == f"Bearer {SECRET}"


def test_a_draft_that_refuses_the_key(focusctx: Run) -> None:
    body = json.dumps({"error": {"message": "Incorrect API key", "type": "x", "code": None}})
    answer = f"HTTP/1.1 401 No\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    with in_background(lambda: raw_upstream(answer.encode())) as up:
        code, out, _ = focusctx("doctor", "--draft", f"openai:m@{up.url}/v1", "--json")
    draft = findings(out)["draft"]
    assert code == 1
    assert "Incorrect API key" in str(draft["said"])
    assert "key" in str(draft["hint"])


def test_a_port_in_use(focusctx: Run, provider: Provider) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, _ = focusctx("doctor", "--upstream", f"one={provider.url}", "--listen", port, "--json")
    assert code == 1
    assert findings(out)["port"]["ok"] is False
    assert "--listen" in str(findings(out)["port"]["hint"])


def test_a_port_on_which_a_proxy_listens_already(focusctx: Run) -> None:
    @asynccontextmanager
    async def both() -> AsyncIterator[tuple[Raw, str]]:
        async with raw_upstream() as up, proxy(up.url) as (_, url):
            yield up, url

    with in_background(both) as (up, url):
        port = url.rpartition(":")[2]
        code, out, _ = focusctx("doctor", "--upstream", f"one={up.url}", "--listen", port, "--json")
    assert code == 0
    assert "in use by a focusctx proxy already" in str(findings(out)["port"]["said"])


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ("offline", "cost nothing"),
        ("openai:gpt-5-mini", "cost about 0."),
        ("openai:no-known-price@http://192.0.2.1/v1", "cost unknown"),
    ],
)
def test_what_a_first_event_would_cost(monkeypatch: pytest.MonkeyPatch, draft: str, said: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    event = first_event(Focus(draft, budget=20_000)).said
    assert said in event
    assert "20,000 tokens" in event


@pytest.mark.parametrize("options", [["--upstream", "nonsense"], ["--draft", "nonsense"], ["--config", "/no/file"]])
def test_wrong_settings_are_a_finding(focusctx: Run, options: list[str]) -> None:
    code, out, _ = focusctx("doctor", *options, "--json")
    assert code == 1
    assert findings(out)["settings"]["ok"] is False
