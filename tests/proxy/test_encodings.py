"""Request bodies that come compressed: read with a bound, and passed on as they came where they cannot be read."""

import gzip
import json
import random
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from focusctx import Focus
from focusctx.proxy.request import unpack, unpacked_limit
from helpers.histories import run
from helpers.raw_http import exchange, proxy, raw_upstream
from helpers.session_parts import Draft

Pack = Callable[[bytes], bytes]


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


PACKS: dict[str, tuple[str, Pack]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "GZip": ("GZip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd.compress),
    "two": ("gzip, br", lambda body: brotli.compress(gzip.compress(body))),
    "none": ("identity", bytes),
}
HISTORY = json.dumps({"model": "m", "messages": run(20), "stream": True}).encode()


def eager() -> Focus:
    return Focus(Draft(), budget=50)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("how", PACKS)
async def test_packed_histories_are_compressed(how: str) -> None:
    encoding, pack = PACKS[how]
    async with raw_upstream() as up, proxy(up.url, focus=eager()) as (_, url):
        headers = [("Content-Encoding", encoding), ("Content-Type", "application/json")]
        await exchange(url, "POST", "/v1/chat/completions", headers, pack(HISTORY))
    (got,) = up.got
    assert "content-encoding" not in got, "it goes up plain"
    sent = json.loads(got.body)
    assert len(sent["messages"]) < len(run(20))
    assert sent["messages"][:2] + sent["messages"][-2:] == run(20)[:2] + run(20)[-2:]
    assert sent["stream"] is True
    assert got["content-length"] == str(len(got.body))


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("how", PACKS)
async def test_what_is_not_due_stays_packed(how: str) -> None:
    encoding, pack = PACKS[how]
    async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(), budget=100_000)) as (_, url):
        body = pack(HISTORY)  # once: gzip writes down the time
        await exchange(url, "POST", "/v1/chat/completions", [("Content-Encoding", encoding)], body)
    assert up.got[0].body == body
    assert up.got[0]["content-encoding"] == encoding


def damaged() -> dict[str, tuple[str, bytes]]:
    cut = {f"{how}, cut": (encoding, pack(HISTORY)[:-9]) for how, (encoding, pack) in PACKS.items() if how != "none"}
    more = {f"{how}, and more": (encoding, pack(HISTORY) + b"more") for how, (encoding, pack) in PACKS.items()}
    return {
        **cut,
        **more,
        "two members": ("gzip", gzip.compress(HISTORY) + gzip.compress(b'{"messages": []}')),
        "an unknown one": ("compress", HISTORY),
        "half known": ("gzip, compress", gzip.compress(HISTORY)),
        "another one": ("gzip", brotli.compress(HISTORY)),
        "not packed": ("zstd", HISTORY),
        "nothing": ("gzip", b""),
        "packed nothing": ("gzip", gzip.compress(b"")),
        "packed nonsense": ("br", brotli.compress(b"{]")),
    }


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("what", damaged())
async def test_what_cannot_be_read_goes_up_byte_for_byte(what: str) -> None:
    encoding, body = damaged()[what]
    async with raw_upstream() as up, proxy(up.url, focus=eager()) as (_, url):
        assert (
            await exchange(url, "POST", "/v1/chat/completions", [("Content-Encoding", encoding)], body)
        ).status == 200
    assert up.got[0].body == body
    assert up.got[0]["content-encoding"] == encoding


BOMB = b'{"messages": [' + b" " * 50_000_000
LIMIT = 1 << 20


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    return {how: PACKS[how][1](BOMB) for how in ("gzip", "deflate", "raw deflate", "zstd")} | {
        "br": brotli.compress(BOMB, quality=1),
        "two": gzip.compress(gzip.compress(BOMB)),
    }


@pytest.mark.parametrize("how", ["gzip", "deflate", "raw deflate", "br", "zstd", "two"])
async def test_bombs_do_not_go_off(how: str, bombs: dict[str, bytes], nothing_left: None) -> None:
    encoding = "gzip, gzip" if how == "two" else PACKS[how][0]
    async with raw_upstream() as up, proxy(up.url, focus=eager(), body_limit=LIMIT) as (_, url):
        tracemalloc.start()
        try:
            await exchange(url, "POST", "/v1/chat/completions", [("Content-Encoding", encoding)], bombs[how])
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert up.got[0].body == bombs[how]
    assert most < 10 * LIMIT


@given(st.binary(max_size=300), st.sampled_from(sorted(PACKS)), st.integers(0, 400))
def test_unpacking_is_the_reverse_of_packing_within_the_limit(body: bytes, how: str, limit: int) -> None:
    encoding, pack = PACKS[how]
    unpacked = unpack(pack(body), encoding, limit)
    within = len(body) <= limit and (how != "two" or len(gzip.compress(body)) <= limit)
    assert unpacked == (body if within else None)


@given(st.binary(max_size=200), st.text(max_size=20), st.sampled_from(sorted(PACKS)), st.randoms())
def test_unpacking_never_raises(body: bytes, encoding: str, how: str, chance: random.Random) -> None:
    unpack(body, encoding, 100)
    label, pack = PACKS[how]
    packed = bytearray(pack(body))
    if packed:
        packed[chance.randrange(len(packed))] ^= 1 << chance.randrange(8)
    unpack(bytes(packed), label, 100)


def test_a_body_may_unpack_to_a_hundred_times_its_size() -> None:
    assert unpacked_limit(100, 64 << 20) == 1 << 20
    assert unpacked_limit(100_000, 64 << 20) == 10_000_000
    assert unpacked_limit(10_000_000, 64 << 20) == 64 << 20
