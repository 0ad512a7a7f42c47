"""Stream without rows for a source that is not read, which the real one can replace later."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sources.common.schema import ddl
from sources.storage.folder import Folder


def empty_stream(spark: SparkSession, folder: Folder, columns: pa.Schema) -> DataFrame:
    """Return a stream with the given columns that never has a row.

    Only a glob that matches nothing can be swapped for the real source later: Spark rebuilds the
    last micro-batch at a restart, and checks the paths of a plain folder.

    Args:
        spark: The Spark session.
        folder: Folder that has no folder `nothing`: that of the generation.
        columns: The columns.
    """
    return spark.readStream.schema(ddl(columns)).parquet(f"{folder.hadoop_path}/nothing/*")
