"""MERGE in one commit: by delta-rs if small, else by Spark, which is told keys as ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Transaction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegralType

from sources.common.sql.sql_names import in_backticks
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.clauses import When, column, spark_sql
from spark_jobs.inside.sink.merging.keys import Match
from spark_jobs.inside.sink.merging.small_merge import (
    USER_METADATA_SETTING,
    SmallMerge,
    merge_small,
)

_PREFIX = "spark.databricks.delta.write."
# Rows up to which the condition of Spark's MERGE tells their keys, and keys that it lists.
_MOST_ROWS = 2_000_000
_MOST_KEYS = 1000
# Ranges that all are put together to: each is compared with the statistics of each file.
_MOST_SPANS = 64
# A gap of up to this part of the distance between the lowest and the highest key ends no range.
_DENSE = 4096


@contextmanager
def with_user_metadata(spark: SparkSession, text: str) -> Iterator[None]:
    """Let the commits of a session have a text as ``userMetadata``, as long as the body runs.

    Args:
        spark: The session of the micro-batch: on any other one it has no effect.
        text: The text.
    """
    before = spark.conf.get(USER_METADATA_SETTING, None)
    spark.conf.set(USER_METADATA_SETTING, text)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(USER_METADATA_SETTING)
        else:
            spark.conf.set(USER_METADATA_SETTING, before)


def merge_once(
    rows: DataFrame,
    target: Folder,
    match: Match,
    clauses: Sequence[When],
    transaction: Transaction,
    small: SmallMerge | None = None,
) -> None:
    """Merge rows into a Delta table in one commit, at most once for a transaction.

    By delta-rs if the MERGE is small, otherwise by Spark.

    Args:
        rows: The rows, ``s`` in the condition and the clauses.
        target: The table's folder; the table is ``t`` there.
        match: Which row of the table belongs to which of the rows.
        clauses: What becomes of rows that have a counterpart, and of those that have none.
        transaction: Application id and version, which the commit records. The MERGE is skipped if
            the table records this version, or a higher one, for the application
            (https://docs.delta.io/latest/delta-streaming.html, idempotent writes).
        small: What has to be known for a MERGE without Spark; None if only Spark can do it.

    Raises:
        UnavailableError: The login to the table's store has expired.
    """
    if small is not None and merge_small(rows, target, match, small, transaction):
        return
    # In a streaming batch, settings on any other session silently have no effect.
    spark = rows.sparkSession
    options = {
        f"{_PREFIX}txnAppId": transaction.app_id,
        f"{_PREFIX}txnVersion": str(transaction.version),
    }
    for name, value in options.items():
        spark.conf.set(name, value)
    try:
        spark.sql(
            f"MERGE INTO delta.`{target.hadoop_path}` t USING {{source}} s "
            f"ON {_with_keys(match, rows, small)} {spark_sql(clauses)}",
            source=rows,
        )
    finally:
        # Delta applies them to every later write of the session, which it would skip.
        for name in options:
            spark.conf.unset(name)


def _with_keys(match: Match, rows: DataFrame, small: SmallMerge | None) -> str:
    """Return the condition, with the keys of the rows: those apart by themselves, else as ranges.

    By them Spark leaves rows of a large table out before it joins, and Delta whole files, for which
    a list of values is no more than their lowest and highest one. There may be none: all changes of
    a micro-batch can be older than a delete or a TRUNCATE.
    """
    names = [each for each in match.ranges if isinstance(rows.schema[each].dataType, IntegralType)]
    if small is None or small.rows > _MOST_ROWS or not names:
        return match.condition
    keys = rows.select(*map(in_backticks, names)).toArrow()
    parts = [match.condition]
    for name in names if keys.num_rows else ():
        of, spans = column("t", name), _spans(keys[name])
        ranges = [f"({of} >= {each[0]} AND {of} <= {each[-1]})" for each in spans]
        apart = _apart(spans)
        listed = ", ".join(str(key) for at in apart for key in spans[at])
        either = [ranges[at] for at in range(len(spans)) if at not in apart]
        either += [f"{of} IN ({listed})"] if listed else []
        parts += [f"({' OR '.join(each)})" for each in (either, ranges)]
    return " AND ".join(parts)


def _spans(column: pa.ChunkedArray) -> list[pa.Array]:
    """Return the sorted values of a column, cut at the widest of the gaps that are wide for it."""
    values = pc.unique(column.cast(pa.int64())).sort()
    # Of the lowest and the highest integer, the difference is no signed one.
    gaps = pc.subtract(values[1:], values[:-1]).cast(pa.uint64(), safe=False)
    widest = pc.array_sort_indices(gaps, order="descending")[: _MOST_SPANS - 1]
    wide = (values[-1].as_py() - values[0].as_py()) // _DENSE
    cuts = sorted(at + 1 for at in widest.to_pylist() if gaps[at].as_py() > wide)
    return [values[begin:end] for begin, end in pairwise([0, *cuts, len(values)])]


def _apart(spans: Sequence[pa.Array]) -> set[int]:
    """Return which spans are so small that all their values together are few: their numbers."""
    by_size = sorted(range(len(spans)), key=lambda at: len(spans[at]))
    totals = accumulate(len(spans[at]) for at in by_size)
    return {at for at, total in zip(by_size, totals, strict=True) if total <= _MOST_KEYS}
