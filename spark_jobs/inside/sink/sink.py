"""Sink of a query: the target, created once and refused if it does not fit, and its writer."""

from __future__ import annotations

import json
from collections.abc import Callable

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.config.table.sink import VECTORS, Sink
from sources.serving import owner_properties
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.checkpoint.transform_shape import Shape
from spark_jobs.inside.sink.appending.append_once import append_rows
from spark_jobs.inside.sink.driver_batches import DriverBatches
from spark_jobs.inside.sink.later_columns import (
    NOTHING_LATER,
    LaterColumns,
    TargetTable,
    follow_later_columns,
    table_schema,
)
from spark_jobs.inside.sink.merging.merge_once import with_user_metadata
from spark_jobs.inside.sink.merging.merge_strategy import declared_merging
from spark_jobs.inside.sink.merging.small_batches import SmallBatches
from spark_jobs.inside.sink.merging.target_columns import target_rows
from spark_jobs.inside.sink.required_columns import require_columns, require_same_columns
from spark_jobs.inside.sink.table_properties import missing_properties, table_properties
from spark_jobs.run_state.table_locks import table_turn
from spark_jobs.table.commit_position import CommitPositions
from spark_jobs.table.ownership.belonging import TargetSide, require_owner
from spark_jobs.table.ownership.target_guard import TargetGuard, confirm_start, epoch_transaction
from spark_jobs.table.ownership.target_records import announce_start

BatchFunction = Callable[[DataFrame, int], None]
"""A function for ``foreachBatch``."""


def prepare_table(
    sink: Sink,
    target: Folder,
    rows: DataFrame,
    generation: Generation,
    later: LaterColumns = NOTHING_LATER,
) -> TargetGuard:
    """Create the sink's target if it does not exist; refuse one that does not belong to the state.

    Called before a query is started. The start is recorded on both sides, as the next epoch, and
    the table gets the columns, wider types and properties that it lacks.

    Args:
        sink: The declaration of the sink.
        target: The table's folder.
        rows: DataFrame that will be written; it determines the columns.
        generation: Generation (one computation of the whole table) that owns the target.
        later: How the columns of the source differ from those of its beginning; the table follows.

    Returns:
        The guard of the query that is about to start.

    Raises:
        InputError: A column that the sink names is missing from the rows, or has a type that does
            not fit; or the rows have columns that the sink adds.
        StateError: The table was created by another generation or by something else, or does not
            belong to checkpoint and state; a column that the source got later can't be added; or
            the table has other columns than the rows: Delta and MERGE would silently drop some or
            fill others.
        UnavailableError: The store of the state or of the table does not answer.
    """
    require_columns(sink, rows)
    rows = target_rows(rows, sink)
    side = TargetSide(generation, target, is_append=sink.mode == "append")
    record = announce_start(side)
    # Delta's Rust library needs milliseconds where a cold JVM needs seconds.
    table = DeltaTable.create(
        target.url,
        table_schema(rows, later.added),
        mode="ignore",
        partition_by=sink.partition_by or None,
        configuration={**owner_properties(generation), **table_properties(sink, rows.schema)},
        raise_if_key_not_exists=False,
        commit_properties=epoch_transaction(side, record),
        storage_options=target.documents.delta_options,
    )
    require_owner(generation, target, table)
    missing = missing_properties(sink, rows.schema, table.metadata().configuration)
    if missing.get(VECTORS) == "true":
        # From Delta's Rust library it would be a table of readers that know VARIANT, too.
        del missing[VECTORS]
        setting = f"SET TBLPROPERTIES ('{VECTORS}' = 'true')"
        rows.sparkSession.sql(f"ALTER TABLE delta.`{target.hadoop_path}` {setting}")
        table.update_incremental()
    if missing:
        table.alter.set_table_properties(missing)
    follow_later_columns(later, sink, TargetTable(target, table, generation), rows)
    require_same_columns(target, json.loads(table.schema().to_json()), rows.schema)
    return confirm_start(side, record)


def write_stream(  # noqa: PLR0913 - the last one is rare
    rows: DataFrame,
    loaded: LoadedPipeline,
    target: Folder,
    positions: CommitPositions,
    guard: TargetGuard,
    reporting: Callable[[BatchFunction], BatchFunction],
    *,
    in_driver: DriverBatches | None = None,
) -> DataStreamWriter:
    """Return the writer of a query to its sink; the caller sets checkpoint and trigger.

    Each micro-batch is written once, and its commit contains its position. Appended rows have the
    transaction of Delta's own streaming sink, (query id, batch id); the other modes merge by key.
    Commits of rows of a stateful query that appends contain no position, as nothing could resume
    from one without the state. Nothing is written before the query is started.

    Args:
        rows: DataFrame that the transform returned.
        loaded: Declares the sink, and what extensions do around its micro-batches.
        target: The table's folder.
        positions: Say the positions of micro-batches, for their commits.
        guard: Refuses a micro-batch that does not follow what the target holds.
        reporting: Wraps the function for ``foreachBatch`` so that its errors, which Spark turns
            into text, reach the driver with their fields.
        in_driver: The micro-batches of the same rows, of which the driver may read small ones; None
            if Spark has to read all.

    Raises:
        InputError: The sink has ``sequence`` or ``history``, and no installed extension merges so.
    """
    pipeline, generation = loaded.pipeline, positions.generation
    name, is_stateful = generation.info.transaction_id, bool(Shape(rows).stateful)
    if pipeline.sink.mode == "append":

        def append(batch: DataFrame, batch_id: int) -> None:
            guard.before(batch_id)
            append_rows(batch, batch_id, target, generation, None if is_stateful else positions)

        return rows.writeStream.queryName(name).outputMode("append").foreachBatch(reporting(append))

    merging = declared_merging(loaded, target, generation)
    changes = None if in_driver is None else merging.in_driver(rows)
    batches = None if changes is None else in_driver
    given = rows if batches is None else batches.records()
    small, last = None, pipeline.sources[-1]
    # A range of offsets is read by its plan, in batches of its own.
    is_followed = isinstance(last, KafkaSource) and last.until is None
    if is_followed and not is_stateful:
        small = SmallBatches(generation.checkpoint, len(pipeline.sources) - 1)

    def write(batch: DataFrame, batch_id: int) -> None:
        read = None if batches is None else batches.rows(batch_id)
        position = positions.of(batch_id)
        # A compaction that removed a file which a merge reads would make it fail.
        with table_turn(generation):
            if changes is not None and read is not None:
                guard.before(batch_id)
                if changes.merge(read, batch_id, position):
                    return
            if batches is not None:
                batch = batches.parsed(batch, batch_id)
            if small is not None:
                batch = small.in_one_task(batch, batch_id)
            with with_user_metadata(batch.sparkSession, position):
                merging.batch(batch, batch_id, guard)

    writer = given.writeStream.queryName(name).outputMode("update")
    return writer.foreachBatch(reporting(write))
