"""The time zone of an ORC file's writer, which Arrow's reader does not tell.

ORC keeps of a time what a clock in that zone shows: https://orc.apache.org/specification/ORCv1/
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import orc

_VARINT, _EIGHT_BYTES, _LENGTH = 0, 1, 2
# Numbers of fields: of the footer, of what it says of a stripe, of a stripe's own footer.
_STRIPES = 3
_OFFSET, _INDEX_LENGTH, _DATA_LENGTH, _FOOTER_LENGTH = range(1, 5)
_ZONE = 3
_ORIGINAL = 1
_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "ZLIB": lambda chunk: zlib.decompress(chunk, -zlib.MAX_WBITS),
    "SNAPPY": lambda chunk: pa.decompress(chunk, _varint(chunk, 0)[0], "snappy", asbytes=True),
    "ZSTD": lambda chunk: pa.CompressedInputStream(pa.BufferReader(chunk), "zstd").read(),
}


def writer_zone(file: pa.NativeFile, orc_file: orc.ORCFile) -> str | None:
    """Return the name of the time zone in which an ORC file was written, by its first stripe.

    None without a stripe, or if the file does not say it or has another codec than Zlib, Snappy and
    Zstandard. Moves the file's position.

    Args:
        file: The file.
        orc_file: The same, as Arrow has opened it.

    Raises:
        OSError: The file can't be read.
    """
    packed = orc_file.compression
    if packed != "UNCOMPRESSED" and packed not in _CODECS:
        return None

    def fields(offset: int, length: int) -> Iterator[tuple[int, Any]]:
        file.seek(offset)
        content = file.read(length)
        return _fields(content if packed == "UNCOMPRESSED" else _whole(content, _CODECS[packed]))

    length = orc_file.file_footer_length
    end = orc_file.file_length - 1 - orc_file.file_postscript_length
    for number, value in fields(end - length, length):
        if number == _STRIPES:
            stripe = dict(_fields(value))
            begin = sum(stripe.get(part, 0) for part in (_OFFSET, _INDEX_LENGTH, _DATA_LENGTH))
            zone = dict(fields(begin, stripe[_FOOTER_LENGTH])).get(_ZONE)
            return None if zone is None else str(zone, "utf-8")
    return None


def _whole(packed: bytes, unpack: Callable[[bytes], bytes]) -> bytes:
    """Return a part of a file decompressed: it has chunks, each with a header of three bytes."""
    found, at = b"", 0
    while at < len(packed):
        header = int.from_bytes(packed[at : at + 3], "little")
        chunk = packed[at + 3 : at + 3 + (header >> 1)]
        found += chunk if header & _ORIGINAL else unpack(chunk)
        at += 3 + len(chunk)
    return found


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field of a Protobuf message: an integer, or bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        value, length = None, 8 if tag & 7 == _EIGHT_BYTES else 4
        if tag & 7 in (_VARINT, _LENGTH):
            value, at = _varint(message, at)
            length = 0
        if tag & 7 == _LENGTH:
            length = value or 0
            value = message[at : at + length]
        at += length
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[Any, int]:
    """Return the number at an offset, in seven bits of each byte, and the offset after it."""
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return number, at
