"""Event times that differ from record timestamps by a time zone: a start by time is too late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from sources.common.positions import EndPosition, StartPosition, iso
from sources.common.topic_log import LogRecord
from sources.config.pipeline import Pipeline
from sources.config.source.event_time import EventTime
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.client.sample import dated_records

_STEP_MS = 15 * 60_000
"""Time zones differ by whole quarters of an hour."""
_NEAR_MS = 60_000
_FEWEST = 5
_MOST_OTHERS = 10  # one in so many


def constant_shift_ms(
    source: KafkaSource,
    read: Mapping[str, str],
    event_time: EventTime,
    clock_ms: int,
    sample: Sequence[LogRecord],
) -> int | None:
    """Return the constant by which sampled event times run ahead of record timestamps, or None.

    Returns:
        Whole quarters of an hour, in milliseconds; None if the difference varies by more than a
        minute, is another one, or there are too few records to tell.

    Raises:
        InputError: The expression of ``select`` for the event time can't be evaluated.
        OnlySparkError: Only Spark evaluates it.
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
    shift = round(median(ahead) / _STEP_MS) * _STEP_MS
    others = sum(abs(each - shift) > _NEAR_MS for each in ahead)
    return shift if shift > 0 and others * _MOST_OTHERS <= len(ahead) else None


def check_shift(
    pipeline: Pipeline,
    source: KafkaSource,
    previous: EndPosition | None,
    start: StartPosition,
    shift_ms: int | None,
) -> None:
    """Refuse to start a topic by time at the end of history if event times are local times.

    Args:
        pipeline: Declaration of the pipeline.
        source: Declaration of the topic's source.
        previous: End position of the source before; None for the first source of the chain.
        start: Start position of the topic.
        shift_ms: Result of :func:`constant_shift_ms`.

    Raises:
        SeamError: ``allowed_lateness`` does not reach back as far as the event times are ahead.
    """
    is_by_time = previous is not None and start.time_ms is not None and source.start == "previous"
    if not is_by_time or shift_ms is None or shift_ms <= pipeline.lateness_ms:
        return
    column, hours = pipeline.event_time.column, f"{shift_ms / 3_600_000:g}"
    minutes = shift_ms // 60_000
    message = (
        f"Event times in `{column}` of topic `{source.subscription}` are {minutes} minutes "
        f"({hours} h) later than the timestamps of their records, all of a sample alike: they "
        "seem to be local times without a zone, which are read as UTC, and record timestamps are "
        f"in UTC. A start by time, at {iso(start.time_ms or 0)}, would be {minutes} minutes too "
        "late, and the rows in between would be missing from the table."
    )
    hint = (
        "To take the times as they are, declare `allowed_lateness: "
        f"{minutes + pipeline.lateness_ms // 60_000 + 1} min`, or `start: earliest` for source "
        f"`{source.name}`; with `key`, rows that are in both come once. To have them right, let "
        "`select` of all sources subtract the offset, if it is always the same: "
        f"`{column}: CAST({column} - INTERVAL {minutes} MINUTES AS TIMESTAMP)`; Parquet files, "
        "whose footers have the times, have to be written again instead."
    )
    raise SeamError(message, hint, source=source.name, topic=source.subscription, column=column)
