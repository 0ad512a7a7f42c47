"""Columns that the source got later: in its rows, and in the target."""

from __future__ import annotations

from collections.abc import Mapping

from deltalake import DeltaTable, Field
from deltalake import Schema as DeltaSchema
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.added_columns import AddedColumn
from sources.errors import StateError
from sources.positions import Part, Record
from sources.state import Generation

_NAME = "columns.json"


class FollowedColumn(Part):
    """A column that the target got, and whose default its rows have.

    Attributes:
        type: Its Spark SQL type.
        default: As text; None for null.
        table_version: The last one of the target in which nothing but that was done since.
    """

    type: str
    default: str | None
    table_version: int


class FollowedColumns(Record):
    """All of a generation's, by name."""

    columns: dict[str, FollowedColumn]


def with_added(rows: DataFrame, added: Mapping[str, AddedColumn]) -> DataFrame:
    """Rows with all added columns; those that they lack hold the default."""
    lacking = {name: column for name, column in added.items() if name not in rows.columns}
    return rows.withColumns(
        {name: F.lit(column.value).cast(column.type) for name, column in lacking.items()}
    )


def follow_columns(
    table: DeltaTable,
    path: str,
    rows: DataFrame,
    generation: Generation,
    added: Mapping[str, AddedColumn],
) -> None:
    """Give the target the added columns that it lacks; its rows get the default.

    Call it before the query is started: all rows are older than the columns then. Broken off, it
    is done again; with another default too, as long as nothing was written since.

    Args:
        table: The target; it is as the columns are afterwards.
        path: Its folder.
        rows: What will be written.
        generation: Whose target it is.
        added: The declaration.

    Raises:
        StateError: A column was followed before, with another type or default.
    """
    known = generation.read(_NAME, FollowedColumns)
    columns = {} if known is None else dict(known.columns)
    begun = table.version()
    # The transform may leave some out.
    for name, column in ((each, added[each]) for each in rows.columns if each in added):
        value = column.value
        default = None if value is None else str(value)
        before = columns.get(name)
        if before is not None and (before.type, before.default) == (column.type, default):
            continue
        if before is not None:
            _require_untouched(name, before, column, begun)
        if name not in {field.name for field in table.schema().fields}:
            table.alter.add_columns(_field(rows, name))
        if before is not None or value is not None:
            _fill(rows, path, name, added)
            table.update_incremental()
        columns[name] = FollowedColumn(type=column.type, default=default, table_version=begun)
    ended = {
        name: each.model_copy(update={"table_version": table.version()})
        if each.table_version == begun
        else each
        for name, each in columns.items()
    }
    generation.replace(_NAME, FollowedColumns(columns=ended))


def _fill(rows: DataFrame, path: str, name: str, added: Mapping[str, AddedColumn]) -> None:
    # Delta's UPDATE takes no parameters.
    spark = rows.sparkSession
    spark.sql(
        f"MERGE INTO delta.`{path}` t USING {{source}} s ON true "
        f"WHEN MATCHED THEN UPDATE SET t.`{name}` = s.`{name}`",
        source=with_added(spark.range(1), {name: added[name]}),
    )


def _field(rows: DataFrame, name: str) -> list[Field]:
    fields: list[Field] = DeltaSchema.from_json(rows.select(name).schema.json()).fields
    return fields


def _require_untouched(name: str, known: FollowedColumn, column: AddedColumn, version: int) -> None:
    if known.type != column.type or known.table_version != version:
        message = (
            f"`added_columns`: `{name}` was followed as {known.type} with the default "
            f"{known.default}, and is declared as {column.type} with the default {column.default}."
        )
        hint = "Undo the change, or begin a new generation: `hybrid generation new`."
        raise StateError(message, hint)
