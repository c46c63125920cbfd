"""What the proxy can be told, and what it says when it is told something wrong."""

import math
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from focusctx.cli.options import DEFAULTS
from focusctx.egress import is_loopback
from focusctx.errors import ConfigError
from focusctx.proxy.access import NamedCaller, Refused
from focusctx.proxy.settings import File, ModelBudget, Settings, address, machine
from focusctx.proxy.upstream import Upstream, Upstreams, base_urls

TOKEN = "a token of more than 16 characters"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9000", "127.0.0.1", 9000),
        ("0.0.0.0:80", "0.0.0.0", 80),
        (":9000", "127.0.0.1", 9000),
        ("8401", "127.0.0.1", 8401),
        ("localhost", "localhost", 8400),
        ("[::1]:9000", "::1", 9000),
        ("[::]", "::", 8400),
        ("proxy.lan:0", "proxy.lan", 0),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert address(text) == (host, port)


@pytest.mark.parametrize("text", ["", "localhost:", "localhost:http", ":-1", "::1", "a b:80", "http://x:80", "x:٣"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        address(text)


def test_loopback() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.255.0.1", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "", "example.com"]))


@pytest.mark.parametrize(
    "text",
    ["openai", "anthropic", "deepseek", "gemini", "groq", "mistral", "openrouter", "ollama", "vllm"],
)
def test_known_upstreams(text: str) -> None:
    upstream = Upstream.named(text)
    assert upstream.name == text
    assert upstream.at("/v1/models").startswith(upstream.url)


def test_where_known_upstreams_have_their_models() -> None:
    def at(name: str) -> str:
        return Upstream.named(name).at("/v1/chat/completions")

    assert at("openai") == "https://api.openai.com/v1/chat/completions"
    assert at("groq") == "https://api.groq.com/openai/v1/chat/completions"
    assert at("gemini") == "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"
    assert at("openrouter") == "https://openrouter.ai/api/v1/chat/completions"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=",
        "nobody",
        "mine=",
        "openai=",
        "mine=ftp://x",
        "mine=example.com",
        "mine=http://",
        "mine=http://x:port",
        "mine=http://x:99999",
        "mine=http://x?y",
        "mine=http://x#y",
        "mine=http://user:pass@x",
        "mine=http://[x",
        "mine=http://a b",
        "a/b=http://x",
        "a b=http://x",
        "v1=http://x",
        "ui=http://x",
        "metrics=http://x",
        "healthz=http://x",
        "-x=http://x",
        "?=http://x",
    ],
)
def test_what_is_no_upstream(text: str) -> None:
    with pytest.raises(ConfigError, match="upstream"):
        Upstream.named(text)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as error:
        Upstream.named("mine=http://user:secret@x")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("key", ["sk-1\n", "sk-1\r\nx-more: 1", "sk-\u00fc", "sk\t1"])
def test_a_key_that_no_header_can_hold(key: str) -> None:
    with pytest.raises(ConfigError, match="no header can hold") as raised:
        Upstream("one", "http://127.0.0.1:1", key)
    assert "sk-" not in str(raised.value)


def test_names_are_needed_and_told_apart() -> None:
    with pytest.raises(ConfigError, match="at least one upstream is needed"):
        Upstreams(())
    with pytest.raises(ConfigError, match="same name"):
        Upstreams((Upstream.named("openai"), Upstream.named("openai=http://x")))


def chosen(names: Sequence[str], path: str, headers: dict[str, str]) -> str:
    """The upstream's name, or why the request is refused."""
    upstreams = Upstreams([Upstream.named(name) for name in names])
    try:
        return upstreams.choose(path, headers)[0].name
    except Refused as refused:
        return str(refused) if refused.status == 404 else f"{refused} ({refused.status})"


GEMINI = [
    ("/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse", {}),
    ("/v1/models/gemini-3.8-flash:generateContent", {}),
    ("/v1beta/models?key=k", {}),
    ("/upload/v1beta/files", {}),
    ("/v1/models", {"x-goog-api-key": "k"}),
]


@pytest.mark.parametrize(("own", "headers"), GEMINI)
def test_a_gemini_key_goes_only_to_those_who_may_answer_gemini_requests(own: str, headers: dict[str, str]) -> None:
    def choose(*names: str, path: str = own) -> str:
        return chosen(names, path, headers if path == own else {})

    for name in ("openai", "anthropic", "deepseek", "groq", "mistral", "openrouter", "ollama", "vllm"):
        assert choose(name) == "no upstream for Gemini requests: add --upstream gemini"
        assert choose(name, "gemini") == "gemini"
        assert choose(f"{name}=http://gate") == name, "a server of the user's own may well speak it"
    said = "openai does not answer Gemini requests: send them to another upstream"
    if not headers:
        assert choose("openai", "gemini", path=f"/openai{own}") == said
        assert choose("openai", "gemini", path=f"/gemini{own}") == "gemini"
    for other in ("/v1/chat/completions", "/v1beta/openai/chat/completions", "/v1/models?key=k"):
        assert choose("openai", "gemini", path=other) == "openai"


def test_ollamas_own_api_goes_to_ollama() -> None:
    for path, name in (("/api/chat", "ollama"), ("/api/tags", "ollama"), ("/v1/chat/completions", "openai")):
        assert chosen(["openai", "ollama"], path, {}) == name


def test_variables_for_agents_that_speak_a_providers_own_format() -> None:
    assert base_urls([Upstream.named("gemini"), Upstream.named("ollama")]) == {
        "OPENAI_BASE_URL": "/v1",
        "ANTHROPIC_BASE_URL": "",
        "GOOGLE_GEMINI_BASE_URL": "",
        "OLLAMA_HOST": "",
    }


ANTHROPIC = [("/v1/messages", {}), ("/v1/messages/count_tokens", {}), ("/v1/models", {"anthropic-version": "1"})]


@pytest.mark.parametrize(("path", "headers"), ANTHROPIC)
def test_an_anthropic_key_does_not_go_to_those_who_answer_no_anthropic_requests(
    path: str, headers: dict[str, str]
) -> None:
    def choose(*names: str, path: str = path) -> str:
        return chosen(names, path, headers)

    refused = "no upstream for Anthropic requests: add --upstream anthropic"
    for name in ("openai", "deepseek", "gemini", "groq", "mistral"):
        assert choose(name) == refused
        assert choose(f"{name}=http://gate") == name, "a server of the user's own may well speak it"
    assert choose("openai", "groq") == refused
    assert (
        choose("openai", path=f"/openai{path}")
        == "openai does not answer Anthropic requests: send them to another upstream"
    )
    for name in ("anthropic", "openrouter", "ollama", "vllm", "mine=http://gate"):
        assert choose(name) == choose("openai", name) == name.partition("=")[0]
    assert choose("mine=http://gate", "openai", "anthropic") == "anthropic"
    assert choose("deepseek", path=f"/anthropic{path}") == "deepseek", "where DeepSeek has it"


def test_other_requests_go_to_the_first_as_ever() -> None:
    for names in (["openai"], ["openai", "anthropic"], ["anthropic", "openai"]):
        upstreams = [Upstream.named(name) for name in names]
        for path in ("/v1/chat/completions", "/v1/responses", "/v1/models", "/"):
            assert Upstreams(upstreams).choose(path, {}) == (upstreams[0], path)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["openai"], {"OPENAI_BASE_URL": "/v1"}),
        (["anthropic"], {"ANTHROPIC_BASE_URL": ""}),
        (["openai", "anthropic"], {"OPENAI_BASE_URL": "/v1", "ANTHROPIC_BASE_URL": ""}),
        (["anthropic", "openai"], {"OPENAI_BASE_URL": "/openai/v1", "ANTHROPIC_BASE_URL": ""}),
        (["mine=http://gate"], {"OPENAI_BASE_URL": "/v1", "ANTHROPIC_BASE_URL": ""}),
    ],
)
def test_agents_are_told_only_of_what_an_upstream_speaks(names: list[str], told: dict[str, str]) -> None:
    upstreams = [Upstream.named(name) for name in names]
    assert base_urls(upstreams) == told
    paths = {"OPENAI_BASE_URL": "/chat/completions", "ANTHROPIC_BASE_URL": "/v1/messages"}
    for name, path in told.items():
        assert chosen(names, path + paths[name], {}) in (name.partition("_")[0].lower(), "mine")


@pytest.mark.parametrize(
    ("host", "url", "own"),
    [
        ("127.0.0.1", "http://127.0.0.1:8400/v1", True),
        ("127.0.0.1", "http://localhost:8400", True),
        ("0.0.0.0", "http://[::1]:8400/v1", True),
        ("127.0.0.1", "http://0.0.0.0:8400", True),
        ("10.0.0.1", "http://10.0.0.1:8400/v1", True),
        ("0.0.0.0", f"http://{machine()}:8400/v1", True),
        ("10.0.0.1", "http://127.0.0.1:8400/v1", False),
        ("127.0.0.1", "http://127.0.0.1:8000/v1", False),
        ("127.0.0.1", "http://127.0.0.1", False),
        ("127.0.0.1", "https://api.openai.com/v1", False),
        ("127.0.0.1", "http://example.com:8400/v1", False),
    ],
)
def test_its_own_address_is_no_upstream(host: str, url: str, own: bool) -> None:
    settings = Settings((Upstream.named("openai"),), host=host, token=TOKEN)
    assert settings.is_own(url) == own
    if own:
        with pytest.raises(ConfigError, match="upstream mine is this proxy itself"):
            Settings((Upstream.named(f"mine={url}"),), host=host, token=TOKEN)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("port", -1, "between 0 and 65535"),
        ("port", 65536, "between 0 and 65535"),
        ("port", True, "a whole number"),
        ("body_limit", -1, "0 or more"),
        ("body_limit", 1.5, "a whole number"),
        ("grace", -0.1, "0 or more"),
        ("grace", math.inf, "a finite number"),
        ("grace", math.nan, "a finite number"),
        ("recall", "no", "True or False"),
        ("dry_run", 1, "True or False"),
        ("store", None, "a text"),
    ],
)
def test_a_setting_that_will_not_do_is_refused_by_name(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must be {allowed}, got {re.escape(repr(value))}$"):
        Settings((Upstream.named("openai"),), **{name: value})


def test_upstreams_are_upstreams() -> None:
    with pytest.raises(ConfigError, match=r"^upstreams must be a tuple of Upstream, got \('openai',\)$"):
        Settings(("openai",))  # type: ignore[arg-type]


EVERYTHING = """
listen = "0.0.0.0:9999"
token = "env:TOKEN"
admin_token = "env:ADMIN_TOKEN"
store = "redis://127.0.0.1/0"
recall = true
dry_run = true
body_limit = 1000
only_if_it_pays = true
log_text = true
refuse_websockets = true
otel = true
grace = 5
tls_cert = "cert.pem"
tls_key = "key.pem"

[upstreams.anthropic]

[upstreams.gate]
url = "https://gate.example/llm/v1"
key = "env:GATE"
budget = 30000

[callers.alice]
token = "env:ALICE"
budget = 10000

[budgets]
"gpt-5*" = 40000

[compress]
draft = "openai:gpt-4.1-mini"
budget = 20000
rollouts = 5
threshold = 0.4
optimistic = true
target = 0.6
whole_steps = true
deadline = 10
observations = "never"
"""


def read(tmp_path: Path, text: str) -> File:
    file = tmp_path / "focusctx.toml"
    file.write_text(text)
    return File.read(file)


def test_a_file_with_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    monkeypatch.setenv("ADMIN_TOKEN", TOKEN[::-1])
    monkeypatch.setenv("GATE", "sk-gate")
    monkeypatch.setenv("ALICE", f"{TOKEN} of alice")
    file = read(tmp_path, EVERYTHING)
    settings = Settings(**file.serve)
    assert settings == Settings(
        (
            Upstream.named("anthropic"),
            Upstream("gate", "https://gate.example/llm", "sk-gate", budget=30000),
        ),
        host="0.0.0.0",
        port=9999,
        token=TOKEN,
        admin_token=TOKEN[::-1],
        store="redis://127.0.0.1/0",
        recall=True,
        dry_run=True,
        body_limit=1000,
        only_if_it_pays=True,
        log_text=True,
        refuse_websockets=True,
        otel=True,
        grace=5,
        tls_cert="cert.pem",
        tls_key="key.pem",
        callers=(NamedCaller("alice", f"{TOKEN} of alice", 10_000),),
        model_budgets=(ModelBudget("gpt-5*", 40_000),),
    )
    assert {field.name for field in fields(Settings) if getattr(settings, field.name) == field.default} == set()
    assert set(file.compress) == set(DEFAULTS)
    assert file.compress["draft"] == "openai:gpt-4.1-mini"


def test_an_empty_file(tmp_path: Path) -> None:
    assert read(tmp_path, "") == File()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("listen = ", "Invalid value"),
        ("lisen = 'x'", "unknown lisen; known: admin_token, body_limit, budgets, callers, compress"),
        ("listen = 8400", "listen must be a text"),
        ("listen = 'x:y'", "HOST:PORT"),
        ("token = 'in the open'", "env:NAME"),
        ("token = 'env:NOT_SET'", "NOT_SET is not set"),
        ("token = 5", "token must be a text"),
        ("admin_token = 'in the open'", "env:NAME"),
        ("recall = 'yes'", "recall must be true or false"),
        ("recall = 1", "recall must be true or false"),
        ("body_limit = 1.5", "body_limit must be a whole number"),
        ("body_limit = true", "body_limit must be a whole number"),
        ("grace = 'long'", "grace must be a number"),
        ("upstreams = 'openai'", "upstreams must be a table"),
        ("upstreams = ['openai']", "upstreams must be a table"),
        ("compress = 3", "compress must be a table"),
        ("[upstreams]\nopenai = 'x'", r"\[upstreams.openai\] must be a table"),
        ("[upstreams]\nopenai = true", r"\[upstreams.openai\] must be a table"),
        ("[upstreams.mine]", "unknown upstream"),
        ("[upstreams.mine]\nurl = 5", r"\[upstreams.mine\] url must be a text"),
        ("[upstreams.mine]\nurl = 'x'", "its URL must have the form"),
        ("[upstreams.mine]\nhost = 'x'", r"\[upstreams.mine\] unknown host; known: budget, key, url"),
        ("[upstreams.openai]\nkey = 'sk-in-the-open'", "env:NAME"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path))
    assert "in-the-open" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "focusctx.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="decode"):
        File.read(file)


def test_where_decisions_last_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    upstreams = (Upstream.named("openai"),)
    assert Settings(upstreams).store_url == f"sqlite:///{tmp_path}/focusctx/proxy.db"
    assert (tmp_path / "focusctx").stat().st_mode & 0o777 == 0o700
    assert Settings(upstreams, dry_run=True).store_url == "memory"
    assert Settings(upstreams, store="memory").store_url == "memory"
