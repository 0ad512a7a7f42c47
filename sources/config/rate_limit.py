"""Rate limits: how much of a source may be read per second; can be changed while it is read.

As with FLIP-27's ``RateLimiterStrategy``, a limit holds in total: at any time a run has read no
more than the limit allows since its start, plus one micro-batch.
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
    """Rate limit per second; quantities without a value are not limited.

    Attributes:
        bytes: Bytes of files on disk, such as ``50MB``.
        files: Files, or regions of large files.
        rows: Rows of Parquet, ORC and Delta files, which record how many they hold.
        offsets: Kafka offsets, all partitions of a source together.

    """

    bytes: ByteSize | None = None
    files: PositiveInt | None = None
    rows: PositiveInt | None = None
    offsets: PositiveInt | None = None


class CurrentRate(Record):
    """Rate limit that applies instead of the declared one.

    Attributes:
        source: Name of the source.
        limit: The limit; without any value, the declared limit is lifted.

    """

    source: str
    limit: RateLimit


class Batch(NamedTuple):
    """Largest size of a micro-batch; None for quantities that its source does not have."""

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
    """Return a limit from texts and numbers of a command line or form.

    Args:
        size: Bytes, such as ``50MB``.
        files: Files.
        rows: Rows.
        offsets: Offsets.

    Raises:
        InputError: The size can't be parsed, or a number is below 1.
    """
    given = {"bytes": size, "files": files, "rows": rows, "offsets": offsets}
    try:
        return RateLimit.model_validate(given)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        if name != "bytes":
            message = f"`{name}: {given[name]}` is not a limit: it has to be 1 or more."
            hint = "Omit it for no limit."
            raise InputError(message, hint, field=name, value=str(given[name])) from None
        message = f"`{size}` is not a number of bytes."
        hint = "Write 1000000, 50MB or 50MiB."
        raise InputError(message, hint, field=name, value=str(size)) from None


def rate_of(generation: Generation, source: str, declared: RateLimit) -> RateLimit:
    """Return the limit that applies to a source.

    Args:
        generation: State of the generation.
        source: Name of the source.
        declared: Its declared limit, which applies unless another one was set.
    """
    current = generation.read(_name(source), CurrentRate)
    return declared if current is None else current.limit


def put_in_force(generation: Generation, source: str, limit: RateLimit) -> None:
    """Set the limit of a source, for a running run and later ones."""
    generation.replace(_name(source), CurrentRate(source=source, limit=limit))


def require_meaning(source: str, kind: str, limit: RateLimit, meant: Collection[str]) -> None:
    """Refuse limits that have no meaning for a source.

    Args:
        source: Name of the source.
        kind: Kind of the source, in words.
        limit: The limit.
        meant: Quantities that have a meaning.

    Raises:
        InputError: Names the first quantity without a meaning.
    """
    if others := [name for name in limit.model_dump(exclude_none=True) if name not in meant]:
        message = f"`rate.{others[0]}` has no meaning for `{source}`, {kind}."
        hint = f"Limit {' or '.join(meant)}."
        raise InputError(message, hint, source=source, field=f"rate.{others[0]}")


def interval_ms(limit: RateLimit, largest: Batch) -> int:
    """Return the time between the starts of two micro-batches that keeps a limit.

    Args:
        limit: The limit.
        largest: Size of the largest micro-batch.

    Returns:
        Milliseconds; 0 without a limit.
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
    """Return size and interval of micro-batches that keep a limit of an unbounded topic.

    Spark reads at least one offset of each partition that has any
    (``KafkaMicroBatchStream.rateLimit``).

    Args:
        limit: The limit.
        interval: Declared interval, in milliseconds.
        most_offsets: Highest number of offsets in a micro-batch.
        partitions: Number of partitions.

    Returns:
        Offsets in a micro-batch, and milliseconds between the starts of two.
    """
    if limit.offsets is None:
        return most_offsets, interval
    slowest = max(interval, interval_ms(limit, Batch(offsets=max(partitions, 1))))
    return min(most_offsets, limit.offsets * slowest // 1000), slowest


def _name(source: str) -> str:
    return f"run/{source}-rate.json"
