"""Columns of the target that differ from the transform's: validity of versions, mark of deletes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import MapType, StringType, TimestampType

from sources.common.sql.sql_names import in_backticks
from sources.config.table.sink import VALID_FROM, VALID_TO, Sink
from sources.errors import InputError

TYPE_OF_UNCHANGED = MapType(StringType(), StringType())
"""Type of the column ``sink.unchanged``."""


def target_rows(rows: DataFrame, sink: Sink) -> DataFrame:
    """Return rows with the columns of the target, which may differ from the transform's.

    The column that marks deletes (``sink.deleted``) is dropped if the sink removes deleted rows.
    Those of the validity are added if it keeps all versions.
    """
    if sink.history is not None:
        return with_validity(rows, sink.history)
    return rows.drop(sink.deleted) if sink.deleted and sink.removes_rows else rows


def with_validity(rows: DataFrame, time: str) -> DataFrame:
    """Add the columns of a version's validity: from its own time on, with no end yet (null).

    Args:
        rows: Rows that the transform returned.
        time: Column with the time from which a version is valid (``sink.history``).
    """
    begin = F.col(in_backticks(time)).alias(VALID_FROM)
    return rows.select("*", begin, F.lit(None).cast(TimestampType()).alias(VALID_TO))


def require_validity(rows: DataFrame, time: str) -> None:
    """Refuse rows whose time is no timestamp, or that already have a validity column.

    Args:
        rows: DataFrame that the transform returns; only its columns are looked at.
        time: The column that ``sink.history`` names, which the rows have.

    Raises:
        InputError: Names the column.
    """
    if (kind := rows.schema[time].dataType) != TimestampType():
        message = (
            f"`sink.history`: column `{time}` has the type {kind.simpleString()}. It says from "
            "when on a version is valid, so it has to be a timestamp."
        )
        hint = (
            f"Let the function or query of `transform` return `{time}` as a timestamp, or name "
            "another column under `sink.history`. Nothing was read or written."
        )
        raise InputError(message, hint, field="sink.history", column=time)
    for name in (VALID_FROM, VALID_TO):
        if name in rows.columns:
            message = f"The transform returns a column `{name}`, which `sink.history` adds itself."
            hint = (
                f"Rename `{name}` in the function or query of `transform`, or leave it out there. "
                "Nothing was read or written."
            )
            raise InputError(message, hint, field="sink.history", column=name)
