"""Columns that the source got, widened or lost later; an extension changes the target."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import StructField, StructType

from sources.config.table.sink import Sink
from sources.decoding.changes.added_columns import AddedColumn
from sources.extensions import contributions
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.literals import literal


class LaterColumns(NamedTuple):
    """Column changes of a source since the generation began.

    Attributes:
        added: Columns that the source got later; the table gets those that it lacks.
        ignored: Columns of the source that the table leaves out.
        widened: Wider types that the source got later, by column.
        emptied: Columns of the table that lose their values.
    """

    added: Mapping[str, AddedColumn] = MappingProxyType({})
    ignored: Collection[str] = ()
    widened: Mapping[str, str] = MappingProxyType({})
    emptied: Collection[str] = ()


NOTHING_LATER = LaterColumns()
"""That of a source whose columns are those that it had."""


class TargetTable(NamedTuple):
    """Target of a query that is about to start.

    Attributes:
        folder: Its folder.
        table: The table, which is up to date after each change.
        generation: Generation that owns it; its state keeps the records of changes.
    """

    folder: Folder
    table: DeltaTable
    generation: Generation


def follow_later_columns(
    later: LaterColumns, sink: Sink, target: TargetTable, rows: DataFrame
) -> None:
    """Give the target the columns, wider types and nulls that the source got later.

    Called before a query is started. If it is interrupted, the next start repeats it.

    Args:
        later: How the columns differ.
        sink: The declaration of the sink.
        target: The target.
        rows: DataFrame that will be written.

    Raises:
        StateError: Rows may hold other values of a column already, so that it can't be added.
        InputError: An extension can't be loaded.
    """
    if later != NOTHING_LATER:
        for follow in contributions("later_columns"):
            follow(later, sink, target, rows)


def with_added(rows: DataFrame, added: Mapping[str, AddedColumn]) -> DataFrame:
    """Add the columns that the source got later where rows lack them, with the declared default.

    Args:
        rows: Rows of a source.
        added: Type and default of each column that the source got later, by name.
    """
    for name, column in added.items():
        if name not in rows.columns:
            rows = rows.withColumn(name, literal(column.value, column.type))
    return rows


def with_emptied(rows: DataFrame, emptied: Collection[str]) -> DataFrame:
    """Return rows with null in emptied columns, of which older changes still have values.

    Args:
        rows: Rows of a source.
        emptied: The columns; those that the rows lack are left out.
    """
    nulls = {
        name: F.lit(None).cast(rows.schema[name].dataType)
        for name in emptied
        if name in rows.columns
    }
    return rows.withColumns(nulls) if nulls else rows


def table_schema(rows: DataFrame, added: Collection[str]) -> DeltaSchema:
    """Return the Delta schema of a table for rows, in which each added column is nullable.

    Spark itself regards it as not nullable as long as all rows hold its default.
    """
    fields = [
        StructField(field.name, field.dataType, field.nullable or field.name in added)
        for field in rows.schema
    ]
    return DeltaSchema.from_json(StructType(fields).json())
