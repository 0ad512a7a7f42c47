"""Data files of a version of a lake's table; columns that Spark can't tell apart are refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from sources.common.schema import differences, parse_schema
from sources.common.sql.select import EventColumn
from sources.common.sql.sql_names import in_backticks
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.columns.mapped_columns import MappedColumns
from sources.files.tables.table_position import TablePosition
from sources.formats.event_times import EventTimeRange
from sources.storage.base import File


def require_names(source: str, columns: Iterable[pa.Field], above: str = "") -> None:
    """Refuse column names of a table that Spark can't tell apart or can't resolve.

    Args:
        source: Name of the source, for messages.
        columns: The columns to read, or the fields of a struct.
        above: Prefix of the fields' full names, such as ``address.``; empty for columns.

    Raises:
        InputError: Two names differ in upper and lower case only, or one has a backtick in it.
    """
    known: dict[str, str] = {}
    for field in columns:
        name = f"{above}{field.name}"
        other = known.setdefault(field.name.casefold(), name)
        if other != name or "`" in field.name:
            told = (
                f"has the columns `{other}` and `{name}`, which Spark does not tell apart"
                if other != name
                else f"has a column with a backtick in its name: {name}"
            )
            message = f"Source `{source}`: the table {told}."
            hint = (
                "Rename the column in the table, or declare `schema` with the other columns alone."
            )
            raise InputError(message, hint, source=source, column=name)
        inner = [field.type.field(at) for at in range(field.type.num_fields)]
        require_names(source, inner, f"{name}.")


def require_declared(source: FileSource, columns: pa.Schema) -> None:
    """Refuse a ``schema`` with a column that the table lacks, or has with another type.

    Args:
        source: Declaration of the source.
        columns: Columns of the table, in types that Spark has.

    Raises:
        InputError: Names the column, and both types.
    """
    if not source.columns:
        return
    declared = parse_schema(source.columns)
    present = pa.schema([field for field in columns if field.name in declared.names])
    for name, wanted, found in differences(declared, present):
        if name not in present.names:
            message = (
                f"Source `{source.name}`: its table has no column `{name}`, which `schema` names."
            )
            hint = f"Correct `schema`; the table has {', '.join(columns.names)}."
        else:
            message = (
                f"Source `{source.name}`: column `{name}` is {found} in its table, and `schema` "
                f"declares {wanted}."
            )
            hint = (
                f"Write `{name}: {found}` in `schema`, and convert the column in `select`, such as "
                f"`{name}: CAST({in_backticks(name)} AS {wanted})`."
            )
        raise InputError(message, hint, source=source.name, column=name, field="schema")


@dataclass(frozen=True)
class TableFiles:
    """Data files of one version of a table.

    Attributes:
        files: The files, with sizes in bytes from the table's log; ``modified_ns`` is not known.
        partitions: Partition of each file as text, ``name=value/…``, as
            :func:`sources.storage.folder_partitions.values_of` reads it.
        partition_columns: Names of the partition columns, which no file holds.
        columns: All columns of the table.
        ranges: Number of rows and event-time range (microseconds) of each file, without deleted
            rows.
        deleted: Deletion vector of each file (:mod:`sources.formats.deletion_vectors`), or None.
        mapping: Names of the columns inside the files; None if they are those of the table.
        event: Column of the event time inside the files; its own name if it is a partition column.
        position: The version that was read; None of tables whose commits are not followed.
    """

    files: list[File]
    partitions: list[str]
    partition_columns: list[str]
    columns: pa.Schema
    ranges: list[EventTimeRange]
    deleted: list[bytes | None]
    mapping: MappedColumns | None
    event: EventColumn
    position: TablePosition | None = None
