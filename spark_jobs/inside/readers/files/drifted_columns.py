"""Columns that have drifted between Parquet files, read as one: renamed and missing ones.

Spark's reader fills a column that a file lacks with null, and reads a narrower type as the wider
one. So the log of the plan has each other name of a column as a column of its own, which is null in
the files without it; and for each default a partition column that says which files lack the column.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import type_name
from sources.common.sql.sql_names import in_backticks
from sources.config.source.file_source import FileSource
from sources.files.columns.drifted_layouts import Layout
from sources.files.columns.schema_drift import default_of
from spark_jobs.inside.literals import literal


def _renamed(source: FileSource) -> dict[str, str]:
    """Return the column of each other name that Spark's reader does not take for it by itself.

    It takes names that differ only in case for the same.
    """
    drift = source.schema_drift
    known: dict[str, tuple[str, str]] = {}
    for old, new in ({} if drift is None else drift.renamed).items():
        if old.lower() != new.lower():
            known.setdefault(old.lower(), (old, new))
    return dict(known.values())


def other_names(source: FileSource) -> list[str]:
    """Return former names (``renamed``) of columns that are read as columns of their own.

    Empty if there are none.
    """
    return list(_renamed(source))


def other_columns(source: FileSource, read: pa.Schema) -> pa.Schema:
    """Return a column for each former name, with the type of the column that it stands for.

    :func:`as_one` joins them; empty if there are none.

    Args:
        source: The declaration.
        read: Planned columns of the files.
    """
    return pa.schema([(old, read.field(new).type) for old, new in _renamed(source).items()])


def lacking_columns(source: FileSource) -> pa.Schema:
    """Return the boolean partition columns that mark files without a column that has a default.

    They exist only in the plan's log; empty without ``schema_drift.defaults``.
    """
    drift = source.schema_drift
    names = [] if drift is None else drift.defaults
    return pa.schema([(_lacking(name), pa.bool_()) for name in names])


def lacking_values(source: FileSource, layouts: Sequence[Layout]) -> list[dict[str, str | None]]:
    """Return for each layout of files its values of :func:`lacking_columns`: ``true`` or ``false``.

    As texts by name, as a Delta log has them; without ``schema_drift.defaults`` each is empty.
    """
    drift = source.schema_drift
    names = [] if drift is None else drift.defaults
    missing = [{of.column for of in layout.differences if of.missing} for layout in layouts]
    return [{_lacking(name): str(name in each).lower() for name in names} for each in missing]


def as_one(
    rows: DataFrame, source: FileSource, read: pa.Schema, kept: Sequence[str] = ()
) -> DataFrame:
    """Return rows of files with differing columns under the planned columns of the source.

    A column's own value counts before those of its former names, of which the first counts that is
    not null, and a declared default for a column that a file lacks.

    Args:
        rows: Rows of the log.
        source: Declaration of the source, with ``schema_drift``.
        read: Planned columns of the files, partition columns included.
        kept: Names of further columns of the log that are kept, in front.

    Raises:
        InputError: The declared default of a column is not a value of its planned type.
    """
    drift = source.schema_drift
    assert drift is not None
    columns = []
    for field in read:
        value = F.col(in_backticks(field.name))
        if others := [old for old, new in _renamed(source).items() if new == field.name]:
            value = F.coalesce(value, *(F.col(in_backticks(other)) for other in others))
        default = default_of(drift, field.name, field.type)
        if default is not None:
            constant = literal(default, type_name(field.type))
            value = F.when(F.col(in_backticks(_lacking(field.name))), constant).otherwise(value)
        columns.append(value.alias(field.name))
    return rows.select(*map(in_backticks, kept), *columns)


def _lacking(column: str) -> str:
    return f"_lacks_{column}"
