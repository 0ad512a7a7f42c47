"""Regions of large files, cut anywhere and read on record borders.

A record belongs to the region in which it begins, so regions that cover a file read each record
once, wherever they were cut (as Hadoop's text input format does for lines).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

_BLOCK_BYTES = 1 << 16


class Region(NamedTuple):
    """A range of bytes of one file.

    Attributes:
        path: The file.
        offset: First byte.
        length: Bytes.
        size: Of the whole file.
    """

    path: str
    offset: int
    length: int
    size: int


def cut(size: int, limit: int) -> list[tuple[int, int]]:
    """Offset and length of the regions that a file is read in: equal ones, of at most ``limit``."""
    count = max(-(-size // limit), 1)
    edges = [size * at // count for at in range(count + 1)]
    return [(low, high - low) for low, high in pairwise(edges)]


def border(file: pa.NativeFile, at: int, mark: bytes, size: int) -> int:
    """Where the first record begins at or after a place: right behind a mark.

    Args:
        file: Open at any place.
        at: The place; the mark itself may lie before it.
        mark: What stands between two records.
        size: Of the file; the answer if no mark follows.
    """
    place = max(at - len(mark), 0)
    kept = b""
    while place < size:
        file.seek(place)
        read: bytes = file.read(_BLOCK_BYTES)
        if not read:
            return size
        block = kept + read
        found = block.find(mark)
        if found >= 0:
            return place - len(kept) + found + len(mark)
        place += len(read)
        kept = block[-(len(mark) - 1) :] if len(mark) > 1 else b""
    return size


def records(file: pa.NativeFile, region: Region, mark: bytes, begin: int = 0) -> tuple[int, int]:
    """First byte of a region's first record, and the one after its last.

    Args:
        file: Open at any place.
        region: The region.
        mark: What stands between two records.
        begin: Where the first record of the file begins.
    """
    edges = [region.offset, region.offset + region.length]

    def first(edge: int) -> int:
        if edge <= begin:
            return begin
        return region.size if edge >= region.size else border(file, edge, mark, region.size)

    return first(edges[0]), first(edges[1])


def skip_blank(file: pa.NativeFile, low: int, high: int) -> int:
    """A place before the first byte that is no white space, from ``low`` on; ``high`` if none is.

    Args:
        file: Open at any place.
        low: Where to begin.
        high: Where to end.
    """
    while low < high:
        file.seek(low)
        block: bytes = file.read(min(_BLOCK_BYTES, high - low))
        if not block:
            return high
        if block.strip():
            return low
        low += len(block)
    return high
