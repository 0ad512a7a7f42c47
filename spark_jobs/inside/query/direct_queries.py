"""When tasks write the rows that they read, past Spark: columns passed on, plain table, append.

So it is done where nothing needs them: the transform passes columns on as they are, the table has
no partitions and is appended to, and the source can be parsed in whole batches. What is in the
table is the same either way, and so are checkpoint and transactions; a run may do the one, and the
next run the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import ddl, parse_schema
from sources.common.sql.sql_names import in_backticks
from sources.storage.folder import Folder
from spark_jobs.inside.arrow_map import map_in_arrow
from spark_jobs.inside.query.places.place import PlaceStream
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.inside.query.transform.described_transform import TransformOnNoRows
from spark_jobs.inside.readers.rows_written_by_tasks import RowWriters
from spark_jobs.inside.readers.topics.decode_records import VALUE
from spark_jobs.inside.sink.appending.append_once import columns_with_statistics
from spark_jobs.inside.sink.appending.direct_sink import DirectSink
from spark_jobs.inside.sink.appending.task_files import CODECS, FILES, HELD, LEFT, TaskFiles
from spark_jobs.inside.sink.driver_batches import DriverBatches
from spark_jobs.inside.sink.required_columns import has_null_partition, with_kept_partitions
from spark_jobs.table.commit_position import CommitPositions
from spark_jobs.table.delta_table import open_table
from spark_jobs.table.ownership.target_guard import TargetGuard
from spark_jobs.table.plain_table import is_plain

_CODEC = "spark.sql.parquet.compression.codec"


def may_be_direct(
    query: QueryDeclaration, streams: Sequence[PlaceStream], on_no_rows: TransformOnNoRows
) -> bool:
    """Return whether tasks write the rows that they read, if the table lets them.

    They do not if the source can't be parsed in whole batches, the transform computes something, or
    the table has partitions, is not appended to, or has columns that the source got later.

    Args:
        query: Declaration of the query.
        streams: Streams of all places.
        on_no_rows: The transform, applied to empty streams.
    """
    pipeline, sink = query.context.pipeline, query.context.pipeline.sink
    if streams[query.index].direct is None or on_no_rows.passed is None or sink.mode != "append":
        return False
    has_others = pipeline.added_columns or pipeline.widened_columns or pipeline.emptied_columns
    return not (sink.partition_by or has_others)


def direct_query(
    query: QueryDeclaration,
    streams: Sequence[PlaceStream],
    on_no_rows: TransformOnNoRows,
    target: Folder,
    guard: TargetGuard,
    positions: CommitPositions,
) -> tuple[DirectSink, DataFrame] | None:
    """Return sink and stream of a query whose tasks write the rows that they read.

    Called while a query is built.

    Args:
        query: Declaration of the query.
        streams: Streams of all places.
        on_no_rows: The transform, applied to empty streams.
        target: Folder of the table, which exists.
        guard: Guard of the target.
        positions: Says the positions of micro-batches, for their commits.

    Returns:
        None if Spark has to process and write the rows: they may not be written past it
        (:func:`may_be_direct`), the table is not a plain one, or tasks can't compress Parquet by
        Spark's codec.

    Raises:
        InputError: The table can't be read.
        UnavailableError: The table's store does not answer.
    """
    direct, columns, rows = streams[query.index].direct, on_no_rows.passed, on_no_rows.rows
    if direct is None or columns is None or not may_be_direct(query, streams, on_no_rows):
        return None
    table = open_table(target)
    codec = str(rows.sparkSession.conf.get(_CODEC)).lower()
    if not is_plain(table) or codec not in CODECS:
        return None
    kinds = {field.name: field.dataType.simpleString() for field in rows.schema}
    files = TaskFiles(target, parse_schema(kinds), columns_with_statistics(table), codec)
    writers = RowWriters(files.writer, FILES, LEFT, HELD)
    # The places of the other sources have no row to read.
    parts = [
        direct.written(writers)
        if number == query.index
        else map_in_arrow(each.rows.select(*map(in_backticks, columns)), files.write, ddl(FILES))
        for number, each in enumerate(streams)
    ]
    written = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
    read = None if direct.read is None else partial(direct.read, writers)
    left, count = direct.left, direct.count
    sink = DirectSink(target, query.generation, guard, files, left, read, count, positions)
    return sink, written


def driver_batches(
    query: QueryDeclaration, streams: Sequence[PlaceStream], columns: Sequence[str] | None
) -> DriverBatches | None:
    """Return the query's micro-batches for the table, of which the driver reads small ones.

    Args:
        query: Declaration of the query.
        streams: Streams of all places.
        columns: The columns that the transform passes on, if it does nothing else; None otherwise.

    Returns:
        None if Spark has to read all: the source can't be decoded without it, the run reads another
        source as well, the transform computes something, or the table has other columns than the
        query began with.
    """
    pipeline, topic = query.context.pipeline, streams[query.index].in_driver
    has_others = pipeline.added_columns or pipeline.widened_columns or pipeline.emptied_columns
    if topic is None or columns is None or has_others or query.growing or query.beside:
        return None

    def rows(batch_id: int) -> pa.RecordBatch | None:
        found = topic.rows(batch_id)
        # Spark refuses such a row.
        if found is None or has_null_partition(pipeline.sink, found):
            return None
        return found.select(columns)

    def parsed(records: DataFrame, batch_id: int) -> DataFrame:
        found = topic.parsed(records, batch_id).select(*map(in_backticks, columns))
        return with_kept_partitions(pipeline.sink, found)

    def records() -> DataFrame:
        # The other places have no row to read; one would be a record that can't be read.
        own = topic.records()
        parts = [
            own if number == query.index else each.rows.select(_as_record(each.rows))
            for number, each in enumerate(streams)
        ]
        every = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
        return every.select(*map(in_backticks, own.columns))

    return DriverBatches(rows, records, parsed)


def _as_record(rows: DataFrame) -> Column:
    """Return the value of a record that has all columns of a row, as JSON."""
    return F.to_json(F.struct(*map(in_backticks, rows.columns))).cast("binary").alias(VALUE)
