"""Reading of formats with one row per line: Arrow parses blocks, and bad lines are located.

A block that Arrow can't parse is halved until it can parse the halves or a single line is left,
which is the bad one. So clean files pay nothing, and the parser of the good lines decides what is
bad.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from sources.errors import InputError
from sources.formats.compression import codec_of

if TYPE_CHECKING:
    from sources.formats.row_check import RowCheck

Parse = Callable[[bytes], pa.Table]
"""Parser of a block of lines into one row per line, blank lines left out; raises ``ArrowInvalid``
if it can't parse the block."""

BLOCK_BYTES = 4 << 20
"""Bytes that are read and parsed at a time."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Bytes at the beginning of some files of UTF-8 text, which belong to no row."""
_AHEAD = 2
_REASON_CHARACTERS = 500
_SHOWN_BYTES = 60
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_ROW_NUMBER = re.compile(r" in row \d+$|\bRow #\d+: ")


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
        "Repair the file and plan again (`hybrid plan P`). Or declare `on_bad_record: quarantine` "
        "or `drop` for the source: then such rows will be missing from the table, and "
        "`quarantine` keeps them in a table of their own."
    )
    raise InputError(row.in_words, hint, file=row.path)


def read_lines(
    path: str,
    file: pa.NativeFile,
    span: tuple[int, int],
    parse: Parse,
    bad: OnBad,
    check: RowCheck | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range of whole lines, in order; bad lines go to a handler instead.

    In batches, none for a block without good rows. From the second block on, a thread pool parses a
    few blocks ahead, so that reading only the first rows causes no further work.

    Args:
        path: Path of the file, for bad rows.
        file: The file, decompressed and open for random access.
        span: Offset of the first byte, and the one after the last.
        parse: Parses a block of whole lines.
        bad: Called with each bad row, in order; what it raises is raised.
        check: Check of the parsed rows; those that do not pass are left out, too.

    Raises:
        OSError: The file can't be read.
    """
    low, high = span
    waiting: deque[tuple[int, bytes, Future[pa.Table | None]]] = deque()

    def first_rows() -> Iterator[pa.RecordBatch]:
        offset, block, parsed = waiting.popleft()
        table = parsed.result()
        if table is None:
            parts = list(_good_lines(path, offset, block, parse, bad, check))
            table = pa.concat_tables(parts).combine_chunks() if parts else None
        elif check is not None:
            table = check.pass_lines(path, offset, block, table)
        if table is not None:
            yield from table.to_batches()

    most_waiting = 0
    with ThreadPoolExecutor(_AHEAD) as pool:
        for offset, block in blocks(file.get_stream(low, high - low), low):
            waiting.append((offset, block, pool.submit(_parse_or_none, parse, block)))
            if len(waiting) > most_waiting:
                yield from first_rows()
                # Not earlier: a caller that only samples the first rows needs no more blocks.
                most_waiting = _AHEAD
        while waiting:
            yield from first_rows()


def reason_of(error: pa.ArrowInvalid) -> str:
    """Return Arrow's reason why a row can't be parsed; without row number, ≤ 500 characters."""
    return _ROW_NUMBER.sub("", str(error)).rstrip(".")[:_REASON_CHARACTERS]


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


def _parse_or_none(parse: Parse, block: bytes) -> pa.Table | None:
    """Parse a block of lines; return None if Arrow can't parse it."""
    try:
        return parse(block)
    except pa.ArrowInvalid:
        return None


def blocks(stream: pa.NativeFile, offset: int) -> Iterator[tuple[int, bytes]]:
    """Divide a stream into blocks of whole lines, each with the offset of its first byte.

    A line ends with a line feed, a carriage return, or both, as in Spark; a carriage return by
    itself becomes a line feed. Blocks have about 4 MiB, and more for a longer line.

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
    if block.count(b"\r") == block.count(b"\r\n"):
        return block
    return _LONE_RETURN.sub(b"\n", block)


def _good_lines(
    path: str, offset: int, block: bytes, parse: Parse, bad: OnBad, check: RowCheck | None
) -> Iterator[pa.Table]:
    """Parse a block that failed as a whole, by halves; hand its bad lines to the handler."""
    try:
        rows = parse(block)
    except pa.ArrowInvalid as error:
        half = len(block) // 2
        middle = block.rfind(b"\n", 0, half) + 1 or block.find(b"\n", half) + 1
        if middle in (0, len(block)):
            bad(BadRow(path, offset, block.rstrip(b"\r\n"), reason_of(error)))
            return
        yield from _good_lines(path, offset, block[:middle], parse, bad, check)
        yield from _good_lines(path, offset + middle, block[middle:], parse, bad, check)
    else:
        yield rows if check is None else check.pass_lines(path, offset, block, rows)
