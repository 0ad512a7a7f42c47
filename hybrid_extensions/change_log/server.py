"""Server of a change log for clients of Kafka: one partition a topic, only reading, no groups.

It answers what reading needs, and nothing is written through it: readers join no group, and keep
their offsets themselves, as this project's do.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable

from hybrid_extensions.change_log import wire
from hybrid_extensions.change_log.segments import Segments
from hybrid_extensions.change_log.wire import Reader, array, pack, text
from sources.errors import HybridError

_NODE = 0
_EARLIEST = -2
_LATEST = -1
_NEWEST = -3
_MOST_BYTES = 1 << 20
_ANSWER_S = 1.0
"""Seconds after which an answer has what was found by then: clients give up one that takes long,
and ask for all of it again."""
_MOST_ASKED = 1 << 24
"""Most bytes of a request: some 100,000 topics."""
_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
}


class LogServer:
    """Server in threads of this process; a context manager that ends it.

    It has its address from the beginning, and answers once it is opened.

    Args:
        segments: The log.
        topics: Returns the names of all topics, also of those that have no record yet.
        address: Host and port to listen at, and by which clients find it; port 0 for a free one.
        retention_ms: How long records are kept, for who asks; -1 for ever.

    Attributes:
        is_open: Whether it answers.

    Raises:
        OSError: Another process listens at the address, or this machine does not have it.
        OverflowError: The port is above 65535.
    """

    def __init__(
        self,
        segments: Segments,
        topics: Callable[[], set[str]],
        address: tuple[str, int],
        retention_ms: int = -1,
    ) -> None:
        self._segments, self._topics, self._retention_ms = segments, topics, retention_ms
        self._appended = threading.Condition()
        owner = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                owner._serve(self.request)

        self._server = _Server(address, Handler)
        self._host, self._port = address[0], int(self._server.server_address[1])
        self.is_open = False
        self._answers: dict[int, Callable[[Reader, int], bytes]] = {
            wire.FETCH: self._fetch,
            wire.LIST_OFFSETS: self._list_offsets,
            wire.METADATA: self._metadata,
            wire.FIND_COORDINATOR: self._coordinator,
            wire.DESCRIBE_CONFIGS: self._configs,
        }

    def __enter__(self) -> LogServer:
        return self

    def __exit__(self, *_: object) -> None:
        """End the server; connections end with the process, or with their clients."""
        if self.is_open:
            self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> str:
        """Host and port of the server, ``host:port``."""
        return f"{self._host}:{self._port}"

    def open(self) -> None:
        """Begin to answer clients, in threads of this process; called once.

        Returns at once.
        """
        self.is_open = True
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def wake_clients(self) -> None:
        """Wake clients that wait for records; called after records were appended."""
        with self._appended:
            self._appended.notify_all()

    def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # What is no request ends its own connection only.
        with contextlib.suppress(OSError, HybridError, struct.error, UnicodeDecodeError):
            while data := _received(client, 4):
                (size,) = struct.unpack(">i", data)
                if not 0 < size <= _MOST_ASKED:
                    return
                fields = Reader(_received(client, size))
                header = wire.read_header(fields)
                if header.request == wire.API_VERSIONS:
                    body = wire.api_versions(header.version)
                elif header.is_known:
                    body = self._answers[header.request](fields, header.version)
                else:
                    # What was not offered: the client is wrong.
                    return
                client.sendall(pack("ii", len(body) + 4, header.correlation) + body)

    def _metadata(self, fields: Reader, version: int) -> bytes:
        there = self._topics()
        asked = fields.array(fields.text)
        broker = pack("i", _NODE) + text(self._host) + pack("i", self._port) + text(None)
        partition = pack("hii", 0, 0, _NODE) + 2 * array([pack("i", _NODE)])

        def topic(name: str | None) -> bytes:
            known = name in there
            error = 0 if known else wire.UNKNOWN_TOPIC
            return pack("h", error) + text(name) + b"\0" + array([partition] if known else [])

        return b"".join(
            (
                pack("i", 0) if version >= 3 else b"",
                array([broker]),
                text(self._segments.identity) if version >= 2 else b"",
                pack("i", _NODE),
                array(map(topic, sorted(there) if asked is None else asked)),
            )
        )

    def _coordinator(self, fields: Reader, version: int) -> bytes:
        body = pack("h", 0) + (text(None) if version else b"")
        body += pack("i", _NODE) + text(self._host) + pack("i", self._port)
        return pack("i", 0) + body if version else body

    def _configs(self, fields: Reader, _: int) -> bytes:
        settings = {**_CONFIGS, "retention.ms": str(self._retention_ms)}
        made = array(
            text(name) + text(value) + pack("?b?", True, 5, False) + array([])
            for name, value in settings.items()
        )

        def resource() -> bytes:
            kind, name = fields.number("b"), fields.text()
            fields.array(fields.text)
            error = 0 if name in self._topics() else wire.UNKNOWN_TOPIC
            head = pack("h", error) + text(None) + pack("b", kind) + text(name)
            return head + (array([]) if error else made)

        return pack("i", 0) + array(fields.array(resource) or [])

    def _list_offsets(self, fields: Reader, version: int) -> bytes:
        fields.number("i")
        if version >= 2:
            fields.number("b")

        def topic() -> bytes:
            name = str(fields.text())

            def partition() -> bytes:
                number, at_ms = fields.number("i"), fields.number("q")
                return pack("ihqq", number, *self._offset(name, number, at_ms))

            return text(name) + array(fields.array(partition) or [])

        found = array(fields.array(topic) or [])
        return pack("i", 0) + found if version >= 2 else found

    def _offset(self, topic: str, number: int, at_ms: int) -> tuple[int, int, int]:
        """Return error, time and offset that answer the question for a time."""
        if number or topic not in self._topics():
            return wire.UNKNOWN_TOPIC, -1, -1
        if at_ms == _LATEST:
            return 0, -1, self._segments.end(topic)
        if at_ms == _EARLIEST:
            return 0, -1, self._segments.start(topic)
        if at_ms == _NEWEST:
            at_ms = self._segments.newest_ms(topic)
        return 0, *(self._segments.offset_at(topic, at_ms) or (-1, -1))

    def _fetch(self, fields: Reader, _: int) -> bytes:
        fields.number("i")
        wait_ms = fields.number("i")
        fields.number("i")
        left = min(fields.number("i"), 8 * _MOST_BYTES)
        fields.number("b")
        asked: list[tuple[str, int, int, int]] = []

        def topic() -> None:
            name = str(fields.text())
            fields.array(
                lambda: asked.append(
                    (name, fields.number("i"), fields.number("q"), fields.number("i"))
                )
            )

        fields.array(topic)
        self._wait(asked, wait_ms / 1000)
        found: dict[str, list[bytes]] = {}
        deadline = time.monotonic() + _ANSWER_S
        for name, number, offset, size in asked:
            most = min(size, max(left, 1))
            error, end, data = self._read(name, number, offset, most, deadline)
            left -= len(data)
            part = pack("ihqqi", number, error, end, end, -1) + pack("i", len(data)) + data
            found.setdefault(name, []).append(part)
        return pack("i", 0) + array(text(name) + array(parts) for name, parts in found.items())

    def _wait(self, asked: list[tuple[str, int, int, int]], seconds: float) -> None:
        """Wait until there is a record to send, or an error."""
        deadline = time.monotonic() + seconds
        with self._appended:
            while all(self._segments.end(name) == offset for name, _, offset, _ in asked):
                if (left := deadline - time.monotonic()) <= 0:
                    return
                self._appended.wait(left)

    def _read(
        self, topic: str, number: int, offset: int, size: int, deadline: float
    ) -> tuple[int, int, bytes]:
        """Return error, end of the topic, and records from an offset on, as bytes.

        Records of one segment at least if there are any; those of further ones until a time of
        :func:`time.monotonic`.
        """
        if number or topic not in self._topics():
            return wire.UNKNOWN_TOPIC, -1, b""
        end = self._segments.end(topic)
        if not self._segments.start(topic) <= offset <= end:
            return wire.OFFSET_OUT_OF_RANGE, end, b""
        data = bytearray()
        while offset < end and len(data) < size and not (data and time.monotonic() > deadline):
            rows = self._segments.read(topic, offset, min(size - len(data), _MOST_BYTES))
            data += wire.records(*rows)
            offset += len(rows.values)
        return 0, end, bytes(data)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def _received(client: socket.socket, size: int) -> bytes:
    """Return so many bytes; none if the client has left."""
    data = bytearray()
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            return b""
        data += more
    return bytes(data)
