"""Callers with tokens of their own, and budgets by caller, model and upstream."""

import json
from pathlib import Path
from typing import Any

import pytest

from focusctx import Focus
from focusctx.errors import ConfigError
from focusctx.proxy.access import NamedCaller
from focusctx.proxy.settings import File, ModelBudget, Settings
from focusctx.proxy.upstream import Upstream
from helpers.histories import run
from helpers.raw_http import Head, exchange, proxy, raw_upstream
from helpers.served import CHAT

pytestmark = pytest.mark.usefixtures("bounded")

ALICE, BOB, ALL, ADMIN = (f"{name}'s token of more than 16 characters" for name in ("alice", "bob", "all", "admin"))
UP = (Upstream("one", "http://127.0.0.1:1"),)


def history(model: str = "m", steps: int = 40) -> bytes:
    return json.dumps({"model": model, "messages": run(steps)}).encode()


def kept(got: Head) -> int:
    return len(json.loads(got.body)["messages"])  # type: ignore[attr-defined]


async def asked(url: str, path: str, token: str) -> Any:
    return json.loads((await exchange(url, "GET", path, [("x-focusctx-token", token)])).body)


async def test_each_caller_has_a_token_a_budget_and_totals(nothing_left: None) -> None:
    callers = (NamedCaller("alice", ALICE, 60), NamedCaller("bob", BOB))
    async with (
        raw_upstream() as up,
        proxy(up.url, callers=callers, admin_token=ADMIN, focus=Focus("offline", budget=5000)) as (_, url),
    ):
        for token in ("", "wrong", ADMIN):
            refused = await exchange(url, "POST", CHAT, [("x-focusctx-token", token)], history())
            assert refused.status == 403
        assert up.got == []
        for token in (ALICE, BOB, BOB):
            answer = await exchange(url, "POST", CHAT, [("x-focusctx-token", token)], history())
            assert answer.status == 200
        await exchange(url, "GET", "/v1/models", [("x-focusctx-token", BOB)])
        assert kept(up.got[0]) < kept(up.got[1]) == kept(up.got[2]) == len(run(40))
        assert all("x-focusctx-token" not in got for got in up.got)
        shown = await asked(url, "/ui/api/sessions", ADMIN)
        metrics = (await exchange(url, "GET", "/metrics", [("x-focusctx-token", ADMIN)])).body.decode()
        assert (await exchange(url, "GET", "/metrics", [("x-focusctx-token", ALICE)])).status == 403
        alice, bob = shown["callers"]
        (of_alice,) = [line for line in shown["sessions"] if line["caller"] == "alice"]
        whole = await asked(url, f"/ui/api/sessions/{of_alice['id']}", ADMIN)
    assert (alice["name"], alice["budget"], alice["requests"], alice["events"]) == ("alice", 60, 1, 1)
    assert alice["tokens_saved"] == alice["received"] - alice["sent"] > 0
    assert (bob["name"], bob["budget"], bob["requests"], bob["events"], bob["tokens_saved"]) == ("bob", None, 3, 0, 0)
    assert whole["caller"] == "alice"
    assert whole["budget"] == 60
    assert 'focusctx_caller_requests_total{caller="alice"} 1.0' in metrics
    assert 'focusctx_caller_requests_total{caller="bob"} 3.0' in metrics
    assert 'focusctx_caller_events_total{caller="alice"} 1.0' in metrics
    assert f'focusctx_caller_tokens_total{{caller="alice",side="sent"}} {float(alice["sent"])}' in metrics
    assert 'focusctx_caller_net_saved_usd{caller="alice"}' in metrics
    for token in (ALICE, BOB, ADMIN):
        assert token not in metrics + json.dumps(shown) + json.dumps(whole)


async def test_callers_share_nothing_though_the_proxy_holds_the_key(nothing_left: None) -> None:
    """Both send the same history and no key of their own: neither follows the other's decisions."""
    callers = (NamedCaller("alice", ALICE), NamedCaller("bob", BOB))
    async with raw_upstream() as up:
        upstream = Upstream("one", up.url, "sk-of-the-proxy")
        async with proxy(upstream, callers=callers, focus=Focus("offline", budget=60)) as (served, url):
            for token in (ALICE, BOB):
                await exchange(url, "POST", CHAT, [("x-focusctx-token", token)], history())
            tenants = {live.key.tenant for live in served.conversations}
            causes = [event.cause for live in served.conversations for event in live.events]
    assert len(tenants) == 2
    assert causes == ["compressed", "compressed"], "and not `followed`"
    assert {got["authorization"] for got in up.got} == {"Bearer sk-of-the-proxy"}


async def test_the_shared_token_goes_on_beside_them(nothing_left: None) -> None:
    settings = {"callers": (NamedCaller("alice", ALICE),), "token": ALL, "admin_token": ADMIN}
    async with raw_upstream() as up, proxy(up.url, **settings) as (_, url):
        for token in (ALL, ALICE):
            assert (await exchange(url, "POST", CHAT, [("x-focusctx-token", token)], history())).status == 200
        (alice,) = (await asked(url, "/ui/api/sessions", ADMIN))["callers"]
        assert alice["requests"] == 1


async def test_the_token_may_stand_in_the_place_of_a_key(nothing_left: None) -> None:
    async with raw_upstream() as up:
        upstream = Upstream("one", up.url, "sk-of-the-proxy")
        async with proxy(upstream, callers=(NamedCaller("alice", ALICE),)) as (served, url):
            for name, value in (("authorization", f"Bearer {ALICE}"), ("x-api-key", ALICE)):
                assert (await exchange(url, "POST", CHAT, [(name, value)], history())).status == 200
            assert {live.key.caller for live in served.conversations} == {"alice"}
    assert ALICE not in str([got.headers for got in up.got])


async def test_the_dashboard_is_closed_without_an_admin_token(nothing_left: None) -> None:
    async with raw_upstream() as up, proxy(up.url, callers=(NamedCaller("alice", ALICE),)) as (_, url):
        assert (await exchange(url, "GET", "/ui/api/sessions", [("x-focusctx-token", ALICE)])).status == 403


async def test_budgets_by_model_and_upstream(nothing_left: None) -> None:
    """The caller's counts first, then the model's, then the upstream's, then the usual one."""
    async with raw_upstream() as up:
        upstreams = (Upstream("one", up.url), Upstream("two", up.url, budget=60))
        models = (ModelBudget("small-*", 60), ModelBudget("small-but-large", 1), ModelBudget("large", 5000))
        settings = {"callers": (NamedCaller("alice", ALICE, 60),), "token": ALL, "model_budgets": models}
        async with proxy(*upstreams, focus=Focus("offline", budget=5000), **settings) as (served, url):
            cases = [
                (CHAT, "other", ALL, 5000),
                (CHAT, "small-1", ALL, 60),
                (CHAT, "small-but-large", ALL, 60),
                (f"/two{CHAT}", "other", ALL, 60),
                (f"/two{CHAT}", "large", ALL, 5000),
                (CHAT, "large", ALICE, 60),
            ]
            for path, model, token, budget in cases:
                up.got.clear()
                await exchange(url, "POST", path, [("x-focusctx-token", token)], history(model))
                assert (kept(up.got[0]) < len(run(40))) == (budget == 60), (path, model)
                assert next(iter(served.conversations)).session.focus.config.budget == budget


# -------------------------------------------------------------------------------------------------------- in a file

FILE = """
[upstreams.one]
url = "http://127.0.0.1:1"
budget = 100

[budgets]
"gpt-5*" = 200
"claude-*" = 300

[callers.alice]
token = "env:ALICE"
budget = 400

[callers.bob]
token = "file:{path}"
"""


def test_a_file_with_callers_and_budgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bob").write_text(f"{BOB}\n")
    (tmp_path / "focusctx.toml").write_text(FILE.format(path=tmp_path / "bob"))
    monkeypatch.setenv("ALICE", ALICE)
    settings = Settings(**File.read(tmp_path / "focusctx.toml").serve)
    assert settings.callers == (NamedCaller("alice", ALICE, 400), NamedCaller("bob", BOB))
    assert settings.model_budgets == (ModelBudget("gpt-5*", 200), ModelBudget("claude-*", 300))
    assert settings.upstreams[0].budget == 100
    assert ALICE not in repr(settings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[callers.alice]\nbudget = 5", "must be a table with token"),
        ("callers = 5", "callers must be a table"),
        ('[callers.alice]\ntoken = "plain-text-token-in-a-file"', "env:NAME"),
        ('[callers.alice]\ntoken = "file:/no/such/file"', "/no/such/file: No such file"),
        ('[callers.alice]\ntoken = "env:ALICE"\nbudget = "much"', "budget must be a whole number"),
        ('[callers.alice]\ntoken = "env:ALICE"\nbudget = -1', "budget of alice must be 0 or more"),
        ('[callers.alice]\ntoken = "env:ALICE"\nname = "x"', "unknown name"),
        ('[callers."a b"]\ntoken = "env:ALICE"', "invalid name of a caller"),
        ('[callers.alice]\ntoken = "env:SHORT"', "shorter than 16"),
        ('[budgets]\n"gpt-5*" = "much"', "must be a whole number"),
        ('[budgets]\n"gpt-5*" = -1', "must be 0 or more"),
        ("[upstreams.openai]\nbudget = -1", "must be 0 or more"),
        ("[upstreams.openai]\nbudget = true", "must be a whole number"),
    ],
)
def test_what_is_wrong_in_a_file(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALICE", ALICE)
    monkeypatch.setenv("SHORT", "short")
    (tmp_path / "focusctx.toml").write_text(text)
    with pytest.raises(ConfigError, match=said) as error:
        File.read(tmp_path / "focusctx.toml")
    assert "plain-text-token" not in str(error.value)


def test_tokens_must_differ() -> None:
    alice = NamedCaller("alice", ALICE)
    with pytest.raises(ConfigError, match="two callers have the same token"):
        Settings(UP, callers=(alice, NamedCaller("bob", ALICE)))
    with pytest.raises(ConfigError, match="two callers have the same token"):
        Settings(UP, callers=(alice,), token=ALICE)
    with pytest.raises(ConfigError, match="every caller could open the dashboard"):
        Settings(UP, callers=(alice,), admin_token=ALICE)


def test_callers_alone_are_enough_to_listen_for_others() -> None:
    assert Settings(UP, host="0.0.0.0", callers=(NamedCaller("alice", ALICE),)).callers
    with pytest.raises(ConfigError, match="lets others in"):
        Settings(UP, host="0.0.0.0")
