"""How fast a source may be read: a limit by second, changeable while it is read.

As FLIP-27's ``RateLimiterStrategy``, a limit is never exceeded in sum: by any time a run has read
no more than the limit allows by then, and one micro-batch.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

from pydantic import ByteSize, PositiveInt, ValidationError

from sources.common.fields import Declared
from sources.common.positions import Record
from sources.common.state import Generation
from sources.errors import InputError


class RateLimit(Declared):
    """A limit by second; what is left out is not limited.

    Attributes:
        bytes: Of files, on disk.
        files: Files, or regions of large ones.
        rows: Of files whose footers or log tell how many they hold.
        offsets: Of topics, all partitions together.

    """

    bytes: ByteSize | None = None
    files: PositiveInt | None = None
    rows: PositiveInt | None = None
    offsets: PositiveInt | None = None


class CurrentRate(Record):
    """The limit that is in force instead of the declared one.

    Attributes:
        source: Of which source.
        limit: The limit; one without any number lifts the declared one.

    """

    source: str
    limit: RateLimit


class Batch(NamedTuple):
    """What one micro-batch takes in at most; None for what it has nothing of."""

    bytes: int | None = None
    files: int | None = None
    rows: int | None = None
    offsets: int | None = None


def parse_limit(
    size: str | None,
    *,
    files: int | None = None,
    rows: int | None = None,
    offsets: int | None = None,
) -> RateLimit:
    """A limit from what people write.

    Raises:
        InputError: The size is none, or a number is below 1; names it.
    """
    given = {"bytes": size, "files": files, "rows": rows, "offsets": offsets}
    try:
        return RateLimit.model_validate(given)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        if name != "bytes":
            message = f"`{name}: {given[name]}` is no limit: it has to be 1 or more."
            raise InputError(message, "Leave it out for no limit.") from None
        message = f"`{size}` is no number of bytes."
        raise InputError(message, "Write 1000000, 50MB or 50MiB.") from None


def rate_of(generation: Generation, source: str, declared: RateLimit) -> RateLimit:
    """The limit that is in force."""
    current = generation.read(_name(source), CurrentRate)
    return declared if current is None else current.limit


def put_in_force(generation: Generation, source: str, limit: RateLimit) -> None:
    """Put another limit in force, for a run that is under way and those that follow."""
    generation.replace(_name(source), CurrentRate(source=source, limit=limit))


def require_meaning(source: str, kind: str, limit: RateLimit, meant: Collection[str]) -> None:
    """Refuse numbers that mean nothing for a source.

    Args:
        source: Its name.
        kind: What it is, in words.
        limit: The limit.
        meant: The numbers that mean something.

    Raises:
        InputError: Names the first other one.
    """
    if others := [name for name in limit.model_dump(exclude_none=True) if name not in meant]:
        message = f"`rate.{others[0]}` has no meaning for `{source}`, {kind}."
        raise InputError(message, f"Limit {' or '.join(meant)}.")


def interval_ms(limit: RateLimit, largest: Batch) -> int:
    """Time between the starts of two micro-batches that keeps the limit; 0 without one.

    Args:
        limit: The limit.
        largest: The largest of the batches.
    """
    needed = [
        size / allowed
        for size, allowed in (
            (largest.bytes, limit.bytes),
            (largest.files, limit.files),
            (largest.rows, limit.rows),
            (largest.offsets, limit.offsets),
        )
        if size is not None and allowed is not None
    ]
    return math.ceil(max(needed, default=0) * 1000)


def live_pace(
    limit: RateLimit, interval: int, most_offsets: int, partitions: int
) -> tuple[int, int]:
    """Offsets by micro-batch and the time between two that keep a limit of a topic without end.

    Spark takes in at least one offset of each partition that has any
    (``KafkaMicroBatchStream.rateLimit``).

    Args:
        limit: The limit.
        interval: Declared, in milliseconds.
        most_offsets: Of one micro-batch.
        partitions: How many there are.

    Returns:
        Offsets, milliseconds.
    """
    if limit.offsets is None:
        return most_offsets, interval
    slowest = max(interval, interval_ms(limit, Batch(offsets=max(partitions, 1))))
    return min(most_offsets, limit.offsets * slowest // 1000), slowest


def _name(source: str) -> str:
    return f"run/{source}-rate.json"
