"""Who may use the proxy, and what never leaves it: tokens, keys, and what the agent and its tools said."""

import json
import logging
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

from focusctx import Focus
from focusctx.errors import ConfigError
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream
from helpers.histories import run
from helpers.raw_http import Headers, Raw, Whole, connect, exchange, proxy, raw_upstream, request
from helpers.session_parts import Draft

pytestmark = pytest.mark.usefixtures("nothing_left")

TOKEN = "a token of more than 16 characters"
ADMIN = "another token, for the dashboard"
CHAT = "/v1/chat/completions"
ROUTES = [
    ("GET", "/v1/models"),
    ("POST", CHAT),
    ("POST", "/v1/messages"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/messages/count_tokens"),
    ("DELETE", "/v1/files/1"),
    ("OPTIONS", "/v1/models"),
    ("GET", "/up0/v1/models"),
    ("GET", "/metrics"),
    ("GET", "/ui/api/sessions"),
    ("POST", "/ui/api/sessions/x/restore"),
]


def history(word: str = "task") -> bytes:
    messages = run(12)
    messages[1] = {"role": "user", "content": f"Do the {word}."}
    return json.dumps({"model": "m", "messages": messages}).encode()


def eager() -> Focus:
    return Focus(Draft(), budget=50)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com", "", "127.0.0.1.evil.example"])
def test_it_listens_elsewhere_only_with_a_token(host: str) -> None:
    upstreams = (Upstream("a", "http://127.0.0.1:1"),)
    with pytest.raises(ConfigError, match="FOCUSCTX_TOKEN"):
        Settings(upstreams, host=host)
    with pytest.raises(ConfigError, match="16"):
        Settings(upstreams, host=host, token="short")
    with pytest.raises(ConfigError, match=r"FOCUSCTX_TOKEN|16"):
        Settings(upstreams, host=host, token="")
    assert Settings(upstreams, host=host, token=TOKEN).token == TOKEN


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_loopback_it_needs_none(host: str) -> None:
    assert Settings((Upstream("a", "http://127.0.0.1:1"),), host=host).token is None


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_the_token_is_asked_for_everywhere(method: str, path: str) -> None:
    tries: list[Headers] = [
        [],
        [("x-focusctx-token", "")],
        [("x-focusctx-token", TOKEN[:-1])],
        [("x-focusctx-token", TOKEN + "x")],
        [("x-focusctx-token", "caf\xe9 \xff")],
        [("authorization", "Bearer wrong")],
        [("authorization", f"Basic {TOKEN}")],
        [("cookie", "focusctx_login=wrong")],
    ]
    async with raw_upstream() as up, proxy(up.url, token=TOKEN) as (_, url):
        for headers in tries:
            got = await exchange(url, method, path, headers, b"{}" if method == "POST" else None)
            assert got.status in (401, 403), headers
            assert TOKEN not in got.body.decode()
        assert up.connections == 0


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if not route[1].startswith(("/ui", "/met"))])
async def test_with_the_token_everything_goes_through_and_the_token_stays(method: str, path: str) -> None:
    async with raw_upstream() as up, proxy(up.url, token=TOKEN) as (_, url):
        shown = [("x-focusctx-token", TOKEN), ("authorization", "Bearer sk-own"), ("cookie", "focusctx_login=x")]
        assert (await exchange(url, method, path, shown, b"{}" if method == "POST" else None)).status == 200
    (got,) = up.got
    assert got["authorization"] == "Bearer sk-own"
    assert TOKEN not in str(got.headers)
    assert "focusctx_login" not in str(got.headers)


async def test_admin_routes_take_the_token_in_any_form() -> None:
    async with raw_upstream() as up, proxy(up.url, token=TOKEN, admin_token=ADMIN) as (_, url):
        for shown in (("x-focusctx-token", ADMIN), ("authorization", f"Bearer {ADMIN}"), ("x-api-key", ADMIN)):
            assert (await exchange(url, "GET", "/metrics", [shown])).status == 200


async def test_health_needs_no_token_and_says_nothing() -> None:
    async with raw_upstream() as up, proxy(up.url, token=TOKEN) as (_, url):
        assert (await exchange(url, "GET", "/healthz")).body == b'{"status": "ok"}'
        ready = await exchange(url, "GET", "/readyz")
        assert ready.status == 200
        assert set(json.loads(ready.body)) == {"status", "store"}
    assert up.connections == 0


async def test_what_is_wrong_with_the_store_is_told_to_those_who_may_know() -> None:
    async with raw_upstream() as up, proxy(up.url, admin_token=ADMIN, store="redis://127.0.0.1:1/0") as (_, url):
        assert json.loads((await exchange(url, "GET", "/readyz")).body)["store"] == "in trouble"
        told = json.loads((await exchange(url, "GET", "/readyz", [("x-focusctx-token", ADMIN)])).body)
        assert "127.0.0.1:1" in told["store"]


async def test_one_s_own_cookies_go_on() -> None:
    async with raw_upstream() as up, proxy(up.url, token=TOKEN) as (_, url):
        cookies = [("cookie", "a=1; focusctx_login=x; b=2"), ("cookie", "c=3")]
        await exchange(url, "GET", "/v1/models", [("x-focusctx-token", TOKEN), *cookies])
    assert up.got[0]["cookie"] == "a=1; b=2; c=3"


# Keys that the proxy holds


@pytest.mark.parametrize(
    ("shown", "sent"),
    [
        ([], {"authorization": "Bearer sk-held"}),
        ([("authorization", "Bearer sk-callers")], {"authorization": "Bearer sk-held"}),
        ([("x-api-key", "sk-callers")], {"x-api-key": "sk-held"}),
        ([("api-key", "sk-callers")], {"api-key": "sk-held"}),
        ([("x-goog-api-key", "sk-callers")], {"x-goog-api-key": "sk-held"}),
        ([("anthropic-version", "1")], {"x-api-key": "sk-held"}),
        (
            [("authorization", "Bearer sk-callers"), ("x-api-key", "sk-callers"), ("x-api-key", "sk-callers")],
            {"authorization": "Bearer sk-held", "x-api-key": "sk-held"},
        ),
    ],
)
async def test_a_key_held_here_takes_the_place_of_the_caller_s(shown: Headers, sent: dict[str, str]) -> None:
    async with raw_upstream() as up, proxy(Upstream("one", up.url, key="sk-held")) as (_, url):
        await exchange(url, "GET", "/v1/models", shown)
    (got,) = up.got
    keys = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
    assert {name: got[name] for name in keys if name in got} == sent


@pytest.mark.parametrize("shown", [[], [("x-goog-api-key", "sk-callers")]])
async def test_a_key_held_here_takes_the_place_of_one_in_the_query(shown: Headers) -> None:
    async with raw_upstream() as up, proxy(Upstream("one", up.url, key="sk-held")) as (_, url):
        path = "/v1beta/models/gemini:streamGenerateContent"
        for query in ("?alt=sse&key=sk-callers", "?k%65y=sk-callers&alt=sse", "?access_token=sk-callers&alt=sse"):
            await exchange(url, "POST", f"{path}{query}", shown, b"{}")
        await exchange(url, "GET", "/v1beta/models?key=sk-callers", shown)
    assert [got.target for got in up.got] == [f"{path}?alt=sse"] * 3 + ["/v1beta/models"]
    assert {got["x-goog-api-key"] for got in up.got} == {"sk-held"}
    assert "sk-callers" not in str([got.headers for got in up.got])
    assert not any("authorization" in got for got in up.got)


async def test_without_a_key_held_here_the_query_goes_up_as_it_came() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        await exchange(url, "POST", "/v1beta/models/gemini:generateContent?key=sk-callers&a=%2F", [], b"{}")
    assert up.got[0].target == "/v1beta/models/gemini:generateContent?key=sk-callers&a=%2F"


async def test_where_a_key_is_held_the_token_may_stand_in_its_place() -> None:
    async with raw_upstream() as up, raw_upstream() as without:
        ups = (Upstream("one", up.url, key="sk-held"), Upstream("two", without.url))
        async with proxy(*ups, token=TOKEN) as (_, url):
            assert (await exchange(url, "GET", f"/v1beta/models?key={quote(TOKEN)}")).status == 200
            assert (await exchange(url, "GET", f"/two/v1beta/models?key={quote(TOKEN)}")).status == 403
            for shown in (("authorization", f"Bearer {TOKEN}"), ("x-api-key", TOKEN), ("x-goog-api-key", TOKEN)):
                assert (await exchange(url, "GET", "/v1/models", [shown])).status == 200
                assert (await exchange(url, "GET", "/two/v1/models", [shown])).status == 403
    sent = str([(got.target, got.headers) for got in up.got])
    assert TOKEN not in sent
    assert quote(TOKEN) not in sent
    assert without.connections == 0, "a token is never taken for a provider's key"


async def test_keys_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from focusctx.proxy.settings import File

    monkeypatch.setenv("ONE_KEY", "sk-held")
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    async with raw_upstream() as up:
        file = tmp_path / "focusctx.toml"
        file.write_text(f'token = "env:MY_TOKEN"\n[upstreams.one]\nurl = "{up.url}/v1"\nkey = "env:ONE_KEY"\n')
        serve = File.read(file).serve
        async with proxy(*serve["upstreams"], token=serve["token"]) as (_, url):
            assert (await exchange(url, "GET", "/v1/models", [("authorization", "Bearer x")])).status == 403
            assert (await exchange(url, "GET", "/v1/models", [("authorization", f"Bearer {TOKEN}")])).status == 200
    assert up.got[0]["authorization"] == "Bearer sk-held"


# Pages in browsers


ELSEWHERE: list[Headers] = [
    [("origin", "https://evil.example")],
    [("origin", "http://127.0.0.1:1")],
    [("origin", "http://localhost")],
    [("origin", "null")],
    [("origin", "http://[")],
    [("origin", "")],
    [("sec-fetch-site", "cross-site")],
    [("sec-fetch-site", "same-site")],
]


@pytest.mark.parametrize("headers", ELSEWHERE)
@pytest.mark.parametrize(("method", "path"), [("POST", CHAT), ("GET", "/v1/models"), ("GET", "/metrics")])
async def test_pages_from_elsewhere_are_refused(headers: Headers, method: str, path: str) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        got = await exchange(url, method, path, headers, b"{}" if method == "POST" else None)
        assert got.status == 403
        assert not [name for name, _ in got.headers if name.lower().startswith("access-control")]
        assert up.connections == 0


async def test_preflights_are_refused_and_answers_open_to_nobody() -> None:
    answer = b"HTTP/1.1 200 OK\r\naccess-control-allow-origin: *\r\ncontent-length: 0\r\n\r\n"
    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        asked = [("access-control-request-method", "POST"), ("origin", "https://evil.example")]
        for headers in (asked, asked[:1]):
            got = await exchange(url, "OPTIONS", CHAT, headers)
            assert got.status == 403
            assert up.connections == 0
        got = await exchange(url, "GET", "/v1/models")
        assert got.status == 200
        assert "access-control-allow-origin" not in got


@pytest.mark.parametrize(
    "headers",
    [[("sec-fetch-mode", "cors")], [("sec-fetch-site", "none")], [("referer", "https://docs.example")]],
)
async def test_what_programs_send_is_no_page(headers: Headers) -> None:
    """Node's `fetch`, which the JavaScript SDKs use, says `cors` of everything."""
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        assert (await exchange(url, "GET", "/v1/models", headers)).status == 200


async def as_host(url: str, host: str, method: str, path: str, *more: tuple[str, str]) -> int:
    head = request(method, path, list(more), b"{}" if method == "POST" else None)
    async with await connect(url) as line:
        await line.send(head.replace(b"Host: 127.0.0.1", f"Host: {host}".encode()))
        return (await line.whole()).status


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8400", "127.0.0.1.evil.example", "[", "[::2]:80", ""])
async def test_a_name_that_was_made_to_point_here_opens_nothing(host: str) -> None:
    """A page can have its own name lead to this machine, and is then no stranger to its browser any more."""
    origin = ("origin", f"http://{host}")
    async with raw_upstream() as up:
        async with proxy(Upstream("one", up.url, key="sk-held")) as (_, url):
            for method, path in (("GET", "/metrics"), ("GET", "/ui/api/sessions"), ("GET", "/v1/models")):
                assert await as_host(url, host, method, path) in (400, 403)
            assert await as_host(url, host, "POST", CHAT, origin) in (400, 403)
        async with proxy(up.url) as (_, url):
            assert await as_host(url, host, "POST", CHAT, origin) in (400, 403)
            assert await as_host(url, host, "GET", "/metrics") in (400, 403)
        assert up.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1:8400", "localhost:8400", "[::1]:8400", "localhost", "127.1.2.3"])
async def test_the_names_of_this_machine_do(host: str) -> None:
    async with raw_upstream() as up, proxy(Upstream("one", up.url, key="sk-held")) as (_, url):
        assert await as_host(url, host, "GET", "/metrics") == 200
        assert await as_host(url, host, "GET", "/v1/models") == 200
        assert await as_host(url, host, "POST", CHAT, ("origin", f"http://{host}")) == 200


# What is kept and what is told


SECRETS = ["sk-bearer-secret", "sk-ant-secret", "sk-azure-secret", "sk-goog-secret", "sk-query-secret"]


async def secretive(url: str, body: bytes) -> Whole:
    keys = [
        ("authorization", "Bearer sk-bearer-secret"),
        ("x-api-key", "sk-ant-secret"),
        ("api-key", "sk-azure-secret"),
    ]
    keys.append(("x-goog-api-key", "sk-goog-secret"))
    return await exchange(url, "POST", f"{CHAT}?key=sk-query-secret", keys, body)


async def _use_in_every_way(url: str, up: Raw) -> None:
    """Compress, fail, break, and be refused, with keys everywhere."""
    assert (await secretive(url, history("errand"))).status == 200
    assert len(json.loads(up.got[-1].body)["messages"]) < len(run(12))
    await secretive(url, b'{"messages": [1, "errand"]}')
    await secretive(url, b'{"messages": [{"role": "user", "content": 7e9999}, {"errand": 1}], "model": "errand"}')
    await exchange(url, "GET", "/v1/models?key=sk-query-secret", [("origin", "https://sk-query-secret")])
    async with await connect(url) as line:
        await line.send(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-bearer-secret\0errand\r\n\r\n")
        await line.ended()
    async with await connect(url) as line:
        await line.send(b"GET /?key=sk-query-secret\x80errand HTTP/1.1\r\nHost: x\r\n\r\n")
        await line.ended()


@pytest.mark.parametrize("with_text", [False, True])
async def test_no_key_is_stored_or_logged_and_no_words_unless_asked_for(
    with_text: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = tmp_path / "focus.db"
    async with raw_upstream() as up:
        async with proxy(up.url, focus=eager(), store=f"sqlite:///{store}", log_text=with_text) as (_, url):
            await _use_in_every_way(url, up)
            files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        async with proxy("http://127.0.0.1:1", focus=eager(), store=f"sqlite:///{store}") as (_, url):
            assert (await secretive(url, history("errand"))).status == 502
    files += b"".join(file.read_bytes() for file in tmp_path.iterdir())
    logged = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.records)
    assert b"thought 3" in files, "the archive holds what was dropped"
    for secret in SECRETS:
        assert secret.encode() not in files
        assert secret not in logged
    assert "errand" not in logged, "the task is never dropped, so it is never told"
    assert ("result 3" in logged) is with_text
    assert "→" in logged
    assert "not valid HTTP" in logged


async def test_redis_holds_no_key_and_no_name_either(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        async with raw_upstream() as up, proxy(up.url, focus=eager(), store=redis_url) as (_, url):
            await secretive(url, history("errand"))
        held = b""
        for key in client.scan_iter():
            kind = client.type(key)
            held += key + (str(client.hgetall(key)).encode() if kind == b"hash" else client.get(key) or b"")
    assert b"thought 3" in held
    for secret in SECRETS:
        assert secret.encode() not in held


async def test_every_event_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "focusctx.proxy")
    async with raw_upstream() as up, proxy(up.url, focus=eager()) as (_, url):
        for word in ("first", "second"):
            await exchange(url, "POST", CHAT, [], history(word))
        await exchange(url, "GET", "/v1/models")
    lines = [record.getMessage() for record in caplog.records if record.name == "focusctx.proxy"]
    assert len(lines) == 2
    assert all("tokens, over budget (compressed)" in line for line in lines)
    assert len({line.split(",")[0] for line in lines}) == 2, "each names its session"
