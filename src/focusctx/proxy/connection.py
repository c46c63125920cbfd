"""One connection to a provider, for one request after the other.

It is our own because an HTTP client for all purposes takes longer over a request than the rest of the proxy together:
docs/results/proxy-speed.md.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TypeAlias, cast

from .answer import Answer, BrokenOff, NoAnswer

Body: TypeAlias = bytes | AsyncIterator[bytes] | None

_ASK_AFTER = 60
"""Seconds of silence after which the other end is asked whether it is there. An answer may take many minutes: on the
way, silent connections are forgotten; the providers' own clients ask, too."""
_SILENT_FOR = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)  # Linux, macOS


class Connection(asyncio.Protocol):
    """asyncio calls it when something happens on its socket."""

    def __init__(self) -> None:
        self.was_used = False
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._upload: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        """Done when more can be written; None when it can be now."""

    @property
    def is_free(self) -> bool:
        """Whether it can take a request."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._upload is not None:
            return False
        # An answer may come before its request was taken whole.
        return self._answer is None or (self._answer.keeps_connection and not transport.get_write_buffer_size())

    async def ask(self, head: bytes, body: Body = None, *, only_head: bool = False) -> Answer:
        """Send a request. Its answer, as soon as the head of that is here."""
        if self._transport is None:
            raise BrokenOff("it closed the connection")
        self.was_used = True
        self._answer = Answer(self._hold_back, only_head=only_head)
        if isinstance(body, bytes):
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            if body is not None:
                is_chunked = b"\r\ntransfer-encoding: chunked\r\n" in head
                self._upload = asyncio.create_task(self._send(body, self._answer, is_chunked=is_chunked))
        await self._answer.begun
        return self._answer

    async def write(self, data: bytes) -> None:
        """Bytes that follow a request, or that an upgraded connection is for. Waits where they are not taken."""
        if self._transport is None:
            raise BrokenOff("it closed the connection")
        self._transport.write(data)
        if self._drained is not None:
            await self._drained

    async def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Go on with TLS: behind an answer that opened a tunnel, the connection is as new."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(self._transport, self, context, server_hostname=host)
        self._transport, self._answer, self.was_used = transport, None, False

    def close(self) -> None:
        if self._upload is not None:
            self._upload.cancel()
        if self._transport is None:
            return
        if self._answer is not None and self._answer.is_upgraded:
            self._transport.close()  # what was written last may be the end of a conversation
        else:
            self._transport.abort()

    async def _send(self, body: AsyncIterator[bytes], answer: Answer, *, is_chunked: bool) -> None:
        try:
            async for piece in body:
                if piece:
                    await self.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
            if is_chunked:
                await self.write(b"0\r\n\r\n")
        except NoAnswer as error:
            answer.fail(error)
        except Exception:  # of whoever sends it
            answer.fail(NoAnswer("the request broke off", 400))
        else:
            self._upload = None

    def _hold_back(self, wait: bool) -> None:
        if self._transport is not None:
            with suppress(RuntimeError):  # it is being closed
                self._transport.pause_reading() if wait else self._transport.resume_reading()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        end = transport.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if _SILENT_FOR is not None:
            end.setsockopt(socket.IPPROTO_TCP, _SILENT_FOR, _ASK_AFTER)

    def data_received(self, data: bytes) -> None:
        if self._answer is not None:
            self._answer.feed(data)
        else:
            self.close()  # nobody asked

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.resume_writing()
        if self._answer is not None and not self._answer.is_complete:
            self._answer.feed_end(is_clean=error is None)

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
