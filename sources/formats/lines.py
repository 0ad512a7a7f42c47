"""Lines of text in blocks: line ends as in Spark, UTF-8, digits of decimals; rows that are bad."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from sources.errors import InputError
from sources.formats.compression import codec_of

BLOCK_BYTES = 4 << 20
"""Bytes that are read and parsed at a time."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Bytes at the beginning of some files of UTF-8 text, which belong to no row."""
_SHOWN_BYTES = 60
_LONE_RETURN = re.compile(rb"\r(?!\n)")


class BadRow(NamedTuple):
    """A row of a file that can't be parsed, or does not fit its columns.

    Attributes:
        path: The file.
        offset: Offset of the row's first byte; in the decompressed content if the file is
            compressed.
        content: Bytes of the row, without the line end.
        reason: What is wrong: a phrase that follows a colon.
    """

    path: str
    offset: int
    content: bytes
    reason: str

    @property
    def place(self) -> str:
        """File and byte offset of the row as one text, for messages; computed from the fields."""
        content = "" if codec_of(self.path) is None else " of the decompressed content"
        return f"{self.path}, byte {self.offset}{content}"

    @property
    def in_words(self) -> str:
        """Place, reason and the first 60 bytes of the row, as sentences for messages."""
        shown = repr(self.content[:_SHOWN_BYTES])[1:]
        rest = "…" if len(self.content) > _SHOWN_BYTES else ""
        return f"{self.place}: {self.reason}. The row is {shown}{rest}."


OnBad = Callable[[BadRow], None]
"""Handler of a bad row; if it returns, reading continues after the row."""


def refuse(row: BadRow) -> None:
    """Raise the error for a bad row; the handler of such rows for ``on_bad_record: fail``.

    Raises:
        InputError: Always; contains file, byte offset, reason and the first 60 bytes of the row.
    """
    hint = (
        "Repair the file; or, if the row is right, correct the declared types or options. Then "
        "plan again (`hybrid plan P`); if a run has begun to read the plan, in a new generation: "
        "`hybrid generation new P`, `hybrid run P`. Or leave the file as it is, and declare "
        "`on_bad_record: quarantine` or `drop` for the source: then such rows will be missing from "
        "the table, and `quarantine` keeps them in a table of their own."
    )
    raise InputError(row.in_words, hint, file=row.path)


def check_utf8(block: bytes) -> None:
    """Refuse a block of bytes that is not UTF-8 text, before Arrow parses it.

    Arrow's readers do not check all of a JSON text, nor columns of CSV that are not read.

    Raises:
        ArrowInvalid: The block is not UTF-8.
    """
    if block.isascii():
        return
    try:
        pa.array([block], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        message = "it is not UTF-8 text"
        raise pa.ArrowInvalid(message) from None


def check_precision(table: pa.Table) -> None:
    """Refuse a parsed table with decimals that have more digits than their columns allow.

    Arrow's readers count the digits without the scale.

    Raises:
        ArrowInvalid: There is such a decimal.
    """
    for column in table.columns:
        if pa.types.is_decimal(column.type) or pa.types.is_nested(column.type):
            column.validate(full=True)


def blocks(stream: pa.NativeFile, offset: int) -> Iterator[tuple[int, bytes]]:
    """Divide a stream into blocks of whole lines, each with the offset of its first byte.

    A line ends with a line feed, a carriage return, or both, as in Spark; a carriage return by
    itself becomes a line feed. Blocks have about 4 MiB, and more for a longer line. The last line
    need not end with one.

    Args:
        stream: The lines.
        offset: Offset of the stream's first byte in the file.
    """
    rest = b""
    while read := stream.read(BLOCK_BYTES):
        # A line feed may follow a carriage return that is the last byte.
        end = read.rfind(b"\n") + 1 or read.rfind(b"\r", 0, -1) + 1
        if not end:
            rest += read
            continue
        block = b"".join((rest, memoryview(read)[:end]))
        yield offset, _with_line_feeds(block)
        offset += len(block)
        rest = read[end:]
    if rest:
        yield offset, _with_line_feeds(rest)


def _with_line_feeds(block: bytes) -> bytes:
    is_plain = block.count(b"\r") == block.count(b"\r\n")
    return block if is_plain else _LONE_RETURN.sub(b"\n", block)
