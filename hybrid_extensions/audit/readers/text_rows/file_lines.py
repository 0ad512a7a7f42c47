"""Lines of text files for the audit, split by Python: offsets, encoding, byte order mark."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from hybrid_extensions.comparison.duckdb_database import error_text
from sources.errors import InputError
from sources.formats.compression import inflated

NOT_TEXT = "the line is not UTF-8 text"
_BLOCK_BYTES = 1 << 20
_BYTE_ORDER_MARK = "\ufeff"


class TextRow(NamedTuple):
    """Row of a text file.

    Attributes:
        offset: Byte offset in the file, after decompression.
        reason: Why the row is bad; None if it could be split.
        texts: The JSON text, or the texts of the values; None for a null value.
    """

    offset: int
    reason: str | None
    texts: list[str | None]


def lines_of(path: str, encoding: str | None = None) -> Iterator[tuple[int, str | None]]:
    """Yield the lines of a file (decompressed), each with its offset and line end.

    A line ends with a line feed, a carriage return, or both. A byte order mark at the start of the
    file is no part of the first line.

    Args:
        path: The file.
        encoding: Encoding of its text if it is not UTF-8.

    Yields:
        Offset in bytes, those of the text in UTF-8; and the line, None if it is not UTF-8.

    Raises:
        InputError: The file can't be read.
    """
    lines = _utf8_lines(path) if encoding is None else _decoded_lines(path, encoding)
    try:
        for offset, line in lines:
            yield offset, line.removeprefix(_BYTE_ORDER_MARK) if line and not offset else line
    except (OSError, UnicodeError) as error:
        message = f"File {path} can't be read: {error_text(error)}"
        of_text = (
            "" if encoding is None else " If its text is in another one, correct `csv.encoding`."
        )
        hint = (
            f"Restore the file, or let this user read it.{of_text} Then run `hybrid audit P` again."
        )
        raise InputError(message, hint, file=path) from None


def _open(path: str) -> io.BufferedReader:
    if path.endswith(".deflate"):
        # A codec of Hadoop, which Arrow does not have.
        return inflated(pa.OSFile(path))
    return io.BufferedReader(pa.input_stream(path, compression="detect"), _BLOCK_BYTES)


def _utf8_lines(path: str) -> Iterator[tuple[int, str | None]]:
    offset = 0
    with _open(path) as file:
        for several in file:
            # Bytes have no other line ends than these.
            for line in several.splitlines(keepends=True):
                try:
                    yield offset, line.decode()
                except UnicodeDecodeError:
                    yield offset, None
                offset += len(line)


def _decoded_lines(path: str, encoding: str) -> Iterator[tuple[int, str]]:
    offset = 0
    with io.TextIOWrapper(_open(path), encoding, newline="") as file:
        for line in file:
            yield offset, line
            offset += len(line.encode())
