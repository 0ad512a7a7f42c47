"""Delivery of rows to a feed's function: version of the table, part, and whether it is a load."""

from __future__ import annotations

from typing import NamedTuple

DELETED = "_is_deleted"
"""Boolean column of delivered changes: true where the row is deleted; only its key has values."""


class Delivery(NamedTuple):
    """Description of the rows that a feed's function gets: one part of a version of the table.

    A call that failed, or whose process ended, is repeated with the same version, part and rows,
    unless a load comes instead.

    Attributes:
        feed: Name of the feed.
        version: Version of the Delta table that the rows lead to. It grows from one delivery to the
            next, but for a load.
        is_load: Whether the parts of this version hold the whole table: rows of other keys are to
            be removed. A load begins with part 0, also after it was interrupted.
        part: Number of the part, from 0.
        is_last: Whether it is the last part of the version.
    """

    feed: str
    version: int
    is_load: bool
    part: int
    is_last: bool
