"""A network that fails as it is told to: a TCP proxy between a server and its clients."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from hybrid_extensions.servers.process import HOST

_CHUNK = 1 << 16
# Closed with this option, a connection is reset (RST) in place of an orderly end (FIN).
_RESET = struct.pack("ii", 1, 0)


class Network:
    """The way to one server, as a context manager; everything passes until it is told to fail.

    What is held back by a silence arrives once the network is well again, as what TCP repeats does.

    Args:
        server: TCP port of the server, which may be started later.
        of: Only connections whose client's first bytes contain this ever fail; by default all.

    Attributes:
        port: TCP port to connect to in the server's place.
    """

    def __init__(self, server: int, of: bytes = b"") -> None:
        self._server = server
        self._of = of
        self._is_cut = False
        self._is_refusing = False
        self._delay_s = 0.0
        self._bytes_per_s = 0.0
        self._silencing: bytes | None = None
        self._passes = {"to server": asyncio.Event(), "to client": asyncio.Event()}
        self._failing: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    def __enter__(self) -> Network:
        self.heal()
        self._thread.start()
        self._listen()
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _listen(self) -> None:
        self._listening = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._connection, HOST, self.port), self._loop
        ).result()

    async def _end(self) -> None:
        self._listening.close()
        self._reset()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def heal(self) -> None:
        """Let everything pass again, also what was held back."""
        self._is_cut, self._delay_s, self._bytes_per_s = False, 0.0, 0.0
        self._silencing = None
        for each in self._passes.values():
            self._tell(each.set)
        if self._is_refusing:
            self._listen()
        self._is_refusing = False

    def cut(self) -> None:
        """Reset each connection, and each new one."""
        self._is_cut = True
        self._tell(self._reset)

    def refuse(self) -> None:
        """Reset each connection, and refuse new ones, as a machine does on which no server runs."""
        self._is_refusing = True
        self._tell(self._listening.close)
        self._tell(self._reset)

    def silence(self, *directions: str) -> None:
        """Accept everything and pass on nothing ``to server``, ``to client``; by default both."""
        for each in directions or tuple(self._passes):
            self._tell(self._passes[each].clear)

    def silence_at(self, part: bytes) -> None:
        """Be silent in both directions from what contains these bytes on."""
        self._silencing = part

    def slow_down(self, *, delay_s: float = 0.0, bytes_per_s: float = 0.0) -> None:
        """Delay whatever is sent, and let a connection send so many bytes a second (0: any)."""
        self._delay_s, self._bytes_per_s = delay_s, bytes_per_s

    def _tell(self, what: Callable[[], None]) -> None:
        if not self._thread.is_alive():
            what()
            return
        done = threading.Event()
        self._loop.call_soon_threadsafe(what)
        self._loop.call_soon_threadsafe(done.set)
        done.wait()

    def _reset(self) -> None:
        for writer in self._failing:
            connection = writer.get_extra_info("socket")
            if connection is not None and not writer.is_closing():
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
        self._failing.clear()

    async def _connection(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            first = await client.read(_CHUNK) if self._of else b""
            is_failing = self._of in first
            if is_failing:
                self._failing.add(back)
                if self._is_cut:
                    self._reset()
                    return
            # Tried for as long as the network holds the request to connect back.
            await self._turn("to server", 0, is_failing=is_failing)
            server, forth = await asyncio.open_connection(HOST, self._server)
            if is_failing:
                self._failing.add(forth)
            await asyncio.gather(
                self._pass_on(client, forth, "to server", first, is_failing=is_failing),
                self._pass_on(server, back, "to client", b"", is_failing=is_failing),
            )
        back.transport.abort()
        self._failing.discard(back)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        direction: str,
        data: bytes,
        *,
        is_failing: bool,
    ) -> None:
        try:
            while data := data or await reader.read(_CHUNK):
                if is_failing and self._silencing is not None and self._silencing in data:
                    for each in self._passes.values():
                        each.clear()
                await self._turn(direction, len(data), is_failing=is_failing)
                writer.write(data)
                await writer.drain()
                data = b""
            # The end of a connection does not arrive through a silence, either.
            await self._turn(direction, 0, is_failing=is_failing)
        finally:
            writer.close()
            self._failing.discard(writer)

    async def _turn(self, direction: str, size: int, *, is_failing: bool) -> None:
        """Wait until so many bytes may pass."""
        if not is_failing:
            return
        await self._passes[direction].wait()
        rate = self._bytes_per_s
        await asyncio.sleep(self._delay_s + (size / rate if rate else 0.0))
