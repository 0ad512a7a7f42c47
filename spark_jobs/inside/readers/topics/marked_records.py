"""Records whose bad ones are marked, and what becomes of these: refused, or left out and staged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.errors import InputError
from spark_jobs.inside.arrow_map import Step, map_in_arrow
from spark_jobs.inside.errors.error_reports import reporting
from spark_jobs.inside.readers.staged_bad_records import unmovable
from spark_jobs.inside.readers.topics.decode_records import REASON, RECORD
from spark_jobs.inside.readers.topics.kafka_stream import LOG_COLUMNS
from spark_jobs.inside.readers.topics.record_errors import raise_at_record

_CHECKED = "__checked"


@dataclass(frozen=True)
class MarkedRecords:
    """Records whose bad ones are marked and not handled yet.

    Attributes:
        rows: Rows with :data:`LOG_COLUMNS` and the inputs of the other three.
        columns: The columns of a parsed row, by name.
        is_bad: Whether the record can't be read; never null.
        reason: Why it can't be read; not null where ``is_bad``.
    """

    rows: DataFrame
    columns: dict[str, Column]
    is_bad: Column
    reason: Column


def any_of(wrong: list[tuple[Column, str]]) -> Column:
    """Return the condition that any of some conditions holds; there has to be at least one."""
    return reduce(lambda left, right: left | right, (condition for condition, _ in wrong))


def first_reason(wrong: list[tuple[Column, str]]) -> Column:
    """Return the reason of the first condition that holds; null if none does.

    There has to be at least one condition.
    """
    return F.coalesce(*(F.when(condition, F.lit(reason)) for condition, reason in wrong))


def without_bad(
    marked: MarkedRecords, remove: Step, row_ddl: str, extra: Sequence[str]
) -> DataFrame:
    """Return the good rows of marked records; Python workers stage the bad ones and leave them out.

    Args:
        marked: The records; only of bad ones timestamp, key and value go to a worker.
        remove: ``mapInArrow`` function that stages rows with a reason, and drops them.
        row_ddl: Columns of its result, as DDL.
        extra: Columns out of ``RECORD`` that good rows keep.
    """
    record = {name: F.when(marked.is_bad, F.col(name)) for name in RECORD if name not in extra}
    rows = marked.rows.select(
        *LOG_COLUMNS,
        *(column.alias(name) for name, column in marked.columns.items()),
        F.when(marked.is_bad, marked.reason).alias(REASON),
        *extra,
        *(column.alias(name) for name, column in record.items()),
    )
    return map_in_arrow(rows, reporting(remove), row_ddl)


def refuse_bad(marked: MarkedRecords, extra: Sequence[str], source: str) -> DataFrame:
    """Return the rows of marked records, of which the first bad one fails the query.

    With an :class:`InputError` that has topic, partition, offset and the reason.

    Args:
        marked: The records.
        extra: Columns out of ``RECORD`` that are kept.
        source: Name of the source, for the hint.
    """
    reason = F.concat(marked.reason, F.lit("."))
    refused = raise_at_record(InputError, reason, _repair(source)).cast("boolean")
    # Each row has to pass: no filter or projection of the transform can avoid it.
    checked = F.when(marked.is_bad, refused).otherwise(unmovable()).alias(_CHECKED)
    rows = marked.rows.select("*", checked).where(_CHECKED)
    columns = (column.alias(name) for name, column in marked.columns.items())
    return rows.select(*LOG_COLUMNS, *columns, *extra)


def _repair(source: str) -> str:
    """Return what to do about a record of a source that can't be read."""
    return (
        "No row of this micro-batch was written. "
        f"If the declaration of source `{source}` is wrong, correct it: it makes all records bad. "
        "If only single records are bad, continue without them: declare `on_bad_record: "
        "quarantine` there, which keeps them in a table; with `on_bad_record: drop` they are lost. "
        "Then run the pipeline again: `hybrid run P`."
    )
