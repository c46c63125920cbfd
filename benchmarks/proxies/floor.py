"""The floor: the least a proxy can do. It reads a request, sends it on over a pool and passes chunks back at once.

python floor.py PORT UPSTREAM
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

HOP_BY_HOP = ("Host", "Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "TE", "Trailer")
UPSTREAM = web.AppKey("upstream", str)
POOL = web.AppKey("pool", aiohttp.ClientSession)


async def forward(request: web.Request) -> web.StreamResponse:
    body, url = await request.read(), request.app[UPSTREAM] + request.path_qs
    async with request.app[POOL].request(request.method, url, headers=kept(request.headers), data=body) as answer:
        response = web.StreamResponse(status=answer.status, headers=kept(answer.headers))
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response


def kept(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    copy = headers.copy()
    for name in HOP_BY_HOP:
        copy.popall(name, None)
    return copy


async def pool(app: web.Application) -> AsyncIterator[None]:
    timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        app[POOL] = session
        yield


def main(port: int, upstream: str) -> None:
    app = web.Application(client_max_size=2**26)
    app[UPSTREAM] = upstream
    app.cleanup_ctx.append(pool)
    app.router.add_route("*", "/{path:.*}", forward)
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, print=None)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
