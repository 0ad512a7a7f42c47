"""When history's rows for the seam are read from the target, instead of parsing history again.

The target holds exactly these rows if a pipeline appends what its transform passes on, and nothing
of the topic is in it yet. Parts of its files are skipped by event time.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sources.common.schema import TIMESTAMP
from sources.planning.context import PipelineContext
from sources.serving import target_of
from sources.storage.folder import Folder
from sources.storage.tables.delta import dataset_of
from sources.storage.tables.delta_log import is_absolute
from spark_jobs.checkpoint import offset_log
from spark_jobs.checkpoint.transform_compatibility import read_transforms
from spark_jobs.inside.query.transform.described_transform import apply_to_no_rows
from spark_jobs.run_state.target_record import read_target_record
from spark_jobs.table.delta_table import open_table, paths_of, version_of
from spark_jobs.table.plain_table import is_plain

# Spark takes paths with these for patterns.
_PATTERN = frozenset("*?[]{}\\")
_US = 1000  # microseconds in a millisecond


def is_in_table(spark: SparkSession, context: PipelineContext, columns: Collection[str]) -> bool:
    """Return whether the target gets all rows of history, with some of their columns as they are.

    Call it once the query over history was built.

    Args:
        spark: The Spark session.
        context: The pipeline and its state.
        columns: Names of the columns.

    Raises:
        InputError: The transform's function can't be imported or is not callable, or its query file
            can't be read.
        StateError: The record of the transforms is damaged.
        UnavailableError: The state's store does not answer.
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
    return applied.passed is not None and set(applied.passed).issuperset(columns)


def table_of_history(
    spark: SparkSession, context: PipelineContext, source: str, columns: Collection[str]
) -> HistoryTable | None:
    """Return the target if it has history's rows; None if it may lack some, or have others.

    Args:
        spark: The Spark session.
        context: The pipeline and its state.
        source: Name of the topic's source, which follows history.
        columns: Names of columns that the rows have to have.

    Raises:
        InputError: The table can't be read.
        StateError: The state or the checkpoint is damaged.
        UnavailableError: The store of the state or of the table does not answer.
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
    return HistoryTable(target, open_table(target, known.verified))


@dataclass(frozen=True)
class HistoryTable:
    """A version of the target that has the rows of history, and no others.

    Attributes:
        target: The table's folder.
        table: The table at that version.
    """

    target: Folder
    table: DeltaTable

    @property
    def schema(self) -> StructType:
        """Columns of the table at this version, as Spark has them."""
        return StructType.fromJson(json.loads(self.table.schema().to_json()))

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the table's rows at this version as a batch of Spark.

        Spark reads the files of a plain table by their paths, as it needs seconds to read a Delta
        log for the first time, and delta-rs milliseconds; any other table by its log.
        """
        target, paths = self.target, [unquote(path) for path in paths_of(self.table)]
        is_named = not _PATTERN.intersection(target.url, *paths)
        if not paths or not self._is_ordinary or not is_named or any(map(is_absolute, paths)):
            at = spark.read.format("delta").option("versionAsOf", self.table.version())
            return at.load(target.hadoop_path)
        files = [target.folder(path).hadoop_path for path in paths]
        return spark.read.schema(self.schema).parquet(*files)

    def recent(self, columns: Collection[str], at: str, from_ms: int, most: int) -> pa.Table | None:
        """Return rows from an event time on, and those without one, read by this process.

        Args:
            columns: Names of the columns to return.
            at: Name of the event-time column.
            from_ms: The event time, in ms since 1970.
            most: Highest number of rows to read.

        Returns:
            None if there are more, or if Spark has to read the table.

        Raises:
            OSError: A file can't be read.
        """
        rows = dataset_of(self.table) if self._is_ordinary else None
        if rows is None or rows.schema.field(at).type != TIMESTAMP:
            return None
        time = pc.field(at)
        is_recent = (time >= pa.scalar(from_ms * _US, TIMESTAMP)) | time.is_null()
        found = rows.head(most + 1, columns=sorted(columns), filter=is_recent)
        return None if len(found) > most else found

    @property
    def _is_ordinary(self) -> bool:
        return is_plain(self.table) and not self.table.metadata().partition_columns
