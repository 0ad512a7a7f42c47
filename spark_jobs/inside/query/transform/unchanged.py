"""Transform that returns its rows unchanged, for pipelines that only copy a table."""

from __future__ import annotations

from pyspark.sql import DataFrame


def unchanged(rows: DataFrame) -> DataFrame:
    """Return the rows unchanged: the transform of a pipeline that only copies."""
    return rows
