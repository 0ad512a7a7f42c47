"""A proxy in front of an S3 server: counts its requests, and delays each one.

Run as ``python -m benchmarks.store_proxy PORT SERVER_PORT``; both are on the loopback address, and
both speak plain HTTP. ``POST /_requests`` answers the number of requests since the last call, by
method and path without its numbers; ``POST /_faults`` with ``{"delay_s": 0.02}`` sets the delay of
each request from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections import Counter
from urllib.parse import parse_qs

from hybrid_extensions.servers.process import HOST

_CHUNK = 1 << 18
_LIMIT = 1 << 20
_NUMBERS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}|[0-9]+")


class StoreProxy:
    """The proxy; every connection to it has one to the server.

    Args:
        server: TCP port of the server.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self._requests: Counter[str] = Counter()
        self._delay_s = 0.0

    async def serve(self, port: int) -> None:
        """Answer on a TCP port until the process is ended."""
        server = await asyncio.start_server(self._connection, HOST, port, limit=_LIMIT)
        async with server:
            await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(
            HOST, self._server, limit=_LIMIT
        )
        answers = asyncio.create_task(_pass_on(server_reader, writer))
        # Either end may hang up whenever it likes.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"POST /_"):
                    await self._control(head, reader, writer)
                    continue
                self._requests[_kind(head)] += 1
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                server_writer.write(head)
                await _body(head, reader, server_writer)
        server_writer.close()
        await answers

    async def _control(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        body = await reader.readexactly(int(_field(head, b"content-length") or 0))
        answer: Counter[str] = Counter()
        if head.startswith(b"POST /_requests"):
            answer, self._requests = self._requests, answer
        else:
            self._delay_s = json.loads(body)["delay_s"]
        text = json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        await writer.drain()


def _kind(head: bytes) -> str:
    """Return method and path of a request, and of a listing its prefix, without numbers and ids."""
    method, target = head.decode(errors="replace").split(" ")[:2]
    path, _, query = target.partition("?")
    listed = parse_qs(query).get("prefix", [""])[0] if "list-type" in query else ""
    return _NUMBERS.sub(
        "*", f"LIST {path}/{listed}" if "list-type" in query else f"{method} {path}"
    )


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass the body of a request on, by its length or in its chunks."""
    if b"chunked" in _field(head, b"transfer-encoding"):
        size = 1
        while size:
            line = await reader.readuntil(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            writer.write(line + await reader.readexactly(size + 2))
            await writer.drain()
        return
    left = int(_field(head, b"content-length") or 0)
    while left:
        data = await reader.read(min(left, _CHUNK))
        if not data:
            raise ConnectionResetError
        writer.write(data)
        await writer.drain()
        left -= len(data)


def _field(head: bytes, name: bytes) -> bytes:
    """Return the value of a header, in lower case; empty if there is none."""
    _, _, rest = head.lower().partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip()


if __name__ == "__main__":
    asyncio.run(StoreProxy(int(sys.argv[2])).serve(int(sys.argv[1])))
