"""Show what is left out of a session now: list, search in the originals and restore, also after a restart."""

import json
from pathlib import Path
from typing import Any

import pytest

from focusctx.errors import StoreError
from helpers import task


async def got(stage: Any, path: str, status: int = 200) -> Any:
    (live,) = stage.proxy.conversations
    async with stage.http.get(f"{stage.url}/ui/api/sessions/{live.id}{path}") as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def restored(stage: Any, span: int, status: int = 200, **more: Any) -> None:
    (live,) = stage.proxy.conversations
    asked = {"span": span, **more}
    async with stage.http.post(f"{stage.url}/ui/api/sessions/{live.id}/restore", json=asked) as answer:
        assert answer.status == status, await answer.text()


def seen(blocks: list[Any], name: str) -> str:
    (stretches,) = [block["stretches"] for block in blocks if block["name"] == name]
    return "".join(mark or words for words, mark in stretches)


async def test_every_step_that_is_gone_or_shortened_is_listed(staging):
    async with staging(levels=True) as stage:
        assert stage.proxy is not None
        await stage.agent().step(12)
        (live,) = stage.proxy.conversations
        now = live.conversation.left_out
        told = await got(stage, "/left-out")
        assert [step["index"] for step in told["steps"]] == sorted(now.spans)
        assert (told["total"], told["missing"], told["restored"]) == (len(now.spans), [], {})
        counted = (await got(stage, ""))["left_out"]
        sent = [str(message["content"]) for message in json.loads(stage.went_up)["messages"]]
        for step in told["steps"]:
            counted[step["fate"]] -= 1
            blocks = await got(stage, f"/left-out/{step['index']}")
            assert (step["fate"] == "dropped") == (step["index"] in now.gone)
            if step["fate"] == "dropped":
                assert step["left"] == 0
                assert not any(mark for block in blocks for _, mark in block["stretches"])
            else:
                assert 0 < step["left"] < step["tokens"]
                assert seen(blocks, "observation") in sent
            assert step["reason"]
            assert step["hit"] is None
        assert set(counted.values()) == {0}
        await got(stage, "/left-out/12", 404)


async def test_the_search_reads_the_full_original(staging):
    async with staging(levels=True) as stage:
        await stage.agent().step(12)
        lines = task.run_tool("read_page", {"page": 4}).splitlines()
        number = lines[3].split("lot ")[1].split(":")[0]
        assert number not in stage.went_up
        told = await got(stage, f"/left-out?query={number.lower()}%20UNITS")
        (step,) = told["steps"]
        assert step["index"] == 4
        assert told["total"] > 1
        assert step["hit"]["words"] == number
        assert not step["hit"]["seen"]
        assert step["hit"]["passage"].startswith("s_4.")
        for query, found in (("s_4", [4]), ("S_4.2", [4]), ("nothing+of+the+kind", []), ("s_99", [])):
            told = await got(stage, f"/left-out?query={query}")
            assert [step["index"] for step in told["steps"]] == found


async def test_one_passage_comes_back_alone(staging):
    async with staging(levels=True) as stage:
        agent = stage.agent()
        await agent.step(12)
        lines = task.run_tool("read_page", {"page": 4}).splitlines()
        number = lines[3].split("lot ")[1].split(":")[0]
        (step,) = (await got(stage, f"/left-out?query={number}"))["steps"]
        passage = int(step["hit"]["passage"].removeprefix("s_4."))
        for wrong in ("2", True, 0, -1, 1.5):
            await restored(stage, 4, 400, passage=wrong)
        await restored(stage, 0, 400, passage=1)
        await restored(stage, 99, 409, passage=1)
        await restored(stage, 4, 409, passage=999)
        await restored(stage, 4, passage=passage)
        await agent.step()
        assert lines[3] in stage.went_up
        assert "\\n".join(lines) not in stage.went_up, "only the passage is back"
        (step,) = (await got(stage, f"/left-out?query={number}"))["steps"]
        assert step["hit"]["seen"]


async def test_whole_steps_that_were_dropped_are_listed_too(staging):
    async with staging() as stage:
        await stage.agent().step(12)
        told = await got(stage, "/left-out?query=Balance")
        assert {step["fate"] for step in told["steps"]} == {"dropped"}
        assert "Balance" in told["steps"][0]["hit"]["words"]


@pytest.mark.parametrize("levels", [True, False])
async def test_after_a_restart_the_list_and_the_way_back_are_still_there(staging, tmp_path: Path, levels: bool):
    store = f"sqlite:///{tmp_path / 'focus.db'}"
    async with staging(levels=levels, store=store) as stage:
        agent = stage.agent()
        await agent.step(12)
        before = await got(stage, "/left-out")
        span = before["steps"][-1]["index"]
        whole = task.run_tool("read_page", {"page": span})
        assert json.dumps(whole)[1:-1] not in stage.went_up
    async with staging(levels=levels, store=store) as stage:
        agent.url, agent.http = stage.url, stage.http
        await agent.step()
        after = await got(stage, "/left-out")
        assert (await got(stage, ""))["log"] == [] or not levels
        assert {step["index"] for step in after["steps"]} >= {step["index"] for step in before["steps"]}
        assert span in [step["index"] for step in (await got(stage, "/left-out?query=Balance"))["steps"]]
        await restored(stage, span)
        await agent.step()
        assert json.dumps(whole)[1:-1] in stage.went_up
        assert span not in [step["index"] for step in (await got(stage, "/left-out"))["steps"]]


async def test_a_session_that_sends_all_leaves_nothing_out(staging):
    async with staging(levels=True) as stage:
        await stage.agent().step(2)
        assert await got(stage, "/left-out") == {"steps": [], "total": 0, "missing": [], "restored": {}}
        assert (await got(stage, ""))["left_out"] == {"excerpt": 0, "record": 0, "dropped": 0}


async def test_a_store_in_trouble_is_told(staging, monkeypatch):
    async with staging(levels=True) as stage:
        await stage.agent().step(12)

        def broken(*_: object) -> None:
            raise StoreError("the disk is gone")

        monkeypatch.setattr(stage.proxy.store, "archived", broken)
        assert "the disk is gone" in (await got(stage, "/left-out", 503))["error"]["message"]


async def test_steps_without_an_original_are_named(staging, monkeypatch):
    async with staging(levels=True) as stage:
        await stage.agent().step(12)
        (live,) = stage.proxy.conversations
        monkeypatch.setattr(stage.proxy.store, "archived", lambda *_: [])
        told = await got(stage, "/left-out")
        assert told["steps"] == []
        assert told["missing"] == sorted(live.conversation.left_out.spans)
