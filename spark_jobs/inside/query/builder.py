"""Builder of the query: checks before it starts, the union of its places, trigger and writer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sources.common.sql.sql_names import in_backticks
from sources.common.times import iso, now_ms
from sources.planning.context import PipelineContext
from sources.serving import target_of
from sources.storage.folder import Folder
from spark_jobs.checkpoint.history_watermark import keep_history_watermark
from spark_jobs.checkpoint.kept_settings import overruled_settings
from spark_jobs.checkpoint.transform_compatibility import first_batch, record_transform
from spark_jobs.inside.checkpoint.kept_event_times import require_no_watermark_on
from spark_jobs.inside.checkpoint.plan_nodes import aggregates_of, analyzed_plan
from spark_jobs.inside.checkpoint.watermark import (
    QueryWatermark,
    judge_alignment,
    judge_arrival,
    judge_order,
    judge_seam,
    watermark_of,
)
from spark_jobs.inside.errors.error_reports import reporting_batch
from spark_jobs.inside.query.added_sinks import catalog_entry, copying_sink, require_copying
from spark_jobs.inside.query.direct_queries import direct_query, driver_batches, may_be_direct
from spark_jobs.inside.query.places.place import PlaceStream
from spark_jobs.inside.query.places.read_from_plan import entries_of
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.inside.query.transform.described_transform import (
    TransformOnNoRows,
    apply_to_no_rows,
)
from spark_jobs.inside.query.transform.given_rows import Given, frames_of, require_declared_order
from spark_jobs.inside.query.transform.passed_columns import same_columns
from spark_jobs.inside.query.transform.result_checks import (
    require_extensible,
    require_fitting,
    require_replayable,
    require_row_by_row,
    require_stream,
)
from spark_jobs.inside.readers.detect_wrong_rows import keeping_wrong_rows
from spark_jobs.inside.readers.staged_bad_records import unmovable
from spark_jobs.inside.sink import sink
from spark_jobs.inside.sink.appending.direct_sink import DirectSink
from spark_jobs.inside.sink.driver_batches import DriverBatches
from spark_jobs.inside.sink.later_columns import LaterColumns, with_added, with_emptied
from spark_jobs.inside.sink.required_columns import with_kept_partitions
from spark_jobs.table.commit_position import CommitPositions
from spark_jobs.table.history_files import has_history_files, keep_history_files
from spark_jobs.table.ownership.target_guard import TargetGuard

# Number of partitions that a message lists one by one.
_SHOWN = 8
# Until the next query, which reads more at once, has taken over from one that reads little.
_FIRST_MS = 60_000


@dataclass(frozen=True)
class BuiltQuery:
    """Query as the builder returns it, ready to be started.

    Attributes:
        writer: Spark's writer with target, checkpoint and trigger; ``start()`` starts the query.
        stream: The stream of the source that the run reads.
        beside: The streams of the sources of other inputs that the run reads together with it, by
            the numbers of their places.
        is_paced: Whether a bounded run waits between its micro-batches to keep a rate limit.
        guard: Sees, while the query runs, what others do to the target.
        has_watermark: Whether stateful operators may drop late rows, so that they are counted.
        warnings: What people should know: that the transform or a setting of Spark differs from
            that which the checkpoint was computed with, or that rows may be dropped behind the
            watermark.
    """

    writer: DataStreamWriter
    stream: PlaceStream
    beside: dict[int, PlaceStream]
    is_paced: bool
    guard: TargetGuard
    has_watermark: bool
    warnings: list[str]


def build_query(spark: SparkSession, query: QueryDeclaration) -> BuiltQuery:
    """Build the query: union of the places of each input, transform, target. The caller starts it.

    Before that it checks that sources, transform, checkpoint and target fit each other, creates
    the target if it does not exist, and records the transform in the state folder.

    Args:
        spark: The Spark session.
        query: Declaration of the query.

    Raises:
        InputError: The transform does not fit, planned files changed, stateful operators would
            drop rows, by history's order or by the watermark that it leaves, a watermark is on
            event times that are kept wherever they lie, something else has the name
            ``sink.table``, or no installed extension does what the sink declares.
        UnavailableError: The catalog of ``sink.table`` does not answer.
        SeamError: The start offsets, or records to be read next, are no longer in Kafka; or rows of
            the seam are read twice, and the transform would count them twice.
        StateError: Checkpoint, state and target do not belong together, or a changed transform
            does not fit them.
    """
    context, generation = query.context, query.generation
    pipeline = context.pipeline
    on_no_rows = apply_to_no_rows(spark, context)
    require_stream(pipeline.transform.name, on_no_rows.rows)
    streams = _streams(spark, query, on_no_rows)
    stream = streams[query.index]
    beside = {number: streams[number] for number in query.beside}
    is_direct = may_be_direct(query, streams, on_no_rows)
    # It takes seconds to build a stream of parsed rows, which tasks that write them do not need.
    given, rows = _applied(query, streams, on_no_rows, is_direct=is_direct)
    require_declared_order(pipeline.transform.name, rows, given)
    require_replayable(pipeline, _replayed(query), rows)
    require_extensible(pipeline, rows)
    require_row_by_row(pipeline, rows)
    if pipeline.event_time.outside == "keep":
        require_no_watermark_on(pipeline.event_time.column, on_no_rows.rows)
    # With several inputs, nothing is declared that needs it.
    if isinstance(on_no_rows.given, DataFrame):
        require_fitting(pipeline, on_no_rows.rows, on_no_rows.given)
    watermark = watermark_of(rows, frames_of(given), pipeline.event_time.column)
    judged = [each for n in query.read_places for each in _judge_watermark(query, n, watermark)]
    warnings = [*judged, *judge_alignment(pipeline, watermark)]
    if stream.alignment is not None:
        stream.alignment.is_needed = watermark is not None
    path = target_of(context.loaded, generation.name)
    emptied = {*pipeline.emptied_columns} & same_columns(rows, given)
    later = LaterColumns(
        pipeline.added_columns, pipeline.ignored_columns, pipeline.widened_columns, sorted(emptied)
    )
    require_copying(query)
    entry = catalog_entry(context.loaded, path)
    if entry is not None:
        entry.require_free(spark)
    guard = sink.prepare_table(pipeline.sink, path, rows, generation, later)
    if entry is not None:
        entry.register(spark)
    if not query.is_bounded and query.index:
        if not has_history_files(generation):
            keep_history_watermark(generation)
        keep_history_files(generation, path, context.loaded.target)
    transform = on_no_rows.described(context, first_batch(generation), _reached_in_words(query))
    changed = record_transform(generation, transform)
    overruled = overruled_settings(pipeline, generation.checkpoint)
    warnings += [each for each in (changed, overruled) if each is not None]
    positions = _positions(query, stream)
    direct = direct_query(query, streams, on_no_rows, path, guard, positions)
    if direct is None and is_direct:
        _, rows = _applied(query, streams, on_no_rows, is_direct=False)
    in_driver = driver_batches(query, streams, on_no_rows.passed)
    writer = _writer(query, rows, path, guard, direct, positions, in_driver=in_driver).option(
        "checkpointLocation", generation.checkpoint.hadoop_path
    )
    read = [stream, *beside.values()]
    is_paced = query.is_bounded and any(each.interval_ms > 0 for each in read)
    writer = writer.trigger(**_trigger(query, read, is_paced=is_paced))
    return BuiltQuery(writer, stream, beside, is_paced, guard, watermark is not None, warnings)


def _streams(
    spark: SparkSession, query: QueryDeclaration, on_no_rows: TransformOnNoRows
) -> list[PlaceStream]:
    """Return the streams of all places of a query."""
    # What is aggregated is appended once the watermark has passed it, not by the first commit.
    aggregates = aggregates_of(analyzed_plan(on_no_rows.rows))
    for place in query.places:
        place.may_begin_small = not (aggregates and query.context.pipeline.sink.mode == "append")
    return [place.stream(spark) for place in query.places]


def _trigger(
    query: QueryDeclaration, read: Sequence[PlaceStream], *, is_paced: bool
) -> dict[str, Any]:
    """Return the trigger of a query that reads some streams."""
    if query.is_bounded and not is_paced:
        return {"availableNow": True}
    # No topic is read faster than it may be.
    interval_ms = max(each.interval_ms for each in read)
    if any(each.is_first for each in read):
        interval_ms = max(interval_ms, _FIRST_MS)
    return {"processingTime": f"{interval_ms} milliseconds"}


def _writer(  # noqa: PLR0913 - the last one is rare
    query: QueryDeclaration,
    rows: DataFrame,
    target: Folder,
    guard: TargetGuard,
    direct: tuple[DirectSink, DataFrame] | None,
    positions: CommitPositions,
    *,
    in_driver: DriverBatches | None,
) -> DataStreamWriter:
    """Return the writer of the query to its target, without checkpoint and trigger."""
    pipeline, generation = query.context.pipeline, query.generation
    rows = with_kept_partitions(pipeline.sink, rows)

    def reporting(write: sink.BatchFunction) -> sink.BatchFunction:
        def require_unchanged(batch_id: int, *, is_read: bool) -> None:
            if (files := query.place.files) is not None:
                read = entries_of(query.context, query.index, files, batch_id)
                files.require_unchanged(read.start, read.stop, is_read=is_read)

        def write_planned(batch: DataFrame, batch_id: int) -> None:
            require_unchanged(batch_id, is_read=False)
            write(batch, batch_id)
            # Of one that was written over, rows may be in the table, but not in the checkpoint.
            require_unchanged(batch_id, is_read=True)

        return reporting_batch(keeping_wrong_rows(write_planned, pipeline, generation))

    if (copying := copying_sink(query, target, guard, positions)) is not None:
        return copying.stream(rows, reporting)
    if direct is not None:
        direct_sink, written = direct
        read = None if in_driver is None else in_driver.rows
        return replace(direct_sink, in_driver=read).stream(written, reporting)
    return sink.write_stream(
        rows, query.context.loaded, target, positions, guard, reporting, in_driver=in_driver
    )


def _positions(query: QueryDeclaration, stream: PlaceStream) -> CommitPositions:
    """Return what says the positions of the query's micro-batches."""
    pipeline, topic = query.context.pipeline, query.plan.topic
    seam = query.place.seam if stream.filtering else None
    return CommitPositions(
        query.generation,
        [source.name for source in pipeline.sources],
        {} if topic is None else topic.topics,
        is_append=pipeline.sink.mode == "append",
        seam_end={} if seam is None else seam.seam_end,
    )


def _judge_watermark(
    query: QueryDeclaration, number: int, watermark: QueryWatermark | None
) -> list[str]:
    """Refuse an order of files in which rows would be dropped; return warnings where some may be.

    Nothing is known about the order of a topic's records, nor of files that arrive in a folder.
    """
    place = query.places[number]
    end = place.end
    if end is None or place.out_of_orderness_ms is None:
        return []
    is_exact = end.event_times == "exact"
    source = query.context.pipeline.sources[number].name
    late_ms = place.out_of_orderness_ms
    if place.is_by_arrival:
        found = [judge_arrival(source, late_ms, watermark)]
    else:
        found = [judge_order(source, late_ms, watermark, is_exact=is_exact)]
    if (topic := query.context.pipeline.next_topic(source)) is not None:
        found.append(judge_seam(end, topic.name, watermark, now_ms()))
    return [each for each in found if each is not None]


def _applied(
    query: QueryDeclaration,
    streams: list[PlaceStream],
    on_no_rows: TransformOnNoRows,
    *,
    is_direct: bool,
) -> tuple[Given, DataFrame]:
    """Return what the transform is called with, and its result; without a row if tasks write."""
    if is_direct:
        return on_no_rows.given, on_no_rows.rows
    given = _given(query, streams)
    return given, on_no_rows.transform(given)


def _given(query: QueryDeclaration, streams: list[PlaceStream]) -> Given:
    """Return the rows of all places; of several inputs those of each, by its name.

    Spark's optimizer moves no filter of a transform with several inputs into the sources. A join
    filters nulls of its keys: where that filter ends up decides which columns count as nullable,
    and the state of the join refuses a live run with a column that is, and was not in history.
    """
    context = query.context
    if not context.pipeline.inputs:
        return _union(context, streams)
    names = [source.name for source in context.pipeline.sources]
    by_name = dict(zip(names, streams, strict=True))
    given: dict[str, DataFrame] = {}
    for name, each in context.pipeline.inputs.items():
        own = context.of_source(each.sources[0].name)
        rows = _union(own, [by_name[source.name] for source in own.pipeline.sources])
        given[name] = rows.filter(unmovable())
    return given


def _union(context: PipelineContext, streams: Iterable[PlaceStream]) -> DataFrame:
    """Return the rows of the places of one chain with the columns that the transform sees."""
    columns, pipeline = context.plan.columns.names, context.pipeline
    added, types = pipeline.added_columns, pipeline.widened_columns
    parts = [
        with_added(each.rows, added).select(
            *(
                F.col(in_backticks(n)).cast(types[n]).alias(n) if n in types else in_backticks(n)
                for n in columns
            ),
            *map(in_backticks, added),
        )
        for each in streams
    ]
    return with_emptied(reduce(DataFrame.unionByName, parts), pipeline.emptied_columns)


def _replayed(query: QueryDeclaration) -> list[str]:
    """Return the names of the sources whose rows in the seam are read again."""
    if (seam := query.place.seam) is not None:
        return [query.source.name] if seam.rule == "replay" else []
    return [part.source for part in query.plan.topics if part.seam_rule == "replay"]


def _reached_in_words(query: QueryDeclaration) -> str:
    name, reached = query.source.name, query.place.reached(query.committed())
    if reached.event_time_ms:
        return f"`{name}` up to event time {iso(reached.event_time_ms)}"
    ends = sorted((reached.offsets or {}).items())
    offsets = [f"{at} up to offset {end}" for at, end in ends[:_SHOWN]]
    more = [f"{len(ends) - _SHOWN} more partitions"] if len(ends) > _SHOWN else []
    return "; ".join([*offsets, *more]) or f"all before `{name}`"
