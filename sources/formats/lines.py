"""Rows of one line each: Arrow reads blocks of lines; bad lines are looked for where one fails.

A block is halved until Arrow reads the halves or a single line is left, which is the bad one. So
clean files pay nothing, and what is bad is told by what reads the good lines.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa

from sources.errors import InputError
from sources.formats.compression import codec_of

Parse = Callable[[bytes], pa.Table]
"""Makes a row of each line of a block but blank ones; ``ArrowInvalid`` if it can't."""

_BLOCK_BYTES = 4 << 20
_AHEAD = 2
_REASON_CHARACTERS = 500
_ROW_NUMBER = re.compile(r" in row \d+$|\bRow #\d+: ")


class BadRow(NamedTuple):
    """A row that can't be read, or does not fit its columns.

    Attributes:
        path: Its file.
        offset: Of its first byte; in the unpacked content, if the file is packed.
        content: Its bytes, without the line end.
        reason: What is wrong, in words that follow a colon.
    """

    path: str
    offset: int
    content: bytes
    reason: str

    @property
    def place(self) -> str:
        """Where it is, in words."""
        unpacked = "" if codec_of(self.path) is None else " when unpacked"
        return f"{self.path}, byte {self.offset}{unpacked}"


OnBad = Callable[[BadRow], None]
"""What is to be done about a bad row; where it returns, reading goes on behind the row."""


def refuse(row: BadRow) -> None:
    """An :data:`OnBad` that lets no bad row pass.

    Raises:
        InputError: Always; names file, byte and reason.
    """
    message = f"{row.place}: {row.reason}."
    hint = "Repair the file and plan again, or write `on_bad_record: quarantine`."
    raise InputError(message, hint)


def read_lines(
    path: str, file: pa.NativeFile, span: tuple[int, int], parse: Parse, bad: OnBad
) -> Iterator[pa.RecordBatch]:
    """The rows of a range of whole lines, in order, without those of bad lines.

    Args:
        path: Name of the file.
        file: The file, uncompressed, open at any place.
        span: First byte, and the one after the last.
        parse: Reads a block of whole lines.
        bad: Called with each bad row, in order.
    """
    low, high = span
    waiting: deque[tuple[int, bytes, Future[pa.Table | None]]] = deque()

    def first_settled() -> Iterator[pa.RecordBatch]:
        at, block, parsed = waiting.popleft()
        table = parsed.result()
        if table is None:
            parts = list(_good_lines(path, at, block, parse, bad))
            table = pa.concat_tables(parts).combine_chunks() if parts else None
        if table is not None:
            yield from table.to_batches()

    ahead = 0
    with ThreadPoolExecutor(_AHEAD) as pool:
        for at, block in _blocks(file.get_stream(low, high - low), low):
            waiting.append((at, block, pool.submit(_tried, parse, block)))
            if len(waiting) > ahead:
                yield from first_settled()
                # Not before: whoever only looks at the first rows needs no more.
                ahead = _AHEAD
        while waiting:
            yield from first_settled()


def check_text(block: bytes) -> None:
    """Refuse bytes that are no UTF-8.

    Raises:
        ArrowInvalid: They are none. Arrow's readers do not look at all of JSON, nor at columns of
            CSV that are not asked for.
    """
    if block.isascii():
        return
    try:
        pa.array([block], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        message = "it is no UTF-8 text"
        raise pa.ArrowInvalid(message) from None


def check_digits(table: pa.Table) -> None:
    """Refuse decimals with more digits than their columns have.

    Raises:
        ArrowInvalid: There is one: Arrow's readers count digits without the scale.
    """
    for column in table.columns:
        if pa.types.is_decimal(column.type) or pa.types.is_nested(column.type):
            column.validate(full=True)


def _tried(parse: Parse, block: bytes) -> pa.Table | None:
    try:
        return parse(block)
    except pa.ArrowInvalid:
        return None


def _blocks(stream: pa.NativeFile, at: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines, and where the first one begins."""
    rest = b""
    while read := stream.read(_BLOCK_BYTES):
        end = read.rfind(b"\n") + 1
        if not end:
            rest += read
            continue
        block = b"".join((rest, memoryview(read)[:end]))
        yield at, block
        at += len(block)
        rest = read[end:]
    if rest:
        yield at, rest


def _good_lines(path: str, at: int, block: bytes, parse: Parse, bad: OnBad) -> Iterator[pa.Table]:
    """The rows of a block that Arrow could not read at once."""
    try:
        yield parse(block)
    except pa.ArrowInvalid as error:
        half = len(block) // 2
        middle = block.rfind(b"\n", 0, half) + 1 or block.find(b"\n", half) + 1
        if middle in (0, len(block)):
            reason = _ROW_NUMBER.sub("", str(error)).rstrip(".")[:_REASON_CHARACTERS]
            bad(BadRow(path, at, block.rstrip(b"\r\n"), reason))
            return
        yield from _good_lines(path, at, block[:middle], parse, bad)
        yield from _good_lines(path, at + middle, block[middle:], parse, bad)
