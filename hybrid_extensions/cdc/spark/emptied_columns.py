"""Columns dropped from the captured table (`emptied_columns`): values removed from all rows."""

from __future__ import annotations

from collections.abc import Collection

from deltalake import DeltaTable, Transaction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.sql.sql_names import in_backticks, quoted
from sources.state.generation import Generation
from sources.storage.folder import Folder
from sources.storage.tables.delta import query_rows
from spark_jobs.inside.sink.merging.clauses import When, of_source
from spark_jobs.inside.sink.merging.keys import Match
from spark_jobs.inside.sink.merging.merge_once import merge_once


def empty_columns(
    target: Folder,
    table: DeltaTable,
    rows: DataFrame,
    generation: Generation,
    emptied: Collection[str],
) -> None:
    """Remove the values of columns from all rows of the target, in one commit.

    Call it before a query is started. If it is interrupted, nothing has changed, and the next
    start repeats it; once no row has a value, nothing is written.

    Args:
        target: Folder of the target.
        table: The target; it is up to date afterwards.
        rows: DataFrame that the transform returns, which has the columns.
        generation: Generation that owns the target.
        emptied: The columns.

    Raises:
        UnavailableError: The login to the table's store has expired.
    """
    if not emptied:
        return
    has_value = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in emptied)
    query = f"SELECT 1 AS x FROM target WHERE {has_value} LIMIT 1"
    if not query_rows(table, query).read_all().num_rows:
        return
    version = table.version()
    nulls = rows.sparkSession.range(1).select(
        *(F.lit(None).cast(rows.schema[name].dataType).alias(name) for name in emptied)
    )
    merge_once(
        nulls,
        target,
        Match(" OR ".join(f"t.{in_backticks(name)} IS NOT NULL" for name in emptied), {}),
        [When("MATCHED", "UPDATE", values=of_source([*emptied]))],
        # So that the commit is recognized as the pipeline's own.
        Transaction(f"{generation.info.transaction_id}-columns", version + 1),
    )
    table.update_incremental()
