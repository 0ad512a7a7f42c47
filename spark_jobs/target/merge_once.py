"""A MERGE that Delta skips if it was committed before."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sources.storage.folder import Folder

_PREFIX = "spark.databricks.delta.write."


def merge_once(
    rows: DataFrame, target: Folder, condition: str, clauses: str, application: str, version: int
) -> None:
    """Merge rows into a Delta table in one commit, at most once for an application's version.

    Args:
        rows: The rows, ``s`` in the condition and the clauses.
        target: The table's folder; the table is ``t`` there.
        condition: SQL that tells which row of the table belongs to which of the rows.
        clauses: The ``WHEN`` clauses of the MERGE.
        application: Application id of the transaction; the commit records it with the version.
        version: The MERGE is skipped if the table records this version, or a higher one, for the
            application (https://docs.delta.io/latest/delta-streaming.html, idempotent writes).
    """
    # In a streaming batch, settings on any other session silently have no effect.
    spark = rows.sparkSession
    options = {f"{_PREFIX}txnAppId": application, f"{_PREFIX}txnVersion": str(version)}
    for name, value in options.items():
        spark.conf.set(name, value)
    try:
        spark.sql(
            f"MERGE INTO delta.`{target.hadoop_path}` t USING {{source}} s "
            f"ON {condition} {clauses}",
            source=rows,
        )
    finally:
        # Delta applies them to every later write of the session, which it would skip.
        for name in options:
            spark.conf.unset(name)
