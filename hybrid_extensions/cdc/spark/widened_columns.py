"""Columns widened in the source (`widened_columns`): the target is rewritten in one commit.

Delta's type widening would leave the files as they are; but delta-rs, and with it DuckDB and
whatever else reads the target without Spark, refuses tables with it (deltalake 1.6).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import StructType

from sources.common.sql.sql_names import in_backticks
from sources.config.table.sink import Sink
from sources.decoding.changes.widened_columns import is_widened
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.run_state.table_locks import table_turn


def widen_columns(
    spark: SparkSession,
    target: Folder,
    table: DeltaTable,
    sink: Sink,
    generation: Generation,
    types: Mapping[str, str],
) -> None:
    """Rewrite the target with wider types of some columns, in one commit; rows keep their values.

    Call it before a query is started. If it is interrupted, nothing has changed, and the next start
    repeats it; without a column to widen nothing is done.

    Args:
        spark: Session that rewrites the table.
        target: Folder of the target.
        table: The target; it has the types afterwards.
        sink: The declaration of the sink.
        generation: Generation that owns the target.
        types: Spark SQL types of columns that were widened, by name; a column that the target
            lacks, or has under the transform's own type, is left as it is.
    """
    there = {
        field.name: field.dataType.simpleString()
        for field in StructType.fromJson(_schema(table)).fields
    }
    wider = {
        name: kind
        for name, kind in types.items()
        if name in there and there[name] != kind and is_widened(there[name], kind)
    }
    if not wider:
        return
    # A rewrite takes nothing along that is committed between its version and itself.
    with table_turn(generation):
        table.update_incremental()
        version = table.version()
        rows = spark.read.format("delta").option("versionAsOf", version).load(target.hadoop_path)
        writer = (
            rows.withColumns(
                {name: F.col(in_backticks(name)).cast(kind) for name, kind in wider.items()}
            )
            .write.format("delta")
            .mode("overwrite")
            .option("overwriteSchema", "true")
            # So that the commit is recognized as the pipeline's own.
            .option("txnAppId", f"{generation.info.transaction_id}-columns")
            .option("txnVersion", str(version + 1))
        )
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
        writer.save(target.hadoop_path)
    table.update_incremental()


def _schema(table: DeltaTable) -> dict[str, object]:
    schema: dict[str, object] = json.loads(table.schema().to_json())
    return schema
