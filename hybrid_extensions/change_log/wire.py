"""Kafka's wire protocol, as readers of a topic need it: known requests, versions, error codes.

https://kafka.apache.org/protocol. Of each request the versions of :data:`VERSIONS` are known, the
oldest ones that clients still speak, so that no answer has optional fields. Records have the form
of version 1, whose checksum Python's library has.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 0, 1, 2, 3, 10
API_VERSIONS, DESCRIBE_CONFIGS = 18, 32
VERSIONS = {
    # Never answered: librdkafka takes its version for that of records, also of those it reads.
    PRODUCE: (3, 3),
    FETCH: (4, 4),
    LIST_OFFSETS: (1, 2),
    METADATA: (1, 4),
    FIND_COORDINATOR: (0, 1),
    API_VERSIONS: (0, 0),
    DESCRIBE_CONFIGS: (1, 1),
}
"""Lowest and highest known version of each request."""
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, UNSUPPORTED_VERSION = 1, 3, 35
_MAGIC = 1


class Reader:
    """Reader of a request's fields, in their order.

    Args:
        data: The request without its length.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: str) -> int:
        """Return a number of a form of :mod:`struct`, such as ``i`` for 32 bits.

        Raises ``struct.error`` if the request ends before.
        """
        (found,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(found)

    def text(self) -> str | None:
        """Return a text, None for null.

        Of a request that ends before, it is the part that is there. Raises ``UnicodeDecodeError``
        if it is not UTF-8.
        """
        size = self.number("h")
        if size < 0:
            return None
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def array(self, read: Callable[[], T]) -> list[T] | None:
        """Return a list of what ``read`` returns for each item; None for null."""
        size = self.number("i")
        return None if size < 0 else [read() for _ in range(size)]


class Header(NamedTuple):
    """Header of a request.

    Attributes:
        request: Kind of the request, a key of :data:`VERSIONS` if it is known.
        version: Its version.
        correlation: Number that the answer carries.
    """

    request: int
    version: int
    correlation: int

    @property
    def is_known(self) -> bool:
        """Whether the request is answered in its version.

        False for a PRODUCE request, though its version is offered.
        """
        low, high = VERSIONS.get(self.request, (1, 0))
        return self.request != PRODUCE and low <= self.version <= high


def read_header(fields: Reader) -> Header:
    """Read the header of a request; of a known one its fields follow."""
    header = Header(fields.number("h"), fields.number("h"), fields.number("i"))
    fields.text()
    return header


def text(value: str | None) -> bytes:
    """Encode a text with its length; None becomes the protocol's null.

    Raises ``struct.error`` for more than 32,767 bytes.
    """
    if value is None:
        return struct.pack(">h", -1)
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def array(items: Iterable[bytes]) -> bytes:
    """Encode a list with its length, from its encoded items."""
    found = list(items)
    return struct.pack(">i", len(found)) + b"".join(found)


def pack(form: str, *values: Any) -> bytes:
    """Encode numbers in a form of :mod:`struct`, big-endian."""
    return struct.pack(f">{form}", *values)


def api_versions(version: int) -> bytes:
    """Encode the answer to an ApiVersions request: the known versions of each request.

    Args:
        version: Version of the request; any but 0 is answered with an error besides, upon which
            clients ask again with version 0.
    """
    error = 0 if version == 0 else UNSUPPORTED_VERSION
    known = (pack("hhh", request, *limits) for request, limits in VERSIONS.items())
    return pack("h", error) + array(known)


def records(
    first: int, at_ms: Sequence[int], keys: Sequence[bytes | None], values: Sequence[bytes | None]
) -> bytes:
    """Encode records with dense offsets as a message set of version 1.

    Args:
        first: Offset of the first one.
        at_ms: Their timestamps, in Unix milliseconds.
        keys: Their keys.
        values: Their values; None for a tombstone.
    """
    made = bytearray()
    for at, (time, key, value) in enumerate(zip(at_ms, keys, values, strict=True)):
        body = b"".join((pack("bbq", _MAGIC, 0, time), _bytes(key), _bytes(value)))
        made += pack("qiI", first + at, len(body) + 4, zlib.crc32(body)) + body
    return bytes(made)


def _bytes(value: bytes | None) -> bytes:
    return pack("i", -1) if value is None else pack("i", len(value)) + value
