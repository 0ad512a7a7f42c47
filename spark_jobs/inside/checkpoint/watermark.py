"""Watermark of a transform: whether history's order, the seam or `align` would make rows late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame

from sources.common.durations import in_full, span_ms
from sources.common.positions import EndPosition
from sources.common.times import iso
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from spark_jobs.inside.checkpoint.plan_nodes import (
    analyzed_plan,
    each_of,
    kind_of,
    nodes_of,
    number_of,
)

Reads = Literal["all rows", "some rows", "unknown"]
"""What reaches a watermark: the event time of all rows of the sources, of some of them (a filter
comes first), or a time about which their statistics say nothing."""

_DELAY = "the delay of the watermark (`withWatermark`, or `transform.watermark` of a query)"
# Nodes of Spark's plan that keep rows and columns as they are.
_PASSING = ("SubqueryAlias", "ResolvedHint", "Repartition", "EventTimeWatermark")


@dataclass(frozen=True)
class QueryWatermark:
    """Watermark that a transform sets by ``withWatermark``; decides which rows are late.

    Attributes:
        delay_ms: How far rows may lie behind the highest event time read before stateful operators
            (aggregates, joins, deduplication) drop them, in ms.
        reads: Which rows' event times move the watermark: ``all rows`` of the sources; ``some
            rows``, as the transform filters before it; ``unknown``, as its column is not the
            sources' event time but one that the transform has made.
    """

    delay_ms: int
    reads: Reads


def watermark_of(
    rows: DataFrame, given: Sequence[DataFrame], event_time: str
) -> QueryWatermark | None:
    """Return the watermark of a transform, read from its plan; None if it sets none.

    Of several, it has the longest delay, as Spark follows the one that is furthest behind
    (``spark.sql.streaming.multipleWatermarkPolicy``), and what is known of the least known one.

    Args:
        rows: DataFrame that the transform returned.
        given: DataFrames that it was called with: one for each of its inputs.
        event_time: The pipeline's event-time column in ``given``, whose range the plan knows.
    """
    jvm: Any = rows.sparkSession._jvm
    node_class = jvm.org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
    inputs = [analyzed_plan(each) for each in given]
    order: list[Reads] = ["unknown", "some rows", "all rows"]
    nodes = nodes_of(analyzed_plan(rows))
    found = [node for node in nodes if kind_of(node) == "EventTimeWatermark"]
    if not found:
        return None
    read_by = [[_reads(node, each, event_time) for each in inputs] for node in found]
    known = [max(each, key=order.index) for each in read_by]
    delays_ms = [int(node_class.getDelayMs(node.delay())) for node in found]
    return QueryWatermark(max(delays_ms), min(known, key=order.index))


def judge_order(
    source: str, out_of_orderness_ms: int, watermark: QueryWatermark | None, *, is_exact: bool
) -> str | None:
    """Refuse a reading order of history in which stateful operators would drop late rows.

    Called before a query over history is started.

    Args:
        source: Name of the source, for messages.
        out_of_orderness_ms: How far a micro-batch reaches back in event time behind those before
            it, in ms, by the statistics of all rows; at least, where they are only sampled.
        watermark: Watermark of the transform; None if it sets none.
        is_exact: Whether all rows are known; False if files were only sampled.

    Returns:
        A warning if the order is unknown, so that only the count of late rows shows whether any are
        dropped; None if nothing is dropped.

    Raises:
        InputError: All rows reach the watermark, and the known out-of-orderness is its delay or
            more; the message has both.
    """
    if watermark is None:
        return None
    is_within = out_of_orderness_ms < watermark.delay_ms
    if is_exact and is_within and watermark.reads != "unknown":
        return None
    if is_within and not is_exact:
        why = "event times of its files are only sampled"
    elif watermark.reads == "unknown":
        why = "the transform computes, before `withWatermark`, what the watermark reads"
    elif watermark.reads == "some rows":
        why = (
            "the transform filters rows before `withWatermark`; with all rows, micro-batches "
            f"reach back by {in_full(out_of_orderness_ms)}, and the delay is "
            f"{in_full(watermark.delay_ms)}"
        )
    else:
        message = (
            f"Source `{source}`: micro-batches reach back in event time by "
            f"{in_full(out_of_orderness_ms)}, but the transform's watermark allows for "
            f"{in_full(watermark.delay_ms)}: stateful operators would drop rows. The query was not "
            "started."
        )
        hint = (
            f"Raise {_DELAY} above {in_full(out_of_orderness_ms)}; or, if files of `{source}` "
            "overlap in event time, raise its `batch.files` and `batch.bytes`, so that they are "
            "read in one micro-batch, and plan again (`hybrid plan P`). If single rows have a "
            "wrong time, set `event_time.not_after` and `event_time.not_before`."
        )
        raise InputError(message, hint, source=source, field="batch")
    return (
        f"Source `{source}`: whether its rows arrive in order is unknown, because {why}. Rows that "
        "stateful operators drop behind the watermark are counted, and more than "
        "`supervision.late_rows.history` allows end the run."
    )


def judge_arrival(
    source: str, out_of_orderness_ms: int, watermark: QueryWatermark | None
) -> str | None:
    """Warn if stateful operators may drop rows that are read in order of arrival.

    A live run would have dropped the same rows, so nothing is refused.

    Args:
        source: Name of the source, for messages.
        out_of_orderness_ms: How far a micro-batch reaches back in event time behind those before
            it, in ms.
        watermark: Watermark of the transform; None if it sets none.

    Returns:
        A warning if that is the delay or more; None if it is less, or without a watermark.
    """
    if watermark is None or out_of_orderness_ms < watermark.delay_ms:
        return None
    return (
        f"Source `{source}`: in order of arrival, rows came up to {in_full(out_of_orderness_ms)} "
        f"late, and the watermark allows for {in_full(watermark.delay_ms)}. Later ones are "
        "dropped, as a live run would have dropped them. They are counted, and more than "
        "`supervision.late_rows.history` allows end the run."
    )


def judge_seam(
    end: EndPosition, topic: str, watermark: QueryWatermark | None, now_ms: int
) -> str | None:
    """Warn if the watermark at the end of history would drop rows of the topic after it.

    Rows that history lacks have event times from its complete-through time on. Those behind its
    highest event time minus the delay are late: dropped if their window, or what else the operator
    keeps, has ended by then. Whether there are such rows only the run shows.

    Args:
        end: End position of the last bounded source.
        topic: Name of the source that follows.
        watermark: Watermark of the transform; None if it sets none.
        now_ms: The present, in ms since 1970.

    Returns:
        A warning if rows of the topic may be dropped; None if not, or if that is unknown.

    Raises:
        InputError: History would set the watermark into the future, so that rows of the topic that
            arrive now are late.
    """
    if watermark is None or watermark.reads != "all rows" or end.event_times != "exact":
        return None
    reached_ms = end.event_time_ms - watermark.delay_ms
    if reached_ms > now_ms:
        message = (
            f"Source `{end.source}`: its highest event time is {iso(end.event_time_ms)}, which "
            f"sets the watermark to {iso(reached_ms)}, after the present. Stateful operators would "
            f"drop rows of `{topic}` as late until then. The query was not started."
        )
        hint = (
            "Set `event_time.not_after`, so that rows with a wrong clock do not count; or let a "
            "function remove these rows before `withWatermark`."
        )
        raise InputError(message, hint, source=end.source, field="event_time.not_after")
    if end.evidence != "timestamp" or end.complete_through_ms >= reached_ms:
        return None
    needed_ms = end.event_time_ms - end.complete_through_ms
    return (
        f"Source `{topic}`: its rows from {iso(end.complete_through_ms)} to {iso(reached_ms)} may "
        f"be dropped as late. History is complete through the first of these times only, by "
        f"`allowed_lateness` or `complete_through`, and moves the watermark to the second one, "
        f"{in_full(watermark.delay_ms)} behind its highest event time. A delay of `withWatermark` "
        f"of {in_full(needed_ms)} or more drops none of them. Dropped rows are counted, and more "
        "than `supervision.late_rows.live` allows make the live run red."
    )


def judge_alignment(pipeline: Pipeline, watermark: QueryWatermark | None) -> list[str]:
    """Refuse a live topic whose partitions may be further apart than the watermark allows for.

    Called while planning, and before each query is started.

    Args:
        pipeline: The pipeline.
        watermark: Watermark of its transform; None if it sets none.

    Returns:
        A warning if partitions are not aligned, as no watermark needs it; empty if there is nothing
        to warn about.

    Raises:
        InputError: ``align.drift`` of the last source is longer than the watermark's delay.
    """
    live = pipeline.sources[-1]
    align = live.align if isinstance(live, KafkaSource) and live.until is None else None
    if align is None:
        return []
    if watermark is None:
        return [
            f"Source `{live.name}`: `align` does nothing, as the transform sets no watermark: no "
            "row is ever late, and each partition is read as fast as it can be."
        ]
    drift_ms, delay_ms = span_ms(align.drift), watermark.delay_ms
    if drift_ms <= delay_ms:
        return []
    message = (
        f"Source `{live.name}`: `align.drift: {in_full(drift_ms)}` is longer than the delay of the "
        f"transform's watermark, {in_full(delay_ms)}: rows of a partition that is behind would be "
        "late all the same. The query was not started."
    )
    hint = f"Declare an `align.drift` of {in_full(delay_ms)} or less; or raise {_DELAY}."
    raise InputError(message, hint, source=live.name, field="align.drift")


def _reads(watermark: Any, source: Any, event_time: str) -> Reads:
    """Follow a watermark's column from its node down to the plan of the transform's input."""
    number, node = number_of(watermark.eventTime()), watermark.child()
    reads: Reads = "all rows"
    while not node.fastEquals(source):
        kind = kind_of(node)
        if kind == "Project":
            found = next(
                (each for each in each_of(node.projectList()) if number_of(each) == number), None
            )
            value = found.child() if found is not None and kind_of(found) == "Alias" else found
            if value is None or kind_of(value) != "AttributeReference":
                return "unknown"
            number = number_of(value)
        elif kind == "Filter":
            reads = "some rows"
        elif kind not in _PASSING:
            return "unknown"
        node = node.child()
    named = [str(each.name()) for each in each_of(node.output()) if number_of(each) == number]
    return reads if named == [event_time] else "unknown"
