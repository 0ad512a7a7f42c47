"""Columns that the source got later: in its rows, and in the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable, Field
from deltalake import Schema as DeltaSchema
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.added_columns import AddedColumn
from sources.errors import StateError
from sources.positions import Record
from sources.state import Generation


class FollowedColumn(Record):
    """A column that the target got, and whose default its rows have.

    Attributes:
        type: Its Spark SQL type.
        default: As text; None for null.
    """

    type: str
    default: str | None


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

    Call it before the query is started: later, nulls may be values. Broken off, it is done again.

    Args:
        table: The target; it is as the columns are afterwards.
        path: Its folder.
        rows: What will be written.
        generation: Whose target it is.
        added: The declaration.

    Raises:
        StateError: A column was followed before, with another type or default.
    """
    for name, column in added.items():
        if name not in rows.columns:
            # The transform leaves it out.
            continue
        value = column.value
        followed = FollowedColumn(type=column.type, default=None if value is None else str(value))
        if (known := generation.read(_name(name), FollowedColumn)) is not None:
            _require_same(name, known, followed)
            continue
        if name not in {field.name for field in table.schema().fields}:
            table.alter.add_columns(_field(rows, name))
        if value is not None:
            _fill(rows, path, name, value)
        generation.put_if_absent(_name(name), followed)


def _field(rows: DataFrame, name: str) -> list[Field]:
    fields: list[Field] = DeltaSchema.from_json(rows.select(name).schema.json()).fields
    return fields


def _fill(rows: DataFrame, path: str, name: str, value: Any) -> None:
    rows.sparkSession.sql(
        f"UPDATE delta.`{path}` SET `{name}` = :value WHERE `{name}` IS NULL",
        args={"value": value},
    )


def _require_same(name: str, known: FollowedColumn, found: FollowedColumn) -> None:
    if known != found:
        message = (
            f"`added_columns`: `{name}` was followed as {known.type} with the default "
            f"{known.default}, and is declared as {found.type} with the default {found.default}."
        )
        hint = "Undo the change, or begin a new generation: `hybrid generation new`."
        raise StateError(message, hint)


def _name(column: str) -> str:
    return f"columns/{column}.json"
