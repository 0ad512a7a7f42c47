"""When delta-rs merges a micro-batch without Spark: 250,000 rows, 64 MiB, plain table, types.

Spark takes seconds for a MERGE of a hundred rows, the Rust library tens of milliseconds. It is used
only where both write the same rows; the tests compare them. Two traps of the library decide what is
left to Spark: it rounds the statistics of decimals and leaves NaN out of those of floats, by which
readers would skip files that hold what they look for; so the table must not have such statistics
(:mod:`spark_jobs.inside.sink.table_properties`). And it has its own idea of equal floats.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import ArrayType, BinaryType, DecimalType, MapType, StringType, StructType

from sources.common.sql.sql_names import in_backticks
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table, query_rows
from spark_jobs.inside.sink.merging.clauses import When
from spark_jobs.inside.sink.merging.keys import Match
from spark_jobs.inside.sink.table_properties import (
    SAME_STATISTICS,
    STATISTICS,
    with_same_statistics,
)
from spark_jobs.table.delta_table import commit_nothing, commit_once
from spark_jobs.table.plain_table import is_plain

MOST_ROWS = 250_000
"""Keys of a micro-batch up to which its MERGE is small."""
MOST_BYTES = 64 * 2**20
"""Bytes of a micro-batch's texts, and of the files that may be written again."""
USER_METADATA_SETTING = "spark.databricks.delta.commitInfo.userMetadata"
"""Setting of a session: text that its commits have as ``userMetadata``."""
_COMPARABLE = (*SAME_STATISTICS, DecimalType)


class SmallMerge(NamedTuple):
    """Clauses of a MERGE, and the measurements by which delta-rs may do it without Spark.

    Attributes:
        rows: Number of rows of the micro-batch; 0 only if it has none.
        bytes: Bytes of their texts and nested values (:func:`bytes_of`).
        compared: Columns by which rows are compared: those of key and sequence.
        clauses: What becomes of rows.
        empty: Column that has to be null in all rows of the target for these clauses to hold; None
            if they always do.
    """

    rows: int
    bytes: int
    compared: Sequence[str]
    clauses: Sequence[When]
    empty: str | None = None


def bytes_of(rows: DataFrame) -> Column:
    """Return an aggregate: the bytes of all texts and nested values; 0 without any."""
    total = F.lit(0)
    for field in rows.schema:
        value = F.col(in_backticks(field.name))
        match field.dataType:
            case StringType() | BinaryType():
                length = F.octet_length(value)
            case ArrayType() | MapType() | StructType():
                length = F.octet_length(F.to_json(F.struct(value)))
            case _:
                continue
        total += F.coalesce(length, F.lit(0))
    return F.coalesce(F.sum(total), F.lit(0))


def merge_small(
    rows: DataFrame, target: Folder, match: Match, small: SmallMerge, transaction: Transaction
) -> bool:
    """Merge rows by delta-rs in the driver, if they are few and it can write the same as Spark.

    In one commit; nothing is written if the table records the transaction already.

    Args:
        rows: The rows.
        target: The table's folder.
        match: Which row of the table belongs to which of the rows.
        small: The rest of the MERGE.
        transaction: Application id and version of the commit.

    Returns:
        Whether it is done; False if the MERGE is not small, only Spark can do it, or another commit
        was in the way: then Spark has to.

    Raises:
        UnavailableError: The login to the table's store has expired.
    """
    if not compares_alike(rows.schema, small.compared):
        return False
    metadata = rows.sparkSession.conf.get(USER_METADATA_SETTING, None)
    return merge_by_rust(
        lambda: _in_utc(copy_rows(rows.toArrow())), target, match, small, transaction, metadata
    )


def compares_alike(columns: StructType, names: Sequence[str]) -> bool:
    """Return whether Spark and delta-rs compare the values of some columns in the same way.

    They do for integers, dates, timestamps, texts and decimals; the columns have to exist.
    """
    return all(isinstance(columns[name].dataType, _COMPARABLE) for name in names)


def merge_by_rust(
    rows: Callable[[], pa.Table],
    target: Folder,
    match: Match,
    small: SmallMerge,
    transaction: Transaction,
    metadata: str | None,
) -> bool:
    """Merge rows by delta-rs, if they are few and the table is one that it writes as Spark does.

    In one commit; nothing is written if the table records the transaction already.

    Args:
        rows: Returns the rows; called only if they are merged.
        target: The table's folder.
        match: Which row of the table belongs to which of the rows.
        small: The rest of the MERGE; its columns are compared alike (:func:`compares_alike`).
        transaction: Application id and version of the commit.
        metadata: What the commit says in ``userMetadata``; None for nothing.

    Returns:
        Whether it is done; False if Spark has to, as for :func:`merge_small`.

    Raises:
        UnavailableError: The login to the table's store has expired.
    """
    if small.rows > MOST_ROWS or small.bytes > MOST_BYTES:
        return False
    table = delta_table(target)
    if _is_recorded(table, transaction):
        return True
    if not _has_plain_log(table):
        return False
    if small.rows and _touched_bytes(table, match.ranges) > MOST_BYTES:
        return False
    if small.rows and small.empty is not None and _has_values(table, small.empty, match):
        return False
    try:
        if small.rows:
            merge = partial(_merge, table, rows(), match, small.clauses)
            commit_once(merge, target, transaction, metadata)
        if not _is_recorded(table, transaction):
            # A MERGE that changes no row makes no commit.
            commit_once(partial(commit_nothing, table), target, transaction, metadata)
    except CommitFailedError:
        # Somebody else has committed meanwhile. Spark reads the table as it is now, and skips the
        # MERGE if the transaction is there.
        return False
    except DeltaError as error:
        sys.stderr.write(f"Spark merges, as Delta's Rust library can't: {error}\n")
        return False
    return True


def _is_recorded(table: DeltaTable, transaction: Transaction) -> bool:
    version = table.transaction_version(transaction.app_id)
    return version is not None and version >= transaction.version


def _has_plain_log(table: DeltaTable) -> bool:
    """Return whether the table has none of the features, nor statistics, that are Spark's."""
    properties = table.metadata().configuration
    columns = StructType.fromJson(json.loads(table.schema().to_json()))
    # Names with a comma are cut alike on both sides.
    able = ",".join(with_same_statistics(columns)).split(",")
    listed = properties.get(STATISTICS, "").split(",")
    return is_plain(table) and set(listed) <= set(able)


def _touched_bytes(table: DeltaTable, ranges: Mapping[str, tuple[int, int]]) -> int:
    """Return the bytes of the files that may hold a key of the micro-batch, by statistics."""
    files = pa.table(table.get_add_actions(flatten=True))
    may_hold = pa.array([True] * files.num_rows, pa.bool_())
    for name, (low, high) in ranges.items():
        lowest, highest = (_numbers(files, f"{of}.{name}") for of in ("min", "max"))
        if lowest is None or highest is None:
            continue
        is_there = pc.and_(pc.less_equal(lowest, high), pc.greater_equal(highest, low))
        may_hold = pc.and_(may_hold, pc.fill_null(is_there, fill_value=True))
    return int(pc.sum(files.filter(may_hold)["size_bytes"]).as_py() or 0)


def _numbers(files: pa.Table, name: str) -> pa.ChunkedArray | None:
    if name not in files.column_names or not pa.types.is_integer(files[name].type):
        return None
    return files[name].cast(pa.int64())


def _has_values(table: DeltaTable, name: str, match: Match) -> bool:
    """Return whether a column is not null in a row of the target that may be matched."""
    bounds = [
        f"{in_backticks(of)} {sign} {bound}"
        for of, (low, high) in match.ranges.items()
        if pa.types.is_integer(pa.schema(table.schema().to_arrow()).field(of).type)
        for sign, bound in ((">=", low), ("<=", high))
    ]
    condition = " AND ".join([f"{in_backticks(name)} IS NOT NULL", *bounds])
    found = query_rows(table, f"SELECT 1 FROM target WHERE {condition} LIMIT 1")
    return bool(found.read_all().num_rows)


def copy_rows(rows: pa.Table) -> pa.Table:
    """Copy rows that Spark returned into buffers of PyArrow's own, before Rust reads them.

    The Arrow of Spark 4.1 leaves the offsets of an empty child column out, and Rust would read
    whatever is there.
    """
    return rows.take(pa.array(range(rows.num_rows), pa.int64()))


def _in_utc(rows: pa.Table) -> pa.Table:
    """Return rows with timestamps in UTC, as Delta has them; Spark names the session's zone."""
    fields = [
        field.with_type(pa.timestamp(field.type.unit, "UTC"))
        if pa.types.is_timestamp(field.type) and field.type.tz is not None
        else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def _merge(
    table: DeltaTable,
    batch: pa.Table,
    matching: Match,
    clauses: Sequence[When],
    how: CommitProperties,
) -> None:
    merger = table.merge(
        batch, matching.condition, source_alias="s", target_alias="t", commit_properties=how
    )
    for each in clauses:
        condition = each.condition or None
        values = {in_backticks(name): value for name, value in each.values.items()}
        match each.action:
            case "UPDATE":
                merger = merger.when_matched_update(values, condition)
            case "INSERT":
                merger = merger.when_not_matched_insert(values, condition)
            case "DELETE":
                merger = merger.when_matched_delete(condition)
    merger.execute()
