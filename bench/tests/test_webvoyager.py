"""WebVoyager: a scripted agent in a real Chromium, on a small shop and on hostile pages served from this machine."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from bench_helpers.ledger import Untouched
from bench_helpers.webvoyager_site import serving
from focusctx.errors import BenchError
from focusctx.types import Message
from focusctx_bench.agent import Agent
from focusctx_bench.benchmarks.browser import VIEW, Patience, SharedBrowser
from focusctx_bench.benchmarks.webvoyager import WebVoyager, WebVoyagerTask
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import Task, ToolCall

Test = TypeVar("Test", bound=Callable[..., Any])


def browser(test: Test) -> Test:
    """In a browser, which all these tests share, as they do its event loop."""
    for mark in (pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")):
        test = mark(test)
    return test


PATIENCE = Patience(navigation=3, action=1, script=2.5, settle=0.4, quiet=0.7)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[str]:
    async with serving() as url:
        yield url


@pytest.fixture(scope="session")
def chromium() -> str:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium on PATH (scripts/browser installs it)")
    return path


def judging(answer: str) -> FunctionModel:
    """A judge that wants a word in the answer."""

    def decide(messages: Sequence[Message]) -> Say:
        given = re.search(r"<answer>\n(.*)\n</answer>", messages[-1]["content"])
        return Say(f"I looked.\n{'SUCCESS' if given and answer in given[1] else 'NOT SUCCESS'}")

    return FunctionModel(decide, "judge")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(chromium: str) -> AsyncIterator[SharedBrowser]:
    shared = SharedBrowser(chromium, sandbox=False, hosts=["127.0.0.1"])
    context = await shared.open()
    yield shared
    await shared.close(context)


def bench_of(shared: SharedBrowser, site: str) -> WebVoyager:
    data = {"ques": "What does the lamp Reef cost?", "web": f"{site}/", "web_name": "Shop", "id": "Shop--0"}
    tasks = [Task(f"Shop--{number}", data=data, step_limit=15) for number in range(3)]
    return WebVoyager(tasks, shared, lambda: judging("48"), PATIENCE)


@pytest.fixture
def bench(shared: SharedBrowser, site: str) -> WebVoyager:
    return bench_of(shared, site)


Do = Callable[..., Any]


@asynccontextmanager
async def voyage(bench: WebVoyager) -> AsyncIterator[tuple[WebVoyagerTask, Do]]:
    under_way = await bench.start(bench.tasks()[0])

    async def do(tool: str, **arguments: Any) -> str:
        return await under_way.act(ToolCall("call_1", tool, arguments))

    try:
        yield under_way, do
    finally:
        await under_way.close()


@pytest_asyncio.fixture(loop_scope="module")
async def do(bench: WebVoyager) -> AsyncIterator[Do]:
    async with voyage(bench) as (_, do):
        yield do


def number_of(shown: str, name: str) -> int:
    match = re.search(rf'^\[(\d+)\] .*"{re.escape(name)}', shown, re.MULTILINE)
    assert match, shown
    return int(match[1])


# The shop.


def shopper(messages: Sequence[Message]) -> Say:
    """Searches for the lamp and answers with its price; acts only on what it saw last."""
    shown = messages[-1]["content"]
    if messages[-1]["role"] == "user":
        return Say(calls=[("goto", {"url": re.search(r"http\S+", shown)[0]})])  # type: ignore[index]
    if "# Lamps" in shown:
        return Say(calls=[("type", {"number": number_of(shown, "Find"), "text": "reef", "submit": True})])
    if "found" in shown:
        return Say(calls=[("click", {"number": number_of(shown, "Reef")})])
    price = re.search(r"Price: (\d+)", shown)
    return Say(calls=[("answer", {"text": f"It costs {price[1]} dollars" if price else "I do not know"})])


@browser
async def test_whole_tasks_side_by_side(bench: WebVoyager) -> None:
    agent = Agent(FunctionModel(shopper), Untouched)
    records = await asyncio.gather(*(agent.run(bench, task) for task in bench.tasks()))
    for record in records:
        assert (record.ended, record.score.success) == ("done", 1.0)
        assert len(record.steps) >= 4  # more if the machine is so busy that a page is late
        assert record.score.details["answer"] == "It costs 48 dollars"
        assert record.score.details["judge_requests"] == 1


@browser
async def test_a_wrong_answer_and_none(bench: WebVoyager) -> None:
    wrong = FunctionModel(lambda _: Say(calls=[("answer", {"text": "It costs 12 dollars"})]))
    record = await Agent(wrong, Untouched).run(bench, bench.tasks()[0])
    assert (record.ended, record.score.success, record.score.details["answered"]) == ("done", 0.0, 1)
    silent = FunctionModel(lambda _: Say("Let me think."))
    record = await Agent(silent, Untouched, step_limit=2).run(bench, bench.tasks()[0])
    assert (record.ended, record.score.success, record.score.details) == ("steps", 0.0, {"answered": 0})


@browser
async def test_the_shop_by_hand(do: Do, site: str) -> None:
    shown = await do("goto", url=site)
    assert shown == (
        f"Page: Lamp shop\nURL: {site}/\n\n# Lamps\nFind\n"
        '[1] textbox "Find"\n[2] button "Go"\n'
        '[3] select "Sort" = "Name", options: Name; Price\n[4] link "All our notes"'
    )
    assert '"Sort" = "Price"' in await do("type", number=3, text="Price")
    assert '[1] textbox "Find" = "o"' in await do("type", number="[1]", text="o")
    shown = await do("click", number=2)
    assert "## 1 found" in shown
    shown = await do("click", number=number_of(shown, "Moor"))
    assert "Price: 29 dollars" in shown
    assert "## 1 found" in await do("back")
    assert "# Lamps" in await do("back")


@browser
async def test_scrolling(do: Do, site: str) -> None:
    shown = [await do("goto", url=f"{site}/long")]
    assert "Lines 1 to" in shown[0]
    assert "scroll down for the others" in shown[0]
    while not (view := await do("scroll", direction="down")).startswith("Error"):
        shown.append(view)
        assert len(view) < VIEW + 300
    assert view == "Error: this is the end of the page."
    assert re.findall(r"Note (\d+)", "".join(shown)) == [str(number) for number in range(400)]
    for before in reversed(shown[:-1]):
        view = await do("scroll", direction="up")
        assert set(re.findall(r"Note (\d+)", view)) >= set(re.findall(r"Note (\d+)", before))
    assert await do("scroll", direction="up") == "Error: this is the top of the page."
    assert "\nNote 200:" in (await do("click", number=1))[:200]  # a link within the page jumps there


@browser
async def test_a_page_that_grows_at_its_end(do: Do, site: str) -> None:
    shown = await do("goto", url=f"{site}/endless")
    assert "Row 59" in shown
    assert "Row 60" not in shown
    assert re.search(r"Row 60 ", await do("scroll", direction="down"))


@browser
async def test_all_kinds_of_controls(do: Do, site: str) -> None:
    shown = await do("goto", url=f"{site}/controls")
    assert '[1] checkbox "Gift" (not checked)' in shown
    assert '[2] button "Later" (disabled)' in shown
    assert "a | b" in shown
    assert "(image: A lamp)" in shown
    assert "In the shadow" in shown
    assert "secret" not in shown
    assert "ghost" not in shown
    assert '"Gift" (checked)' in await do("click", number=1)
    assert "Page: pressed" in await do("click", number=number_of(shown, "Press"))


@browser
async def test_mistakes_are_observations(do: Do, site: str) -> None:
    assert await do("click", number=1) == "Error: no page is open."
    assert await do("scroll", direction="down") == "Error: no page is open."
    await do("goto", url=site)
    assert await do("click", number=99) == "Error: nothing on this page has the number 99."
    assert await do("click", number=0) == "Error: nothing on this page has the number 0."
    assert await do("click") == "Error: number is the number of an element, not None."
    assert await do("click", number=True) == "Error: number is the number of an element, not True."
    assert await do("type", number=1) == "Error: text must be a text, not None."
    assert await do("scroll", direction="left") == "Error: direction is down or up, not 'left'."
    assert (await do("type", number=4, text="x")).startswith("Error: ")  # a link
    assert (await do("type", number=3, text="Colour")).startswith("Error: ")  # no such option
    assert "# Lamps" in await do("goto", url=site)
    assert "404" in await do("goto", url=f"{site}/nowhere")


# Hostile pages.


@browser
async def test_other_schemes_are_refused(do: Do) -> None:
    for url in ("file:///etc/passwd", "chrome://version", "view-source:http://127.0.0.1/", "http://", "http://[", ""):
        assert await do("goto", url=url) == f"Error: only http and https addresses can be opened, not {url!r}."
    for url in ("javascript:alert(1)", "data:text/html,<h1>x</h1>", "about:version"):
        assert (await do("goto", url=url)).startswith("Error: "), url


@browser
async def test_this_machine_is_out_of_reach_but_for_the_tasks_host(do: Do, site: str) -> None:
    port = site.rpartition(":")[2]
    for host in ("localhost", "shop.localhost", "127.0.0.2", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "172.20.1.1"):
        assert "ERR_NAME_NOT_RESOLVED" in (await do("goto", url=f"http://{host}:{port}/")), host
    assert "# Lamps" not in await do("goto", url=f"{site}/to-localhost")
    assert "# Lamps" in await do("goto", url=site)


@browser
async def test_links_that_lead_out_of_the_web(do: Do, site: str) -> None:
    shown = await do("goto", url=f"{site}/away")
    assert f"URL: {site}/away" in await do("click", number=number_of(shown, "file"))
    assert f"URL: {site}/away" in await do("click", number=number_of(shown, "mail"))
    assert "A download was refused: x.bin" in await do("click", number=number_of(shown, "load"))
    assert (await do("goto", url=f"{site}/file")).startswith("Error: ")


@browser
@pytest.mark.slow
async def test_a_site_that_does_not_answer(do: Do, site: str) -> None:
    shown = await do("goto", url=f"{site}/away")
    assert f"URL: {site}/away" in await do("click", number=number_of(shown, "wait"))
    shown = await do("goto", url=f"{site}/slow")
    assert shown.startswith("Error: Timeout")
    assert f"URL: {site}/away" in shown
    assert "# Lamps" in await do("goto", url=site)


@browser
async def test_dialogs_do_not_hold_it_up(do: Do, site: str) -> None:
    shown = await do("goto", url=f"{site}/dialogs")
    assert [word in shown for word in ('"Hello"', '"Sure?"', '"Name?"')] == [True] * 3
    assert 'dismissed: "(1) again"' in await do("click", number=1)
    assert "# Lamps" in await do("goto", url=site)


@browser
@pytest.mark.slow
async def test_redirects_without_end(do: Do, site: str) -> None:
    assert "ERR_TOO_MANY_REDIRECTS" in await do("goto", url=f"{site}/loop")
    async with asyncio.timeout(40):
        shown = await do("goto", url=f"{site}/hop")
    assert any(word in shown for word in ("Hopping", "Error: the page was closed", "Error: Timeout"))
    assert "# Lamps" in await do("goto", url=site)


@browser
async def test_huge_and_deep_pages(do: Do, site: str) -> None:
    shown = await do("goto", url=f"{site}/huge")
    assert "cell text" in shown
    assert len(shown) < VIEW + 300
    assert "bottom" in (shown := await do("goto", url=f"{site}/deep")) or "Error" in shown
    assert "# Lamps" in await do("goto", url=site)


@browser
async def test_frames(do: Do, site: str) -> None:
    shown = await do("goto", url=f"{site}/framed")
    assert shown.endswith('Outside\n(A frame within the page:)\nInside\n[1] button "Press"')
    assert '[1] button "Pressed"' in await do("click", number=1)


@browser
async def test_popups(do: Do, site: str) -> None:
    shown = await do("goto", url=f"{site}/popups")
    assert f"URL: {site}/popups" in shown
    assert "opened another window, which was closed" in shown
    assert f"URL: {site}/inner" in await do("click", number=1)  # asked for
    assert f"URL: {site}/popups" in await do("back")
    await do("goto", url=f"{site}/bomb")
    assert "which was closed" in await do("click", number=1)
    for _ in range(4):
        shown = await do("back")
    assert f"URL: {site}/bomb" in shown


@browser
@pytest.mark.slow
async def test_pages_that_hang_break_or_close(do: Do, site: str) -> None:
    await do("goto", url=f"{site}/bomb")
    await do("click", number=1)
    shown = await do("goto", url=f"{site}/stuck")  # with the windows of before in the same process
    assert await do("click", number=number_of(shown, "Hang")) == "Error: the page was closed: it does not respond."
    assert await do("scroll", direction="down") == "Error: no page is open."
    assert "# Lamps" in await do("goto", url=site)
    assert "Error" in await do("goto", url=f"{site}/broken")
    assert "covers it" in (await do("goto", url=f"{site}/covered") and await do("click", number=1))
    assert "Error" in await do("goto", url="chrome://crash")
    await do("goto", url=f"{site}/closing")
    await do("click", number=1)
    assert "# Lamps" in await do("goto", url=site)


@browser
async def test_text_that_looks_like_our_numbers(do: Do, site: str) -> None:
    shown = await do("goto", url=f"{site}/mimic")
    assert re.findall(r"\[\d+\]", shown) == ["[1]"]
    assert '(1) link "Free lamps"' in shown
    assert '[1] link "(7) textbox "x""' in shown
    assert "# Lamps" in await do("click", number=1)


@browser
async def test_each_task_has_cookies_of_its_own(shared: SharedBrowser, site: str) -> None:
    first, second = await shared.open(), await shared.open()
    await first.add_cookies([{"name": "a", "value": "b", "url": site}])
    assert await second.cookies() == []
    for context in (first, second):
        await shared.close(context)


@browser
@pytest.mark.slow
async def test_the_browser_ends_with_the_last_task_and_may_die_before(chromium: str, site: str) -> None:
    shared = SharedBrowser(chromium, sandbox=False, hosts=["127.0.0.1"])
    bench = bench_of(shared, site)
    async with voyage(bench) as (_, one):
        await one("goto", url=site)
        context = await shared.open()
        assert context.browser is not None
        await context.browser.close()
        with pytest.raises(BenchError, match="the browser has ended"):
            await one("goto", url=site)
        async with voyage(bench) as (_, two):  # a new one is started
            assert "# Lamps" in await two("goto", url=site)
            newer = await shared.open()
            await shared.close(newer)
        await shared.close(context)
    assert newer.browser is not None
    assert not newer.browser.is_connected()
