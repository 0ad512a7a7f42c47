"""The table of a generation that computes only changed columns, made in one commit."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from deltalake import CommitProperties, Transaction
from deltalake.transaction import AddAction
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sources.changed_columns.documents import ColumnDifference, PinnedVersion
from sources.common.counting import counted
from sources.planning.context import PipelineContext
from sources.serving import target_of
from sources.storage.folder import Folder
from sources.storage.tables.delta import is_delta_table
from spark_jobs.changed_columns.files import TableFile, read_files
from spark_jobs.changed_columns.fitness import require_plain
from spark_jobs.changed_columns.state import keep_history
from spark_jobs.checkpoint.transform_compatibility import record_transform
from spark_jobs.inside.changed_columns.compute import compute_columns, read_as_they_are
from spark_jobs.inside.changed_columns.difference import computed_columns
from spark_jobs.inside.changed_columns.splice import splice
from spark_jobs.inside.query.transform.described_transform import describe_transform, on_no_rows
from spark_jobs.inside.sink.sink import prepare_table
from spark_jobs.run_state.target_record import TargetRecord
from spark_jobs.table.delta_table import commit_files, open_table
from spark_jobs.table.table_snapshot import TableSnapshot, read_snapshot

_COLUMNS = "_columns"
"""Folder in the table's folder with the files of changed columns, until they are put in."""
_STATISTICS = ("minValues", "maxValues", "nullCount")


@dataclass(frozen=True)
class NewTable:
    """The new table: rows of one version of the serving table, with other columns.

    Attributes:
        context: The generation that it is made for.
        serving: The serving generation, with the definition that was kept for it.
        difference: Which columns are computed, and which stay.
        pinned: The version.
    """

    context: PipelineContext
    serving: PipelineContext
    difference: ColumnDifference
    pinned: PinnedVersion

    @property
    def folder(self) -> Folder:
        """Folder of the table."""
        return target_of(self.context.loaded, self.context.generation.name)

    def is_committed(self) -> bool:
        """Return whether the table has its rows."""
        if not is_delta_table(self.folder):
            return False
        return open_table(self.folder).transaction_version(self.pinned.query) is not None

    def make(self, spark: SparkSession, say: Callable[[str], None], stop: threading.Event) -> bool:
        """Make the table; files of an attempt that broke off are removed first.

        Args:
            spark: The Spark session.
            say: Called with a line of text for each step.
            stop: Event that is set to stop; it is looked at between files.

        Returns:
            Whether it is made; False if that was stopped.

        Raises:
            StateError: The serving table can't be copied column by column, or a file is missing.
            RunError: Rows did not arrive as they are in their file.
        """
        self.folder.delete_all()
        self.context.generation.delete(TargetRecord.NAME)
        source = target_of(self.serving.loaded, self.serving.generation.name)
        table = read_snapshot(source, self.pinned.table_version)
        require_plain(table, self.serving.generation.name)
        files = read_files(table)
        begun = time.monotonic()
        columns = self._compute(spark, table, files)
        changed = ", ".join(f"`{each.name}`" for each in self.difference.changed) or "no column"
        spent = time.monotonic() - begun
        say(f"Computed {changed} for {counted(len(files), 'file')} in {spent:,.1f} s.")
        begun = time.monotonic()
        adds = self._splice(spark, table, files, columns, stop)
        if len(adds) < len(files):
            return False
        spent = time.monotonic() - begun
        say(f"Put {changed} beside the columns that stay in {spent:,.1f} s.")
        self.folder.folder(_COLUMNS).delete_all()
        self._commit(spark, files, adds)
        return True

    def _compute(
        self, spark: SparkSession, table: TableSnapshot, files: Sequence[TableFile]
    ) -> dict[str, Path]:
        """Return the file of changed columns of each file of the table; empty without any."""
        if not self.difference.changed or not files:
            return {}
        context = self.context
        # Not by Delta's reader, which does not tell the number of a row in its file.
        schema = StructType.fromJson(json.loads(table.metadata["schemaString"]))
        inside = [each for each in schema if each.name not in table.partitions]
        paths = [table.folder.path(each.path) for each in files]
        rows = read_as_they_are(spark, paths, StructType(inside))
        given = context.pipeline.current(context.plan.columns_by_name)
        computed = computed_columns(self.serving.loaded, context.loaded, given, rows)
        folder = self.folder.path(_COLUMNS)
        folder.mkdir(parents=True)
        groups = {each.path: each.groups for each in files}
        written = compute_columns(rows, computed, table.folder.root, folder, groups)
        return {each.path: Path(each.columns) for each in written}

    def _splice(
        self,
        spark: SparkSession,
        table: TableSnapshot,
        files: Sequence[TableFile],
        columns: Mapping[str, Path],
        stop: threading.Event,
    ) -> list[AddAction]:
        """Write the table's files; fewer than those of the other table if that was stopped."""
        others = {*self.difference.removed, *(each.name for each in self.difference.changed)}

        def one(file: TableFile) -> AddAction | None:
            if stop.is_set():
                return None
            # A promotion links it into the folder of the file that it is made of.
            name = str(PurePosixPath(file.path).with_name(f"part-{uuid.uuid4()}.parquet"))
            target = self.folder.path(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            given = table.folder.path(file.path)
            return AddAction(
                path=name,
                size=splice(spark, given, columns.get(file.path), self.difference.removed, target),
                partition_values=dict(file.add.get("partitionValues") or {}),
                modification_time=int(time.time() * 1000),
                data_change=True,
                stats=_statistics(file, others),
            )

        with ThreadPoolExecutor(max(spark.sparkContext.defaultParallelism, 1)) as pool:
            return [each for each in pool.map(one, files) if each is not None]

    def _commit(
        self, spark: SparkSession, files: Sequence[TableFile], adds: Sequence[AddAction]
    ) -> None:
        """Record what the table is made of, then list its files in one commit."""
        context, generation, pinned = self.context, self.context.generation, self.pinned
        names = {file.path: add.path for file, add in zip(files, adds, strict=True)}
        keep_history(self.serving, generation, pinned, names)
        reached = f"as {self.serving.generation.name} up to micro-batch {pinned.batch}"
        record_transform(generation, describe_transform(spark, context, 0, reached))
        prepare_table(context.pipeline.sink, self.folder, on_no_rows(spark, context), generation)
        own = Transaction(f"{generation.info.transaction_id}-columns", 1)
        done = [Transaction(pinned.query, pinned.batch), own]
        commit_files(open_table(self.folder), adds, CommitProperties(app_transactions=done))


def _statistics(file: TableFile, others: set[str]) -> str:
    """Return the statistics of a file in the log, without columns that have other values now."""
    found = json.loads(file.add.get("stats") or "{}")
    kept = {
        name: {column: value for column, value in found[name].items() if column not in others}
        for name in _STATISTICS
        if name in found
    }
    return json.dumps({"numRecords": sum(file.groups), **kept})
