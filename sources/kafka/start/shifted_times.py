"""Shifted event times, ahead of record timestamps by a time zone: a start by time is too late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sources.common.positions import EndPosition, StartPosition
from sources.common.times import iso
from sources.common.topic_log import LogRecord
from sources.config.pipeline import Pipeline
from sources.config.source.event_time import EventTime
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.client.sampled_event_times import dated_records

_STEP_MS = 15 * 60_000
"""Time zones differ by whole quarters of an hour."""
_SUMMER_MS = 60 * 60_000
_NEAR_MS = 60_000
_FEWEST = 5
_MOST_OTHERS = 10  # one in so many


class Shift(NamedTuple):
    """How far event times are ahead of record timestamps, if that looks like a time zone.

    Attributes:
        ms: The difference in milliseconds, whole quarters of an hour; the larger one of two.
        is_seasonal: Whether some of the records have an hour less, as with summer time.
    """

    ms: int
    is_seasonal: bool = False


def find_shift(
    source: KafkaSource,
    read: Mapping[str, str],
    event_time: EventTime,
    clock_ms: int,
    sample: Sequence[LogRecord],
) -> Shift | None:
    """Return by how much sampled event times are ahead of record timestamps, if by a time zone.

    None if they are not ahead, if the difference varies by more than a minute (except for the hour
    of summer time), is not that of a time zone, or if there are fewer than five records to tell.

    Args:
        source: Declaration of the source.
        read: All columns of a row before ``select``: names and Spark SQL types.
        event_time: The pipeline's event time, with its bounds.
        clock_ms: The clock at which the bounds are measured, in Unix milliseconds.
        sample: Records; those without an event time or a timestamp are skipped.

    Raises:
        InputError: The expression of ``select`` for the event time can't be evaluated.
        OnlySparkError: Only Spark can evaluate it.
        UnavailableError: The schema registry does not answer.
    """
    low_ms, high_ms = event_time.bounds_ms(clock_ms)
    dated = dated_records(source, read, event_time.column, sample)
    ahead = [
        ms - record.timestamp_ms
        for record, ms in dated
        if low_ms <= ms <= high_ms and record.timestamp_ms >= 0
    ]
    if len(ahead) < _FEWEST:
        return None
    nearest = ((each, round(each / _STEP_MS) * _STEP_MS) for each in ahead)
    found = Counter(shift for each, shift in nearest if abs(each - shift) <= _NEAR_MS)
    enough = len(ahead) - len(ahead) // _MOST_OTHERS
    for shift, count in found.most_common(1):
        if count >= enough:
            return Shift(shift) if shift > 0 else None
    for shift, count in found.items():
        winter = found[shift - _SUMMER_MS]
        if shift > 0 and winter and count + winter >= enough:
            return Shift(shift, is_seasonal=True)
    return None


def check_shift(
    pipeline: Pipeline,
    source: KafkaSource,
    previous: EndPosition | None,
    start: StartPosition,
    shift: Shift | None,
) -> None:
    """Refuse to start a topic by time at the end of history if event times are local times.

    Args:
        pipeline: Declaration of the pipeline.
        source: Declaration of the topic's source.
        previous: End position of the source before; None for the first source of the chain.
        start: Start position of the topic.
        shift: Result of :func:`find_shift`; None passes.

    Raises:
        SeamError: ``allowed_lateness`` does not reach back as far as the event times are ahead.
    """
    is_by_time = previous is not None and start.time_ms is not None and source.start == "previous"
    if not is_by_time or shift is None or shift.ms <= pipeline.lateness_ms:
        return
    column, hours = pipeline.event_time.column, f"{shift.ms / 3_600_000:g}"
    minutes = shift.ms // 60_000
    others = (
        "an hour less in other records, as with summer time" if shift.is_seasonal else "all alike"
    )
    message = (
        f"Event times in `{column}` of topic `{source.subscription}` are {minutes} minutes "
        f"({hours} h) later than the timestamps of their records, in a sample {others}: they "
        "seem to be local times without a zone, which are read as UTC, and record timestamps are "
        f"in UTC. A start by time, at {iso(start.time_ms or 0)}, would be {minutes} minutes too "
        "late, and the rows in between would be missing from the table."
    )
    hint = (
        "To take the times as they are, declare `allowed_lateness: "
        f"{minutes + pipeline.lateness_ms // 60_000 + 1} min`, or `start: earliest` for source "
        f"`{source.name}`; with `key`, rows that are in both come once."
    )
    if not shift.is_seasonal:
        hint += (
            " To have them right, let `select` of all sources subtract the offset, if it is always "
            f"the same: `{column}: CAST({column} - INTERVAL {minutes} MINUTES AS TIMESTAMP)`; "
            "Parquet files, whose footers have the times, have to be written again instead."
        )
    raise SeamError(message, hint, source=source.name, topic=source.subscription, column=column)
