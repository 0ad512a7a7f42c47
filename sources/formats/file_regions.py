"""Regions of large files: byte ranges, cut anywhere and read on record boundaries.

A record belongs to the region in which it begins, so regions that cover a file read each record
once, wherever they were cut (as Hadoop's text input format does for lines).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

REGION_BYTES = 64 << 20
"""Largest region of a file that is cut, in bytes."""
_BLOCK_BYTES = 1 << 16


class Region(NamedTuple):
    """A byte range of one file, cut anywhere, of which one task reads the records that begin in it.

    So the last of them may end behind it.

    Attributes:
        path: The file.
        offset: Offset of its first byte.
        length: Number of bytes.
        size: Bytes of the whole file.
    """

    path: str
    offset: int
    length: int
    size: int


def cut_regions(size: int, limit: int) -> list[tuple[int, int]]:
    """Divide a file into regions of about equal length, so that several tasks can read it.

    Args:
        size: Bytes of the file.
        limit: Most bytes of a region.

    Returns:
        Offset and length of each region, in order; a single empty one for an empty file.
    """
    count = max(-(-size // limit), 1)
    edges = [size * index // count for index in range(count + 1)]
    return [(low, high - low) for low, high in pairwise(edges)]


def next_record_start(file: pa.NativeFile, offset: int, mark: bytes, size: int) -> int:
    """Return the offset of the first record that begins at or after an offset.

    ``size`` if none does.

    Args:
        file: The file, open for random access.
        offset: Where to search from; the mark before the record may end exactly there.
        mark: Bytes that separate two records.
        size: Bytes of the file.

    Raises:
        OSError: The file can't be read.
    """
    position = max(offset - len(mark), 0)
    kept = b""
    while position < size:
        file.seek(position)
        read: bytes = file.read(_BLOCK_BYTES)
        if not read:
            return size
        block = kept + read
        index = block.find(mark)
        if index >= 0:
            return position - len(kept) + index + len(mark)
        position += len(read)
        kept = block[-(len(mark) - 1) :] if len(mark) > 1 else b""
    return size


def record_bounds(
    file: pa.NativeFile, region: Region, mark: bytes, first_record: int = 0
) -> tuple[int, int]:
    """Return the byte range of the records that begin in a region.

    The last of them may end after the region; a record that began before it is left out.

    Args:
        file: The file, open for random access.
        region: The region.
        mark: Bytes that separate two records.
        first_record: Offset of the file's first record, after its header.

    Returns:
        Offset of the first record's first byte, and the offset after the last record; both are
        equal if no record begins in the region.

    Raises:
        OSError: The file can't be read.
    """
    edges = [region.offset, region.offset + region.length]

    def first(edge: int) -> int:
        if edge <= first_record:
            return first_record
        if edge >= region.size:
            return region.size
        return next_record_start(file, edge, mark, region.size)

    return first(edges[0]), first(edges[1])
