"""Who gets to see the dashboard, and what goes with everything it sends."""

import json
import logging

import pytest

TOKEN = "a token of 16 and more; with = \"signs\", 'ä' and \\"
SECURE = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
PATHS = ["/ui", "/ui/", "/ui/page.js", "/ui/look.css", "/ui/icon.svg", "/ui/api/sessions", "/ui/api/nonsense"]


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_may_be_framed_cached_or_loaded_from_elsewhere(staging, path):
    async with staging() as stage, stage.http.get(f"{stage.url}{path}") as answer:
        assert {name: answer.headers[name] for name in SECURE} == SECURE
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert {sources for name, sources in policy.items() if name.endswith("-src")} == {"'none'", "'self'"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "path", ["/ui", "/ui/", "/ui/api/live/x", "/ui/v1/chat/completions", "/ui/nonsense", "/%75i/x"]
)
async def test_nothing_under_ui_is_ever_forwarded(staging, method, path):
    async with staging() as stage, stage.http.request(method, f"{stage.url}{path}", data=b"{}") as answer:
        shown = method == "GET" and path.rstrip("/") == "/ui"
        assert answer.status == (200 if shown else 404)
        assert "path" not in (json.loads(await answer.text() or "{}") if not shown else {}), "the provider's echo"


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"},
     {"Host": "evil.example"}, {"Host": "evil.example:8400"}],
)  # fmt: skip
async def test_other_sites_get_no_data_and_a_page_that_says_what_to_do(staging, headers):
    async with staging() as stage:
        await stage.agent().step(9)
        (live,) = stage.proxy.conversations
        for path in ("sessions", f"sessions/{live.id}", f"sessions/{live.id}/events/1", "live"):
            async with stage.http.get(f"{stage.url}/ui/api/{path}", headers=headers) as answer:
                assert answer.status == 403
                assert "access-control-allow-origin" not in answer.headers
        async with stage.http.post(
            f"{stage.url}/ui/api/sessions/{live.id}/restore", json={"span": 4}, headers=headers
        ) as answer:
            assert answer.status == 403
        async with stage.http.get(f"{stage.url}/ui", headers=headers) as answer:
            assert answer.status == 403
            text = await answer.text()
            assert answer.content_type == "text/html"
            assert "address" in text or "http://127.0.0.1" in text
            assert "<form" not in text


async def test_a_host_name_in_the_page_is_escaped(staging):
    async with (
        staging() as stage,
        stage.http.get(f"{stage.url}/ui", headers={"Host": "<img/src=x>.example"}) as answer,
    ):
        assert answer.status in (400, 403)
        assert "<img" not in await answer.text()


async def test_with_a_token_the_dashboard_opens_to_callers_who_show_it(staging, caplog):
    caplog.set_level(logging.DEBUG)
    async with staging(admin_token=TOKEN) as stage:
        async with stage.http.get(f"{stage.url}/ui") as answer:
            assert answer.status == 403
            assert '<form method="post" action="/ui/login">' in await answer.text()
        for path in ("/ui/api/sessions", "/ui/api/live", "/ui/page.js"):
            async with stage.http.get(f"{stage.url}{path}") as answer:
                assert answer.status == 403
        for path in ("/ui/look.css", "/ui/page.css", "/ui/icon.svg"):
            async with stage.http.get(f"{stage.url}{path}") as answer:
                assert answer.status == 200
        async with stage.http.get(f"{stage.url}/ui/api/sessions", headers={"x-focusctx-token": TOKEN}) as answer:
            assert answer.status == 200

        async with stage.http.post(f"{stage.url}/ui/login", data={"token": "a guess"}) as answer:
            assert answer.status == 403
            assert "not the admin token" in await answer.text()
            assert not answer.cookies
        shown = {"data": {"token": f" {TOKEN}"}, "allow_redirects": False}
        async with stage.http.post(
            f"{stage.url}/ui/login", headers={"Origin": "https://evil.example"}, **shown
        ) as answer:
            assert answer.status == 403
            assert not answer.cookies
        async with stage.http.post(f"{stage.url}/ui/login", **shown) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/ui")
            cookie = answer.cookies["focusctx_login"]
            assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/ui", True, "Strict")
            assert TOKEN not in cookie.value
            assert not cookie["secure"], "this is no TLS"
        forwarded = {"X-Forwarded-Proto": "https"}
        async with stage.http.post(f"{stage.url}/ui/login", headers=forwarded, **shown) as answer:
            assert answer.cookies["focusctx_login"]["secure"]
    assert TOKEN not in caplog.text
    assert "a guess" not in caplog.text


@pytest.mark.parametrize("token", [TOKEN, "0123456789abcdef", "+/=" * 8, "ключ от прокси 🗝", "spaces  within  it"])
async def test_any_token_opens_the_dashboard_until_somebody_logs_out(staging, token):
    async with staging(admin_token=token) as stage:
        login = {"data": {"token": token}, "allow_redirects": False}
        async with stage.http.post(f"{stage.url}/ui/login", **login) as answer:
            pair = answer.headers["Set-Cookie"].partition(";")[0]
        async with stage.http.get(f"{stage.url}/ui/api/sessions", headers={"Cookie": pair}) as answer:
            assert answer.status == 200
        async with stage.http.post(f"{stage.url}/ui/logout", headers={"Origin": "https://evil.example"}) as answer:
            assert answer.status == 403
        async with stage.http.post(f"{stage.url}/ui/logout", headers={"Cookie": pair}) as answer:
            assert answer.status == 204
            gone = answer.cookies["focusctx_login"]
            assert (gone.value, gone["path"], gone["max-age"]) == ("", "/ui", "0")
        async with stage.http.get(f"{stage.url}/ui/api/sessions", headers={"Cookie": pair}) as answer:
            assert answer.status == 403, "the cookie is worth nothing any more"


async def test_a_cookie_does_not_let_other_sites_in(staging):
    async with staging(admin_token=TOKEN) as stage:
        login = {"data": {"token": TOKEN}, "allow_redirects": False}
        async with stage.http.post(f"{stage.url}/ui/login", **login) as answer:
            pair = answer.headers["Set-Cookie"].partition(";")[0]
        for extra in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-site"}):
            async with stage.http.get(f"{stage.url}/ui/api/sessions", headers={"Cookie": pair, **extra}) as answer:
                assert answer.status == 403


async def test_a_login_is_a_small_form(staging):
    async with staging(admin_token=TOKEN) as stage:
        async with stage.http.post(f"{stage.url}/ui/login", json={"token": TOKEN}) as answer:
            assert answer.status == 415
        async with stage.http.post(f"{stage.url}/ui/login", data={"token": "x" * 10_000}) as answer:
            assert answer.status == 413
