"""The faults of a server, as both HTTP drafts see them."""

import asyncio
import socket
import time
from email.utils import formatdate

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from focusctx.drafts import AnthropicDraft, OpenAICompatibleDraft
from focusctx.drafts.http import retry_after
from focusctx.errors import ConfigError, DraftError, DraftRefused, DraftTimeout, DraftUnavailable

KEY = "sk-very-secret-key-123456"
CHAT = {"choices": [{"message": {"role": "assistant", "content": "plan"}, "finish_reason": "stop"}]}
MESSAGE = {"content": [{"type": "text", "text": "plan"}], "stop_reason": "end_turn"}
BOTH = pytest.mark.parametrize(("make", "good"), [(OpenAICompatibleDraft, CHAT), (AnthropicDraft, MESSAGE)])


def status(code, **headers):
    error = {"error": {"message": f"it is a {code}", "type": "some_error"}}
    return web.json_response(error, status=code, headers={k.replace("_", "-"): v for k, v in headers.items()})


@BOTH
@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 529])
async def test_passing_failures_are_tried_again(make, good, code, serve, prompt, collect, impatient):
    server = await serve(lambda body, number: status(code) if number < 2 else good)
    replies, error = await collect(impatient(make("m", base_url=server.url, api_key=KEY)), prompt, 1)
    assert error is None
    assert [reply.text for reply in replies] == ["plan"]
    assert len(server.bodies) == 3


@BOTH
async def test_what_does_not_pass_is_unavailable(make, good, serve, prompt, collect, impatient):
    server = await serve(lambda body: status(500))
    replies, error = await collect(impatient(make("m", base_url=server.url)), prompt, 1)
    assert replies == []
    assert type(error) is DraftUnavailable
    assert "answered 500: it is a 500 (tried 3 times)" in str(error)
    assert len(server.bodies) == 3


@BOTH
@pytest.mark.parametrize("code", [307, 400, 401, 403, 404, 413, 422])
async def test_refusals_are_not_tried_again(make, good, code, serve, prompt, collect):
    server = await serve(lambda body: status(code, Location="/elsewhere"))
    _, error = await collect(make("m", base_url=server.url, retries=5), prompt, 1)
    assert isinstance(error, DraftRefused)
    assert f"answered {code}: it is a {code}" in str(error)
    assert len(server.bodies) == 1


async def test_an_empty_account_is_a_refusal_although_the_server_says_busy(serve, prompt, collect):
    empty = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    server = await serve(lambda body: web.json_response(empty, status=429))
    _, error = await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 1)
    assert isinstance(error, DraftRefused)
    assert len(server.bodies) == 1


@BOTH
async def test_the_key_stands_in_no_error(make, good, serve, prompt, collect):
    def echo(body, number, request):
        return web.json_response({"error": {"message": f"bad: {dict(request.headers)}"}}, status=401)

    server = await serve(echo)
    _, error = await collect(make("m", base_url=server.url, api_key=KEY), prompt, 1)
    assert isinstance(error, DraftRefused)
    assert "***" in str(error)
    chain = [error, error.__cause__, error.__context__]
    assert not any(KEY in f"{link!s} {link!r}" for link in chain)


@BOTH
async def test_the_key_stands_in_no_error_about_an_answer(make, good, serve, prompt, collect):
    server = await serve(lambda body: {"error": f"bad key {KEY}"})
    draft = make("m", base_url=server.url, api_key=KEY)
    _, error = await collect(draft, prompt, 1)
    assert "bad key ***" in str(error)
    assert KEY not in repr(draft.endpoint)


async def test_a_header_of_the_users_own_stands_in_no_error(serve, prompt, collect):
    def echo(body, number, request):
        return web.json_response({"error": request.headers["X-Gateway"]}, status=403)

    server = await serve(echo)
    draft = OpenAICompatibleDraft("m", base_url=server.url, headers={"X-Gateway": "gateway-secret"})
    _, error = await collect(draft, prompt, 1)
    assert "gateway-secret" not in str(error)


async def test_a_long_complaint_is_cut(serve, prompt, collect):
    server = await serve(lambda body: web.Response(status=403, text="x" * 5000))
    _, error = await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 1)
    assert len(str(error)) == 300


async def test_an_error_page_becomes_one_line(serve, prompt, collect, impatient):
    page = "<html>\n  <body>\n\n <h1>Bad gateway</h1>\n</html>"
    server = await serve(lambda body: web.Response(status=502, text=page, content_type="text/html"))
    _, error = await collect(impatient(OpenAICompatibleDraft("m", base_url=server.url)), prompt, 1)
    assert type(error) is DraftUnavailable
    assert "answered 502: <html> <body> <h1>Bad gateway</h1> </html>" in str(error)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error": "model not found"}', "model not found"),
        (b'{"message": "top level"}', "top level"),
        (b'{"detail": [{"loc": ["body"], "msg": "wrong"}]}', '"msg": "wrong"'),
        (b'["odd"]', "odd"),
        (b"", "an empty body"),
        (b"\xff\xfe", "\ufffd"),
    ],
)
async def test_complaints_of_every_shape(body, text, serve, prompt, collect):
    server = await serve(lambda _: web.Response(status=404, body=body))
    _, error = await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 1)
    assert isinstance(error, DraftRefused)
    assert text in str(error)


@BOTH
@pytest.mark.parametrize("body", [b'{"choices": [{"mess', b"<html>", b"", b"[1]", b"3", b"[" * 100_000])
async def test_an_answer_that_is_no_json_object(make, good, body, serve, prompt, collect):
    server = await serve(lambda _: web.Response(body=body, content_type="application/json"))
    _, error = await collect(make("m", base_url=server.url), prompt, 1)
    assert type(error) is DraftUnavailable
    assert "sent an answer that is not " in str(error)


@BOTH
async def test_nobody_listens(make, good, prompt, collect, impatient):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _, error = await collect(impatient(make("m", base_url=f"http://127.0.0.1:{port}")), prompt, 1)
    assert type(error) is DraftUnavailable
    assert f"no answer from 127.0.0.1:{port}" in str(error)
    assert "tried 3 times" in str(error)


async def cut_off(request):
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"choices": [')
    request.transport.abort()
    return response


@BOTH
async def test_a_connection_lost_in_the_middle_is_tried_again(make, good, serve, prompt, collect, impatient):
    server = await serve(lambda body, number, request: cut_off(request) if number == 0 else good)
    replies, error = await collect(impatient(make("m", base_url=server.url)), prompt, 1)
    assert error is None
    assert replies[0].text == "plan"
    assert len(server.bodies) == 2


@BOTH
async def test_a_slow_server_times_out_and_is_not_asked_again(make, good, serve, prompt, collect):
    async def sleep(body):
        await asyncio.sleep(30)

    server = await serve(sleep)
    _, error = await collect(make("m", base_url=server.url, timeout=0.1), prompt, 2)
    assert isinstance(error, DraftTimeout)
    assert "gave no answer within 0.1 s, the `timeout` given to this draft" in str(error)
    assert asyncio.all_tasks() == {asyncio.current_task()} | server_tasks()


def server_tasks():
    """The fake server lives in the same loop; its connection tasks are not ours."""
    return {task for task in asyncio.all_tasks() if "RequestHandler" in task.get_coro().__qualname__}


async def test_retry_after_is_honoured(serve, prompt, collect, impatient):
    server = await serve(lambda body, number: status(429, Retry_After="0.15") if number == 0 else CHAT)
    begun = time.perf_counter()
    _, error = await collect(impatient(OpenAICompatibleDraft("m", base_url=server.url)), prompt, 1)
    assert error is None
    assert time.perf_counter() - begun >= 0.15


@pytest.mark.parametrize("value", ["3600", formatdate(time.time() + 3600, usegmt=True)], ids=["seconds", "date"])
async def test_retry_after_is_capped(value, serve, prompt, collect, monkeypatch):
    monkeypatch.setattr("focusctx.drafts.http._LONGEST_WAIT", 0.1)
    server = await serve(lambda body, number: status(503, Retry_After=value) if number == 0 else CHAT)
    begun = time.perf_counter()
    _, error = await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 1)
    assert error is None
    assert 0.1 <= time.perf_counter() - begun < 5


@given(st.text() | st.floats().map(str) | st.datetimes().map(str))
def test_retry_after_takes_any_text(value):
    seconds = retry_after(value)
    assert seconds is None or 0 <= seconds < float("inf")


async def test_the_proxy_of_the_environment_is_used_and_netrc_is_not(serve, prompt, collect, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password other\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    proxy = await serve(lambda body: CHAT)
    monkeypatch.setenv("http_proxy", proxy.url)
    draft = OpenAICompatibleDraft("m", base_url="http://models.example/v1", api_key=KEY)
    replies, error = await collect(draft, prompt, 1)
    assert error is None
    assert replies[0].text == "plan"
    assert proxy.requests[0].headers["Host"] == "models.example"
    assert proxy.requests[0].headers["Authorization"] == f"Bearer {KEY}"


async def test_no_proxy_is_honoured(serve, prompt, collect, monkeypatch):
    server = await serve(lambda body: CHAT)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert (await collect(OpenAICompatibleDraft("m", base_url=server.url), prompt, 1))[1] is None


@BOTH
async def test_stopping_early_cancels_what_is_under_way(make, good, serve, prompt):
    async def first_only(body, number):
        if number == 0:
            # The first answers when all have come in, so that there is something to cancel.
            while len(server.bodies) < 3:
                await asyncio.sleep(0.005)
            return good
        return await asyncio.sleep(30)

    server = await serve(first_only)
    extra = {"sends_n": False} if make is OpenAICompatibleDraft else {}
    sample = make("m", base_url=server.url, **extra).sample(prompt, 3)
    assert (await anext(sample)).text == "plan"
    await sample.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()} | server_tasks()
    async with asyncio.timeout(5):
        while server.open:
            await asyncio.sleep(0.005)
    assert server.cancelled == 2


@BOTH
async def test_a_deadline_cancels_what_is_under_way(make, good, serve, prompt):
    async def sleep(body):
        await asyncio.sleep(30)

    server = await serve(sleep)
    sample = make("m", base_url=server.url).sample(prompt, 3)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(sample), 0.2)
    await sample.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()} | server_tasks()
    async with asyncio.timeout(5):
        while server.open:
            await asyncio.sleep(0.005)
    assert server.cancelled == len(server.bodies) > 0


@BOTH
async def test_one_draft_serves_several_loops(make, good, serve, prompt, collect):
    server = await serve(lambda body: good)
    draft = make("m", base_url=server.url)
    for _ in range(2):
        replies, error = await asyncio.to_thread(asyncio.run, collect(draft, prompt, 2))
        assert error is None
        assert len(replies) == 2


@BOTH
@pytest.mark.parametrize(
    "url",
    ["models.example/v1", "ftp://models.example", "http://", "http://[::1", "http://a:b", "http://me:pw@host"],
)
def test_base_urls_that_are_none(make, good, url):
    with pytest.raises(ConfigError) as error:
        make("m", base_url=url)
    assert "pw" not in str(error.value)


@BOTH
@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"retries": -1}])
def test_settings_out_of_range(make, good, wrong):
    with pytest.raises(ConfigError):
        make("m", base_url="http://127.0.0.1", **wrong)


@BOTH
async def test_every_failure_is_a_draft_error(make, good, serve, prompt, collect, impatient):
    """The map from foreign errors to ours is complete: every kind of status, any JSON."""
    statuses = [*range(200, 600, 8), 401, 403, 404, 409, 413, 422, 425, 429, 500, 502, 503, 529]
    odd = [
        None,
        {},
        {"choices": {}},
        {"choices": [None]},
        {"choices": [{}]},
        {"content": None},
        {"content": "x"},
    ]

    def behave(body, number):
        return web.json_response(odd[number % len(odd)], status=statuses[number])

    server = await serve(behave)
    draft = impatient(make("m", base_url=server.url, retries=0))
    for _ in statuses:
        replies, error = await collect(draft, prompt, 1)
        assert replies or isinstance(error, DraftError)
