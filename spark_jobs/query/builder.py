"""Building the one query: places of the union, transform, target, writer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sources.common.positions import iso
from sources.common.schema import parse_schema
from sources.config.user_functions import load_transform
from sources.decoding.added_columns import types_of
from sources.errors import InputError
from sources.generations import target_of
from spark_jobs.checkpoint.transform_compatibility import Transform, first_batch, record_transform
from spark_jobs.checkpoint.transform_shape import Shape, digest, digest_of_code
from spark_jobs.checkpoint.watermark import require_order
from spark_jobs.query.declaration import QueryDeclaration
from spark_jobs.query.place import PlaceStream, empty_stream
from spark_jobs.readers.spark_errors import reporting_batch
from spark_jobs.target import sink
from spark_jobs.target.added_columns import with_added
from spark_jobs.target.history_files import keep_history_files

# Number of partitions that a message lists one by one.
_SHOWN = 8


@dataclass(frozen=True)
class BuiltQuery:
    """A query that is ready to be started.

    Attributes:
        writer: Spark's writer with target, checkpoint and trigger; ``start()`` starts the query.
        stream: The stream of the source that the run reads.
        is_paced: Whether a bounded run waits between its micro-batches to keep a rate limit.
        changed: A warning if the transform differs from the one that the checkpoint was computed
            with, else None.
    """

    writer: DataStreamWriter
    stream: PlaceStream
    is_paced: bool
    changed: str | None


def build_query(spark: SparkSession, query: QueryDeclaration) -> BuiltQuery:
    """Build the query: union of all places, transform, target. The caller starts it.

    Before that it checks that sources, transform, checkpoint and target fit each other, creates
    the target if it does not exist, and records the transform in the state folder.

    Args:
        spark: The Spark session.
        query: Declaration of the query.

    Raises:
        InputError: The transform does not fit, planned files changed, or history's order would
            make stateful operators drop rows.
        SeamError: The start offsets, or records to be read next, are no longer in Kafka.
        StateError: The checkpoint or the target belongs to another generation (one computation of
            the whole table), or a changed transform does not fit them.
    """
    context, generation = query.context, query.generation
    pipeline = context.pipeline
    streams = [place.stream(spark) for place in query.places]
    stream = streams[query.index]
    rows = load_transform(context.loaded)(_union(query, streams))
    _require_stream(pipeline.transform, rows)
    if query.place.out_of_orderness_ms:
        require_order(query.source.name, query.place.out_of_orderness_ms, rows)
    path = target_of(context.loaded, generation.name)
    later = (pipeline.added_columns, pipeline.ignored_columns)
    sink.prepare_table(pipeline.sink, path, rows, generation, *later)
    if not query.is_bounded and query.index:
        keep_history_files(generation, path)
    changed = record_transform(generation, _transform(spark, query))
    writer = sink.write_stream(rows, pipeline.sink, path, generation, reporting_batch)
    writer = writer.option("checkpointLocation", str(generation.checkpoint))
    is_paced = query.is_bounded and stream.interval_ms > 0
    if query.is_bounded and not is_paced:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{stream.interval_ms} milliseconds")
    return BuiltQuery(writer, stream, is_paced, changed)


def _union(query: QueryDeclaration, streams: list[PlaceStream]) -> DataFrame:
    """Return the rows of all places with the columns that the transform sees."""
    columns, added = query.plan.columns.names, query.context.pipeline.added_columns
    parts = [with_added(each.rows, added).select(*columns, *added) for each in streams]
    return reduce(DataFrame.unionByName, parts)


def _transform(spark: SparkSession, query: QueryDeclaration) -> Transform:
    """Describe the transform by what it makes of a stream of the plan's columns."""
    context = query.context
    function = load_transform(context.loaded)
    columns = {**query.plan.columns_by_name, **types_of(context.pipeline.added_columns)}
    rows = function(empty_stream(spark, query.generation, parse_schema(columns)))
    shape = Shape(rows)
    return Transform(
        name=context.pipeline.transform,
        first_batch=first_batch(query.generation),
        reached=_reached_in_words(query),
        code=digest_of_code(function),
        plan=digest("\n".join(shape.lines)),
        operators=shape.operators,
        spark=spark.version,
    )


def _reached_in_words(query: QueryDeclaration) -> str:
    name, reached = query.source.name, query.place.reached(query.committed())
    if reached.event_time_ms:
        return f"`{name}` up to event time {iso(reached.event_time_ms)}"
    ends = sorted((reached.offsets or {}).items())
    offsets = [f"{at} up to offset {end}" for at, end in ends[:_SHOWN]]
    more = [f"{len(ends) - _SHOWN} more partitions"] if len(ends) > _SHOWN else []
    return "; ".join([*offsets, *more]) or f"all before `{name}`"


def _require_stream(name: str, rows: object) -> None:
    """Refuse what a transform returned, unless it is made of its argument."""
    if not isinstance(rows, DataFrame):
        message = (
            f"`transform: {name}` returned a {type(rows).__name__}; it has to return a DataFrame."
        )
        hint = (
            "Return from this function the DataFrame whose rows go into the target, then run the "
            "pipeline again: `hybrid run P`."
        )
        raise InputError(message, hint, field="transform", value=name)
    if not rows.isStreaming:
        message = (
            f"`transform: {name}` returned a DataFrame that is not made of its argument: the "
            "argument is a stream, the result is not."
        )
        hint = (
            "Compute the result from the DataFrame that the function gets; another table may only "
            "be joined to it. Then run the pipeline again: `hybrid run P`."
        )
        raise InputError(message, hint, field="transform", value=name)
