"""Sink that copies files of history into the table: one commit each; copies checked before it.

Bytes of a file that needs no change are copied into the table's folder, by the store where it can
do that, and no row is evaluated. A process that dies between copy and commit leaves files that no
log names, which VACUUM removes; the next one copies under other names, so nothing that a paused
process does later changes a file that the table has.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from hybrid_extensions.copied_files.copied_apart import copy_apart
from hybrid_extensions.copied_files.judged_files import JudgedFile
from sources.errors import InputError
from sources.formats.parquet.table_file import statistics
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.sink.appending.append_once import (
    append_once,
    append_rows,
    columns_with_statistics,
)
from spark_jobs.table.commit_position import CommitPositions
from spark_jobs.table.ownership.target_guard import TargetGuard

_AT_ONCE = 16
_Write = Callable[[DataFrame, int], None]


class CopyableHistory(Protocol):
    """Interface of history whose files may be copied into the target as they are."""

    columns: pa.Schema
    """Columns of the files."""

    def files(self, batch_id: int) -> Sequence[JudgedFile] | None:
        """Return the files of a micro-batch if all can be copied into the target.

        Args:
            batch_id: Number of the micro-batch, which the checkpoint has to contain.

        Returns:
            None if a file has to be rewritten, or the micro-batch has other rows, too.

        Raises:
            InputError: A file can't be read.
            StateError: The checkpoint's file of the micro-batch is missing.
        """

    def require_unchanged(self, batch_id: int) -> None:
        """Refuse files of a micro-batch that differ from what was planned.

        Called after they were copied, before the commit.

        Args:
            batch_id: Number of the micro-batch, which the checkpoint has to contain.

        Raises:
            InputError: A planned file is missing or was rewritten.
            StateError: The checkpoint's file of the micro-batch is missing.
        """


class CopyingSink:
    """Sink of a bounded run in ``append`` mode: copies files that need no rewriting into the table.

    Other micro-batches are written by Spark.

    Args:
        target: The table's folder.
        generation: Generation that owns the target.
        history: The history that the query reads.
        guard: Refuses a micro-batch that does not follow what the target holds.
        positions: Says the positions of micro-batches, for their commits.
    """

    def __init__(
        self,
        target: Folder,
        generation: Generation,
        history: CopyableHistory,
        guard: TargetGuard,
        positions: CommitPositions | None = None,
    ) -> None:
        self._target = target
        self._generation = generation
        self._history = history
        self._guard = guard
        self._positions = positions

    def stream(self, rows: DataFrame, reporting: Callable[[_Write], _Write]) -> DataStreamWriter:
        """Return the writer of a query into this sink; the caller sets checkpoint and trigger.

        Args:
            rows: DataFrame that the transform returned.
            reporting: Wraps the ``foreachBatch`` function so that its errors, which Spark turns
                into text, reach the driver with their fields.
        """
        writer = rows.writeStream.queryName(self._generation.info.transaction_id)
        return writer.outputMode("append").foreachBatch(reporting(self.write))

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch to the target in one commit; nothing is done if it is there already.

        Its files are copied if none needs rewriting; otherwise Spark writes the rows.

        Raises:
            InputError: A file is missing, can't be read, or was changed since it was planned.
            StateError: The target lacks micro-batches, or holds later ones.
            CommitFailedError: Another process has written this micro-batch meanwhile.
            UnavailableError: The table's store does not answer.
        """
        self._guard.before(batch_id)
        files = self._history.files(batch_id)
        if files is None:
            append_rows(batch, batch_id, self._target, self._generation, self._positions)
            return

        def copies(table: DeltaTable) -> list[AddAction]:
            made = self._copy(files, table)
            # Looked at after the copies were made: they hold what was planned.
            self._history.require_unchanged(batch_id)
            return made

        append_once(self._target, self._generation, batch_id, copies, self._positions)

    def _copy(self, files: Sequence[JudgedFile], table: DeltaTable) -> list[AddAction]:
        """Copy files into the table's folder; return the actions that add them to the table."""
        columns, names = self._history.columns, columns_with_statistics(table)
        now_ms = int(time.time() * 1000)

        def one(file: JudgedFile) -> AddAction:
            name = f"history-{uuid.uuid4().hex}.parquet"
            path = self._target.location(name)
            try:
                if self._target.is_local:
                    copy_apart(file.path, path)
                else:
                    self._target.documents.copy(file.path, path)
            except FileNotFoundError:
                message = (
                    f"File {file.path} is missing, which was there when it was planned. The "
                    "micro-batch was not written: the table would lack planned rows."
                )
                hint = (
                    "Restore the file as it was planned and run the pipeline again (`hybrid run "
                    "P`), or begin a new generation, which plans the files as they are now: "
                    "`hybrid generation new P`."
                )
                raise InputError(message, hint, file=file.path) from None
            return AddAction(
                path=name,
                size=file.size,
                partition_values=file.partition,
                modification_time=now_ms,
                data_change=True,
                stats=statistics(file.footer, columns, names),
            )

        # A store answers each request after a while, and many at once.
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(one, files))
