"""Rows of history as the target has them, so that history need not be parsed again.

The target holds exactly these rows if a pipeline appends what its transform passes on, and nothing
of the topic is in it yet. Spark skips parts of its files by event time.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sources.planning.context import PipelineContext
from sources.serving import target_of
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from spark_jobs.checkpoint.transform_compatibility import read_transforms
from spark_jobs.inside.query.transform.described_transform import apply_to_no_rows
from spark_jobs.inside.query.transform.passed_columns import columns_passed_on
from spark_jobs.run_state.target_record import read_target_record
from spark_jobs.table.delta_table import open_table, paths_of, version_of
from spark_jobs.table.protocol import is_plain
from spark_jobs.table.table_snapshot import is_absolute

# Spark takes paths with these for patterns.
_PATTERN = frozenset("*?[]{}\\")


def is_in_table(spark: SparkSession, context: PipelineContext, columns: Collection[str]) -> bool:
    """Return whether the target gets all rows of history, with some of their columns as they are.

    Call it once the query over history was built.

    Args:
        spark: The Spark session.
        context: The pipeline and its state.
        columns: Names of the columns.
    """
    pipeline, used = context.pipeline, read_transforms(context.generation)
    if context.input is not None:
        # The transform has other inputs, too.
        return False
    if pipeline.sink.mode != "append" or pipeline.added_columns or pipeline.widened_columns:
        return False
    # One that another transform has computed in part may lack rows of that part.
    if len(used) != 1:
        return False
    applied = apply_to_no_rows(spark, context)
    if not used[0].is_like(applied.described(context, 0, "")):
        return False
    passed = columns_passed_on(applied.rows, applied.given)
    return passed is not None and set(passed).issuperset(columns)


def rows_of_table(
    spark: SparkSession, context: PipelineContext, source: str, columns: Collection[str]
) -> DataFrame | None:
    """Return history's rows from the target; None if it may lack some, or have others.

    Args:
        spark: The Spark session.
        context: The pipeline and its state.
        source: Name of the topic's source, which follows history.
        columns: Names of columns that the rows have to have.

    Raises:
        InputError: The table can't be read.
        UnavailableError: The table's store does not answer.
    """
    generation, place = context.generation, context.pipeline.place_of(source)
    last = offset_log.last_committed(generation.checkpoint)
    known = read_target_record(generation)
    if last is None or offset_log.offset_of(generation.checkpoint, last, place) is not None:
        return None
    if known is None or known.accepted or known.written != last:
        return None
    target = target_of(context.loaded, generation.name)
    if version_of(target) != known.verified or not is_in_table(spark, context, columns):
        return None
    # Whatever others do from here on is not looked at, and ends the query.
    return _rows_at(spark, target, known.verified)


def _rows_at(spark: SparkSession, target: Folder, version: int) -> DataFrame:
    """Return the rows of a version of a Delta table.

    Spark takes seconds to read a log for the first time, delta-rs milliseconds.
    """
    table = open_table(target, version)
    paths = [unquote(path) for path in paths_of(table)]
    is_ordinary = is_plain(table) and not table.metadata().partition_columns
    is_named = not _PATTERN.intersection(target.url, *paths) and not any(map(is_absolute, paths))
    if not paths or not is_ordinary or not is_named:
        at = spark.read.format("delta").option("versionAsOf", version)
        return at.load(target.hadoop_path)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = [target.folder(path).hadoop_path for path in paths]
    return spark.read.schema(schema).parquet(*files)
