"""An answer is the same however its bytes are cut, and never more than it is."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.proxy.answer import Answer, BrokenOff, NoAnswer

HEAD = b"HTTP/1.1 200 Fine\r\nContent-Type: text/plain\r\nset-cookie: a\r\nset-cookie: b\r\n"
TEXT = b"all of it"
HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
CHUNKS = b"4\r\nall \r\n5\r\nof it\r\n0\r\ntrailer: x\r\n\r\n"
ANSWERS = {
    "of known length": HEAD + b"content-length: 9\r\n\r\n" + TEXT,
    "in chunks": HEAD + b"transfer-encoding: chunked\r\n\r\n" + CHUNKS,
    "until the end": HEAD + b"\r\n" + TEXT,
    "after hints": HINTS + HEAD + b"content-length: 9\r\n\r\n" + TEXT,
    "with bare line ends": HEAD.replace(b"\r", b"") + b"content-length: 9\n\n" + TEXT,
}


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


async def read(answer: Answer) -> bytes:
    return b"".join([piece async for piece in answer])


async def _into(got: list[bytes], answer: Answer) -> None:
    async for piece in answer:
        got.append(piece)


@given(name=st.sampled_from(sorted(ANSWERS)), cuts=st.lists(st.integers(0, 300), max_size=40))
def test_however_it_is_cut(name: str, cuts: list[int]) -> None:
    async def check() -> None:
        answer = Answer(lambda _: None)
        for piece in pieces(ANSWERS[name], cuts):
            assert not answer.is_complete
            answer.feed(piece)
        if name == "until the end":
            assert not answer.is_complete
            answer.feed_end()
        await answer.begun
        assert (answer.status, answer.reason) == (200, "Fine")
        assert answer.headers.getall("set-cookie") == ["a", "b"]
        assert answer.headers["content-type"] == "text/plain"
        assert "trailer" not in answer.headers
        assert "link" not in answer.headers
        assert answer.is_complete
        assert answer.keeps_connection == (name != "until the end")
        assert await read(answer) == TEXT

    asyncio.run(check())


@given(end=st.integers(0, 200), name=st.sampled_from(["of known length", "in chunks"]))
def test_wherever_it_breaks_off(end: int, name: str) -> None:
    """What came can be read; that it was not all is told."""

    async def check() -> None:
        whole = ANSWERS[name]
        begun = whole[: min(end, len(whole) - 1)]
        answer = Answer(lambda _: None)
        if begun:
            answer.feed(begun)
        answer.feed_end()
        if not answer.status:
            with pytest.raises(NoAnswer) as raised:
                await answer.begun
            assert isinstance(raised.value, BrokenOff) == (not begun), "who has begun is not asked once more"
            return
        await answer.begun
        got: list[bytes] = []
        with pytest.raises(BrokenOff):
            await _into(got, answer)
        assert TEXT.startswith(b"".join(got))
        assert not answer.keeps_connection

    asyncio.run(check())


@pytest.mark.parametrize("more", [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"whatever", b"\r\n\r\nx"])
@pytest.mark.parametrize("apart", [False, True])
async def test_what_comes_behind_it_is_no_part_of_it(more: bytes, apart: bool) -> None:
    answer = Answer(lambda _: None)
    first = ANSWERS["of known length"]
    for data in (first, more) if apart else (first + more,):
        answer.feed(data)
    assert (answer.status, answer.reason) == (200, "Fine")
    assert await read(answer) == TEXT
    assert not answer.keeps_connection


@pytest.mark.parametrize(
    "nonsense",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 8,
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
    ],
)
async def test_nonsense_is_told(nonsense: bytes) -> None:
    answer = Answer(lambda _: None)
    answer.feed(nonsense)
    with pytest.raises(NoAnswer, match="makes no sense"):
        await answer.begun


async def test_headers_without_an_end() -> None:
    answer = Answer(lambda _: None)
    answer.feed(b"HTTP/1.1 200 OK\r\n")
    fed = 0
    while not answer.begun.done():
        answer.feed(b"x-more: %b\r\n" % (b"x" * 1000))
        fed += 1
        assert fed < 1000
    with pytest.raises(NoAnswer, match="no end"):
        await answer.begun


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_answers_that_have_no_body(status: bytes) -> None:
    answer = Answer(lambda _: None)
    answer.feed(b"HTTP/1.1 %b\r\ncontent-length: 9\r\n\r\n" % status)
    assert answer.is_complete
    assert answer.keeps_connection


async def test_a_head_alone() -> None:
    answer = Answer(lambda _: None, only_head=True)
    answer.feed(HEAD + b"content-length: 9\r\n\r\n")
    assert (answer.is_complete, answer.length, answer.keeps_connection) == (True, 9, True)


async def test_a_slow_reader_holds_the_provider_back_and_lets_it_go_on() -> None:
    told: list[bool] = []
    answer = Answer(told.append)
    answer.feed(HEAD + b"content-length: 1000000\r\n\r\n")
    for _ in range(5):
        answer.feed(b"x" * 100_000)
    assert told[:1] == [True]
    assert len(await anext(answer)) == 500_000
    assert told[-1] is False
    told.clear()
    answer.feed(b"x" * 100_000)
    await anext(answer)
    assert told == [], "who keeps up is not bothered"


async def test_whoever_waits_is_woken_by_every_piece_and_by_the_end() -> None:
    answer = Answer(lambda _: None)
    answer.feed(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    seen: list[bytes] = []

    async def follow() -> None:
        seen.extend([piece async for piece in answer])

    task = asyncio.create_task(follow())
    for piece in (b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n"):
        await asyncio.sleep(0.01)
        answer.feed(piece)
    await asyncio.wait_for(task, 2)
    assert seen == [b"a", b"b"]


async def test_an_upgraded_connection_is_no_http_any_more() -> None:
    answer = Answer(lambda _: None)
    answer.feed(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n\x01first")
    answer.feed(b"HTTP/1.1 is but text now\r\n\r\n")
    answer.feed_end()
    assert answer.is_upgraded
    assert await read(answer) == b"\x01firstHTTP/1.1 is but text now\r\n\r\n"
    assert not answer.keeps_connection
