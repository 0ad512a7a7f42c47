"""The target Delta table: made once for a generation, every write with a transaction id."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import BooleanType, StructType

from sources.common.state import Generation
from sources.config.sink import Sink
from sources.decoding.added_columns import AddedColumn
from sources.errors import InputError, StateError
from sources.generations import OWNER
from spark_jobs.target.added_columns import follow_columns, table_schema
from spark_jobs.target.merge_changes import merge_changes, target_rows
from spark_jobs.target.merge_keys import KeyRange


def prepare_table(
    sink: Sink,
    path: str,
    rows: DataFrame,
    generation: Generation,
    added: Mapping[str, AddedColumn] | None = None,
    ignored: Collection[str] = (),
) -> None:
    """Make the target if it is not there, and refuse one that belongs to something else.

    Args:
        sink: The declaration.
        path: The table's folder, absolute.
        rows: What will be written; tells the columns.
        generation: Whose table it is.
        added: Columns that may have been added since it was made; it gets those that it lacks.
        ignored: Columns of the source that it has not.

    Raises:
        InputError: A column that the sink names is not among the columns, or of a wrong type.
        StateError: The table was made by another generation or by somebody else, or has other
            columns: Delta and MERGE would drop some or fill others without a word.
    """
    named = {
        "key": sink.key,
        "partition_by": sink.partition_by,
        "sequence": sink.order,
        "deleted": [] if sink.deleted is None else [sink.deleted],
    }
    for field, names in named.items():
        for name in names:
            if name not in rows.columns:
                message = f"`sink.{field}`: the transform returns no column `{name}`."
                raise InputError(message, f"It returns {', '.join(rows.columns)}.")
    if sink.deleted and (kind := rows.schema[sink.deleted].dataType) != BooleanType():
        message = f"`sink.deleted`: `{sink.deleted}` is of type {kind.simpleString()}."
        raise InputError(message, "It tells whether a row is gone: make it a boolean.")
    rows = target_rows(rows, sink)
    # Delta's Rust library does in milliseconds what costs a cold JVM seconds.
    table = DeltaTable.create(
        path,
        table_schema(rows, added or {}),
        mode="ignore",
        partition_by=sink.partition_by or None,
        configuration={OWNER: generation.info.transaction_id},
        raise_if_key_not_exists=False,
    )
    if table.metadata().configuration.get(OWNER) != generation.info.transaction_id:
        message = f"The table {path} was not made by this generation ({generation.root})."
        hint = "Name another `sink.path`, or remove the table together with its old state folder."
        raise StateError(message, hint)
    if added or ignored:
        follow_columns(table, rows, generation, added or {}, ignored)
    _require_columns(path, json.loads(table.schema().to_json()), rows.schema)


def _require_columns(path: str, table: dict[str, Any], rows: StructType) -> None:
    """Refuse rows whose columns are not those of the target; nullability does not count."""
    there = {field.name: field.dataType.simpleString() for field in StructType.fromJson(table)}
    made = {field.name: field.dataType.simpleString() for field in rows}
    lines = [
        f"  {name}: {there.get(name, 'missing')} in the table, {made.get(name, 'missing')} returned"
        for name in {**there, **made}
        if there.get(name) != made.get(name)
    ]
    if lines:
        message = "\n".join([f"The transform returns other columns than {path} has:", *lines])
        hint = "Undo the change, or begin a new generation: `hybrid generation new`."
        raise StateError(message, hint)


def write_stream(
    rows: DataFrame, sink: Sink, path: str, generation: Generation
) -> DataStreamWriter:
    """A writer for the one query; checkpoint and trigger are the caller's.

    ``append`` is Delta's own streaming sink: its transaction is (query id, batch id).
    """
    writer = rows.writeStream.queryName(generation.info.transaction_id)
    if sink.mode == "append":
        return writer.format("delta").outputMode("append").option("path", path)
    if sink.sequence:
        return writer.outputMode("update").foreachBatch(
            lambda batch, batch_id: merge_changes(batch, batch_id, path, sink, generation)
        )
    return writer.outputMode("update").foreachBatch(
        lambda batch, batch_id: merge(batch, batch_id, path, sink.key, generation)
    )


def merge(
    batch: DataFrame, batch_id: int, path: str, key: Sequence[str], generation: Generation
) -> None:
    """Update the target by key with one micro-batch; a batch written before is skipped.

    Raises:
        InputError: Two rows of the batch have the same key.
    """
    # Settings on the outer session have no effect, and no error, in a streaming batch.
    spark = batch.sparkSession
    batch = batch.persist()
    try:
        # Evaluates the batch even if Delta will skip the MERGE: else Spark finds the state of
        # the operators above uncommitted and fails.
        keys = KeyRange(batch, key)
        total, distinct, *limits = batch.agg(
            F.count(F.lit(1)), F.count_distinct(F.struct(*key)), *keys.limits
        ).first() or (0, 0)  # fmt: skip
        if total != distinct:
            message = f"Batch {batch_id} holds {total} rows for {distinct} keys ({', '.join(key)})."
            raise InputError(message, "`sink.key` must identify a row that the transform returns.")
        spark.conf.set("spark.databricks.delta.write.txnAppId", generation.info.transaction_id)
        spark.conf.set("spark.databricks.delta.write.txnVersion", str(batch_id))
        spark.sql(
            f"MERGE INTO delta.`{path}` t USING {{source}} s ON {keys.condition(limits)} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            source=batch,
        )
    finally:
        batch.unpersist()
