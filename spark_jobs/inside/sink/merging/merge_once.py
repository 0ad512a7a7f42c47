"""MERGE in exactly one commit: by delta-rs if it is small, else by Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

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
# Rows up to which the condition of Spark's MERGE names their keys.
_MOST_KEYS = 1000
# Ranges that these are put together to: each is compared with the statistics of each file.
_MOST_SPANS = 64


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
    """Return the condition, with the keys themselves if they are few.

    By them Spark leaves rows of a large table out before it joins, and Delta whole files, for which
    a list of values is no more than their lowest and highest one. There may be none: all changes of
    a micro-batch can be older than a delete or a TRUNCATE.
    """
    if small is None or small.rows > _MOST_KEYS:
        return match.condition
    names = [each for each in match.ranges if isinstance(rows.schema[each].dataType, IntegralType)]
    keys = rows.select(*map(in_backticks, names)).collect() if names else []
    parts = [match.condition]
    for name in names if keys else ():
        values, of = sorted({key[name] for key in keys}), column("t", name)
        spans = [f"({of} >= {low} AND {of} <= {high})" for low, high in _spans(values)]
        parts += [f"{of} IN ({', '.join(map(str, values))})", f"({' OR '.join(spans)})"]
    return " AND ".join(parts)


def _spans(values: Sequence[int]) -> list[tuple[int, int]]:
    """Return ranges (both ends inclusive) of sorted values, cut where the gaps are widest."""
    gaps = sorted(range(1, len(values)), key=lambda at: values[at - 1] - values[at])
    cuts = [0, *sorted(gaps[: _MOST_SPANS - 1]), len(values)]
    return [(values[begin], values[end - 1]) for begin, end in pairwise(cuts)]
