"""Line reader for formats with one row per line: Arrow parses blocks, and bad lines are located.

A block that Arrow can't parse is halved until it can parse the halves or a single line is left,
which is the bad one. So clean files pay nothing, and the parser of the good lines decides what is
bad.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from sources.formats.lines import BadRow, OnBad, blocks
from sources.formats.row_check import RowCheck

Parse = Callable[[bytes], pa.Table]
"""Parser of a block of lines into one row per line, blank lines left out; raises ``ArrowInvalid``
if it can't parse the block."""

_AHEAD = 2
_REASON_CHARACTERS = 500
_ROW_NUMBER = re.compile(r" in row \d+$|\bRow #\d+: ")


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
    """Return Arrow's reason why a row can't be parsed: without row number, up to 500 characters."""
    return _ROW_NUMBER.sub("", str(error)).rstrip(".")[:_REASON_CHARACTERS]


def _parse_or_none(parse: Parse, block: bytes) -> pa.Table | None:
    """Parse a block of lines; return None if Arrow can't parse it."""
    try:
        return parse(block)
    except pa.ArrowInvalid:
        return None


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
