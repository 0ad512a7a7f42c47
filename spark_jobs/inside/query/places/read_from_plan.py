"""Pace and progress of sources that are read from a plan; changed input not read yet is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from sources.config.source.rate_limit import RateLimit, interval_ms
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.places.history import Planned
from spark_jobs.inside.query.places.place import DirectStream, Reached
from spark_jobs.inside.readers.files.planned_files import PlannedSource


def planned_interval_ms(rate: RateLimit, planned: Planned) -> int:
    """Return the ms between the starts of two micro-batches by which a plan keeps a rate limit.

    0 without a limit. Computed for the largest micro-batch, so that no other one exceeds it.
    """
    return 0 if rate == RateLimit() else interval_ms(rate, planned.largest)


def committed_in_plan(context: PipelineContext, index: int, planned: Planned) -> Any:
    """Refuse a planned source whose unread input has changed; else return what was committed of it.

    What was read is not read again: it may be gone.

    Args:
        context: The pipeline and its state.
        index: Number of the source's place in the union, from 0.
        planned: Reader of the source.

    Returns:
        Spark's offset of the source, decoded from JSON; None if it was never read.

    Raises:
        InputError: Input that is still to be read is missing or was rewritten.
        SeamError: Kafka has deleted records that are still to be read.
        StateError: The checkpoint is damaged.
        UnavailableError: The input's storage or broker, or the state's store, does not answer.
    """
    committed = offset_log.committed_offset(context.generation.checkpoint, index)
    planned.require_unchanged(offset_log.position_in_plan(committed, planned.entries))
    return committed


def reached_in_plan(planned: Planned, committed: Any) -> Reached:
    """Return how far a planned source was read: splits, rows and highest event time.

    Args:
        planned: The source.
        committed: Spark's offset of the source, decoded from JSON; None if it was never read.
    """
    entries = offset_log.position_in_plan(committed, planned.entries)
    splits, rows, event_time_ms = planned.reached(entries)
    return Reached(splits=splits, rows=rows, event_time_ms=event_time_ms)


def direct_files(spark: SparkSession, planned: PlannedSource) -> DirectStream | None:
    """Return the stream of planned files whose reading tasks write the rows themselves.

    None if Spark has to see the rows.
    """
    return DirectStream(partial(planned.written, spark)) if planned.can_be_written else None


def entries_of(context: PipelineContext, index: int, planned: Planned, batch: int) -> range:
    """Return the numbers of the entries of a plan's log that a micro-batch reads.

    Args:
        context: The pipeline and its state.
        index: Number of the source's place in the union, from 0.
        planned: Reader of the source.
        batch: Number of the micro-batch, which the checkpoint has to contain.

    Raises:
        StateError: The checkpoint's file of the micro-batch is missing or damaged.
        UnavailableError: The state's store does not answer.
    """
    checkpoint, position = context.generation.checkpoint, offset_log.position_in_plan
    before = offset_log.offset_of(checkpoint, batch - 1, index) if batch else None
    after = offset_log.offset_of(checkpoint, batch, index)
    return range(position(before, planned.entries), position(after, planned.entries))
