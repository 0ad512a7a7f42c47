"""Columns that a transform has to return, and their types; partition texts that turn into null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import BooleanType, StringType, StructType

from sources.common.sql.sql_names import in_backticks
from sources.config.table.sink import Sink
from sources.errors import InputError, StateError
from sources.storage.folder import Folder
from spark_jobs.inside.errors.error_reports import raise_reported
from spark_jobs.inside.sink.merging.target_columns import TYPE_OF_UNCHANGED, require_validity

NULL_PARTITIONS = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts that Delta turns into null in a column by which a table is partitioned."""


def require_columns(sink: Sink, rows: DataFrame) -> None:
    """Refuse rows that lack a column which the sink names, or have it with an unfit type.

    Names are compared with their case.

    Args:
        sink: The declaration of the sink.
        rows: DataFrame that the transform returns; only its columns are looked at.

    Raises:
        InputError: Such a column is missing, ``sink.deleted`` is not a boolean, ``sink.unchanged``
            is no map of texts or its ``sequence`` no text, ``sink.history`` is no timestamp, or the
            rows have the columns of their validity themselves.
    """
    named = {
        "key": sink.key,
        "partition_by": sink.partition_by,
        "sequence": sink.order,
        "deleted": [] if sink.deleted is None else [sink.deleted],
        "unchanged": [] if sink.unchanged is None else [sink.unchanged],
        "history": [] if sink.history is None else [sink.history],
    }
    for field, names in named.items():
        for name in names:
            if name not in rows.columns:
                message = (
                    f"`sink.{field}` names a column `{name}`, which the transform does not return. "
                    f"It returns {', '.join(rows.columns)}."
                )
                hint = (
                    f"Name one of these columns under `sink.{field}`, or let the function or query "
                    f"of `transform` return `{name}`. Nothing was read or written."
                )
                raise InputError(message, hint, field=f"sink.{field}", column=name)
    if sink.deleted and (kind := rows.schema[sink.deleted].dataType) != BooleanType():
        message = (
            f"`sink.deleted`: column `{sink.deleted}` has the type {kind.simpleString()}. It marks "
            "deleted rows, so it has to be a boolean."
        )
        hint = (
            f"Let the function or query of `transform` return `{sink.deleted}` as a boolean, or "
            "name another column under `sink.deleted`. Nothing was read or written."
        )
        raise InputError(message, hint, field="sink.deleted", column=sink.deleted)
    if sink.history is not None:
        require_validity(rows, sink.history)
    if sink.unchanged is not None:
        _require_types_of_unchanged(sink, sink.unchanged, rows.schema)


def _require_types_of_unchanged(sink: Sink, unchanged: str, columns: StructType) -> None:
    """Refuse types by which the values that changes lack could not be ordered."""
    for field, name, needed, part in (
        ("unchanged", unchanged, TYPE_OF_UNCHANGED, "unchanged"),
        ("sequence", sink.order[0], StringType(), "position"),
    ):
        if (kind := columns[name].dataType) != needed:
            message = (
                f"`sink.{field}`: column `{name}` has the type {kind.simpleString()}; with "
                f"`sink.unchanged` it has to be {needed.simpleString()}."
            )
            hint = (
                f"Let `include` fill `{name}` with `{part}`, and let the function or query of "
                "`transform` pass it on. Nothing was read or written."
            )
            raise InputError(message, hint, field=f"sink.{field}", column=name)


def with_kept_partitions(sink: Sink, rows: DataFrame) -> DataFrame:
    """Return rows that fail the query where Delta would turn the text of a partition into null.

    The row would then not be recognized by its key any more, and come twice.

    Args:
        sink: The declaration of the sink.
        rows: Rows that will be written.
    """
    hint = (
        "Let the transform replace such texts, then run the pipeline again: `hybrid run P`; or "
        "begin a generation without this column in `sink.partition_by`: `hybrid generation new P`."
    )
    for name in sink.partition_by:
        if isinstance(kind := rows.schema[name].dataType, StringType):
            value = F.col(in_backticks(name))
            before = "`sink.partition_by`: a row has the text '"
            after = (
                f"' in column `{name}`, which Delta turns into null. No row of this micro-batch "
                "was written."
            )
            message = F.concat(F.lit(before), value, F.lit(after))
            fields = {"field": F.lit("sink.partition_by"), "column": F.lit(name)}
            refused = raise_reported(InputError, message, hint, fields).cast(kind)
            kept = F.when(value.isin(*NULL_PARTITIONS), refused).otherwise(value)
            rows = rows.withColumn(name, kept)
    return rows


def has_null_partition(sink: Sink, rows: pa.RecordBatch) -> bool:
    """Return whether Delta would turn the text of a partition into null in any of the rows."""
    named = (rows.column(name) for name in sink.partition_by)
    texts = (each for each in named if pa.types.is_string(each.type))
    return any(pc.any(pc.is_in(each, pa.array(NULL_PARTITIONS))).as_py() for each in texts)


def require_same_columns(target: Folder, table: dict[str, Any], rows: StructType) -> None:
    """Refuse rows whose columns differ from those of the target in name or type.

    Their order and nullability may differ.

    Args:
        target: Folder of the table, for the message.
        table: Schema of the table, in Delta's JSON form.
        rows: Columns that the transform returns.

    Raises:
        StateError: Contains each column that differs, with both types.
    """
    there = {field.name: field.dataType.simpleString() for field in StructType.fromJson(table)}
    made = {field.name: field.dataType.simpleString() for field in rows}
    lines = [
        f"  {name}: {there.get(name, 'missing')} in the table, {made.get(name, 'not')} returned"
        for name in {**there, **made}
        if there.get(name) != made.get(name)
    ]
    if lines:
        said = f"The transform's columns differ from those of the table {target}:"
        message = "\n".join([said, *lines, "The query was not started."])
        hint = (
            "Let the transform return the table's columns again, or begin a new generation, whose "
            "table has the new columns: `hybrid generation new P`."
        )
        raise StateError(message, hint, table=target.url, field="transform")
