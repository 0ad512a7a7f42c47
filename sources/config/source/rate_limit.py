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
from sources.common.state_document import Record
from sources.errors import InputError
from sources.state.generation import Generation


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

    @property
    def in_words(self) -> str:
        """The limit as text, such as ``5,000 offsets per second``; ``no limit`` without values."""
        given = self.model_dump(exclude_none=True)
        shown = ", ".join(f"{number:,} {name}" for name, number in given.items())
        return f"{shown} per second" if shown else "no limit"


class CurrentRate(Record):
    """Rate limit that applies instead of the declared one.

    Attributes:
        source: Name of the source.
        limit: The limit; without any value, the declared limit is lifted.

    """

    source: str
    limit: RateLimit


class Batch(NamedTuple):
    """Size of the largest micro-batch of a source; None for a quantity that is not known of it."""

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
    """Return a rate limit from texts and numbers of a command line or form; all are per second.

    Without any value it is no limit.

    Args:
        size: Bytes of files on disk, such as ``50MB``; None for no limit, as for the others.
        files: Files, or regions of large ones.
        rows: Rows of Parquet, ORC and Delta files.
        offsets: Kafka offsets, all partitions together.

    Raises:
        InputError: The size is not a number of bytes, or a number is below 1.
    """
    given = {"bytes": size, "files": files, "rows": rows, "offsets": offsets}
    try:
        return RateLimit.model_validate(given)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        if name != "bytes":
            message = f"`{name}: {given[name]}` is not a limit: it has to be 1 or more."
            hint = f"Write 1 or more, or leave `{name}` out for no limit."
            raise InputError(message, hint, field=name, value=str(given[name])) from None
        message = f"`{size}` is not a number of bytes. Nothing was changed."
        hint = "Write 1000000, 50MB or 50MiB (per second); without `bytes` that limit is lifted."
        raise InputError(message, hint, field=name, value=str(size)) from None


def rate_of(generation: Generation, source: str, declared: RateLimit) -> RateLimit:
    """Return the rate limit that applies to a source now: the one set last, else the declared one.

    A limit without values that was set means no limit, not the declared one.

    Args:
        generation: State of the generation.
        source: Name of the source.
        declared: Its declared limit, which applies unless :func:`put_in_force` set another one.

    Raises:
        StateError: The state document with the limit is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    current = generation.read(_name(source), CurrentRate)
    return declared if current is None else current.limit


def put_in_force(generation: Generation, source: str, limit: RateLimit) -> None:
    """Put a rate limit of a source into force in place of the declared one, until it is set again.

    Written to the state; a run in progress adopts it. Whether the source has such quantities is not
    checked: ``check_rate`` of the source does that.

    Args:
        generation: State of the generation.
        source: Name of the source.
        limit: The limit; without any value, the source is not limited.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_name(source), CurrentRate(source=source, limit=limit))


def require_meaning(source: str, kind: str, limit: RateLimit, meant: Collection[str]) -> None:
    """Refuse a rate limit in quantities that a source does not have, such as offsets of files.

    Args:
        source: Name of the source.
        kind: Kind of the source, in words, for the message.
        limit: The limit.
        meant: Quantities that may be limited, of ``bytes``, ``files``, ``rows`` and ``offsets``.

    Raises:
        InputError: Names the quantity, and those that are allowed.
    """
    if others := [name for name in limit.model_dump(exclude_none=True) if name not in meant]:
        message = f"`rate.{others[0]}` has no meaning for `{source}`, {kind}."
        allowed = " or ".join(f"`{name}`" for name in meant)
        hint = f"Remove `{others[0]}`, and limit {allowed} per second instead."
        raise InputError(message, hint, source=source, field=f"rate.{others[0]}")


def interval_ms(limit: RateLimit, largest: Batch) -> int:
    """Return the milliseconds between starts of micro-batches by which a rate limit is kept.

    Rounded up; 0 if no quantity of the micro-batch is limited.

    Args:
        limit: Rate limit per second.
        largest: Size of the largest micro-batch.
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
    """Return micro-batch size (offsets) and interval (ms) by which a live topic keeps a rate limit.

    The declared ones if offsets are not limited. Spark reads at least one offset of each partition
    that has any (``KafkaMicroBatchStream.rateLimit``), so the interval may become longer.

    Args:
        limit: Rate limit per second; only its ``offsets`` count.
        interval: Declared trigger interval, in milliseconds.
        most_offsets: Declared highest number of offsets in a micro-batch.
        partitions: Number of partitions.
    """
    if limit.offsets is None:
        return most_offsets, interval
    slowest = max(interval, interval_ms(limit, Batch(offsets=max(partitions, 1))))
    return min(most_offsets, limit.offsets * slowest // 1000), slowest


def _name(source: str) -> str:
    return f"run/{source}-rate.json"
