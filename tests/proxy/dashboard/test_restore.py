"""Restoring a span: it is in the agent's next request, stays, and cannot be asked for twice."""

from typing import Any

import pytest

from focusctx.errors import StoreError

PAGE_5 = "Page 5 of 30. Balance"


async def compressed(stage: Any, steps: int = 12) -> tuple[Any, str]:
    """An agent whose history lost its fifth step, and the path of its session."""
    agent = stage.agent()
    await agent.step(steps)
    assert PAGE_5 not in stage.went_up
    (live,) = stage.proxy.conversations
    return agent, f"{stage.url}/ui/api/sessions/{live.id}"


async def asked(stage: Any, path: str, status: int, body: Any = None, **more: Any) -> Any:
    async with stage.http.post(f"{path}/restore", **({"json": body} if body is not None else {}), **more) as answer:
        told = await answer.json()
        assert answer.status == status, told
        return told


async def log_of(stage: Any, path: str) -> list[dict[str, Any]]:
    async with stage.http.get(path) as answer:
        return list((await answer.json())["log"])


async def event_that_dropped(stage: Any, path: str, span: int) -> Any:
    for number in range(1, len(await log_of(stage, path)) + 1):
        async with stage.http.get(f"{path}/events/{number}") as answer:
            event = await answer.json()
        spans = event["result"]["spans"] if event["result"] else []
        if {"index": span, "fate": "dropped"}.items() <= next((it for it in spans if it["index"] == span), {}).items():
            return event
    raise AssertionError(f"no event dropped s_{span}")


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_restored_span_goes_up_with_the_next_request_and_stays(staging, store, tmp_path):
    async with staging(store=store if store == "memory" else f"sqlite:///{tmp_path / 'focus.db'}") as stage:
        agent, path = await compressed(stage)
        told = await asked(stage, path, 200, {"span": 5})
        assert list(told["restored"]) == ["5"]
        for _ in range(15):
            await agent.step()
            assert PAGE_5 in stage.went_up
        assert stage.provider.rejected == []
        causes = [entry["cause"] for entry in await log_of(stage, path) if entry["happened"]]
        assert causes[0] == "compressed"
        assert "restored" in causes
        assert "compressed" in causes[causes.index("restored") :], "others still go"
        assert list((await event_that_dropped(stage, path, 5))["restored"]) == ["5"]


async def test_an_event_shows_what_came_back_by_other_ways(staging):
    async with staging() as stage:
        agent, path = await compressed(stage)
        (live,) = stage.proxy.conversations
        assert live.session.restore(5), "the model recalled it, or another proxy was asked"
        assert (await event_that_dropped(stage, path, 5))["restored"] == {}
        await agent.step(12)
        assert (await event_that_dropped(stage, path, 5))["restored"] == {"5": 0.0}


async def test_it_cannot_be_restored_twice_nor_what_was_never_dropped(staging):
    async with staging() as stage:
        agent, path = await compressed(stage)
        await asked(stage, path, 200, {"span": 5})
        assert "already" in (await asked(stage, path, 409, {"span": 5}))["error"]["message"]
        for span in (2, 0, -1, 999):
            told = await asked(stage, path, 409, {"span": span})
            assert told["error"]["message"] == f"focusctx: s_{span} is not left out any more"
        await agent.step()
        await asked(stage, path, 409, {"span": 5})


async def test_a_store_in_trouble_is_told(staging, monkeypatch):
    async with staging() as stage:
        _, path = await compressed(stage)

        def broken(*_: object) -> None:
            raise StoreError("no space left")

        monkeypatch.setattr(stage.proxy.store, "restore", broken)
        assert "no space left" in (await asked(stage, path, 503, {"span": 5}))["error"]["message"]
        monkeypatch.undo()
        await asked(stage, path, 200, {"span": 5})


async def test_only_json_of_a_small_size_is_read(staging):
    async with staging() as stage:
        _, path = await compressed(stage)
        await asked(stage, path, 415, data={"span": "5"})
        await asked(stage, path, 415, data=b'{"span": 5}', headers={"content-type": "text/plain"})
        json_type = {"content-type": "application/json"}
        await asked(stage, path, 400, data=b"{", headers=json_type)
        for body in ([5], {"span": "5"}, {"span": True}, {"span": 5.0}, {}):
            await asked(stage, path, 400, body)
        await asked(stage, path, 413, data=b" " * 5000 + b'{"span": 5}', headers=json_type)
        await asked(stage, f"{stage.url}/ui/api/sessions/0123", 404, {"span": 5})
