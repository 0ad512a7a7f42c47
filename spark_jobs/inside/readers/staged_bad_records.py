"""Staging of bad records, which are dropped or quarantined without ending the run.

A task writes the bad records it meets as Parquet into a folder of its micro-batch, next to the
checkpoint. A micro-batch may be tried several times, so a record may be staged several times. The
driver collects what was staged once the batch is committed
(:mod:`spark_jobs.inside.driver.reports.collect_bad_records`). What was staged for a batch that did
not commit stays until its replay commits: a sink that has written the batch already skips it, and
then no task stages its records again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.pandas.functions import arrow_udf

from sources.common.schema import TIMESTAMP
from sources.config.source.bad_record_policy import BadKind
from sources.errors import HybridError, RunError
from sources.formats.lines import BadRow
from sources.state.generation import Generation
from sources.state.state_table import write_state_table
from sources.storage.folder import Folder
from spark_jobs.inside.arrow_map import Step
from spark_jobs.inside.errors.error_reports import ReportedError

STAGED = pa.schema(
    [
        ("place", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("kind", pa.string()),
        ("reason", pa.string()),
    ]
)
"""Columns of a bad record: ``place`` is the topic, or the file, whose ``offset`` is a byte;
``kind`` is a :data:`~sources.config.source.bad_record_policy.BadKind`."""
_MARK = "__marked"
_HELD_BYTES = 16 << 20
_STAGED_ROWS = 10_000
# The property that MicroBatchExecution sets on all jobs of a micro-batch.
_BATCH_ID = "streaming.sql.batchId"


def staging_folder(generation: Generation, source: str) -> Folder:
    """Return the folder in which tasks stage a source's bad records for the driver to collect.

    It has one subfolder for each micro-batch, named by its number; it may not exist yet.
    """
    return generation.folder(f"bad/{source}-staged")


class Repairs(Protocol):
    """Detection of good changes that repair rows of a mirror which a bad change left wrong."""

    def wrong_keys(self) -> set[bytes]:
        """Return the record keys of the mirror's rows that a bad change left wrong; maybe none."""

    def staged(self, good: pa.RecordBatch, wrong: Collection[bytes]) -> pa.RecordBatch:
        """Return those of some good changes that have given keys, as rows to be staged.

        Args:
            good: Changes that were read.
            wrong: Record keys of rows that are wrong.

        Returns:
            Rows with the columns of :data:`STAGED`; empty if no change has such a key.
        """


class Stager:
    """Writer of the bad records of one Spark task, for the driver to collect.

    Create it inside a task.

    Args:
        folder: The source's :func:`staging_folder`.

    Raises:
        RunError: The task belongs to no micro-batch of a streaming query.
    """

    def __init__(self, folder: Folder) -> None:
        from pyspark import TaskContext  # noqa: PLC0415 - there is one in a worker only

        task = TaskContext.get()
        batch = task.getLocalProperty(_BATCH_ID) if task is not None else None
        if batch is None:
            message = (
                f"Bad records can't be staged in {folder}: this task belongs to no micro-batch of "
                f"a streaming query (it has no property `{_BATCH_ID}`)."
            )
            hint = "Read the source as a stream, or without a folder for bad records."
            raise RunError(message, hint, transient=False, file=folder.url)
        self._folder = folder.folder(batch)
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, records: pa.RecordBatch) -> None:
        """Add bad records with the columns of :data:`STAGED`; from 16 MiB on they are written.

        Call :meth:`flush` at the end.

        Raises:
            StateError: The state folder can't be written.
            UnavailableError: The state's store does not answer.
        """
        self._held.append(records)
        self._bytes += records.nbytes
        if self._bytes >= _HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the records that are not written yet as one Parquet file, atomically.

        Call it at the end of the task: records that are held until then, up to 16 MiB, would be
        lost without it, neither counted nor quarantined. Without records nothing is written.

        Raises:
            StateError: The state folder can't be written.
            UnavailableError: The state's store does not answer.
        """
        if not self._held:
            return
        staged = pa.Table.from_batches(self._held, STAGED)
        write_state_table(self._folder, f"{uuid.uuid4().hex}.parquet", staged)
        self._held.clear()
        self._bytes = 0


class RowStager:
    """Stager of the bad rows of files: a function that takes them one by one.

    Args:
        folder: The source's :func:`staging_folder`.
        keeps: Whether to keep a row's content, or only file, byte offset and why it is bad.
        kind: Why the rows are bad.

    Raises:
        RunError: The task belongs to no micro-batch of a streaming query.
    """

    def __init__(self, folder: Folder, *, keeps: bool, kind: BadKind = "unreadable") -> None:
        self._stager = Stager(folder)
        self._keeps = keeps
        self._kind = kind
        self._rows: list[BadRow] = []

    def __call__(self, row: BadRow) -> None:
        """Add a bad row of a file; rows are written in larger groups, the last by :meth:`flush`.

        Raises:
            StateError: The state folder can't be written.
            UnavailableError: The state's store does not answer.
        """
        self._rows.append(row)
        if len(self._rows) == _STAGED_ROWS:
            self._stage()

    def flush(self) -> None:
        """Write all rows that are not written yet.

        Call it at the end of the task: rows that are held until then would be lost without it,
        neither counted nor quarantined.

        Raises:
            StateError: The state folder can't be written.
            UnavailableError: The state's store does not answer.
        """
        self._stage()
        self._stager.flush()

    def _stage(self) -> None:
        self._stager.add(staged_rows(self._rows, self._kind, keeps=self._keeps))
        self._rows.clear()


def staged_rows(rows: Sequence[BadRow], kind: BadKind, *, keeps: bool) -> pa.RecordBatch:
    """Return bad rows of files in the columns in which they are staged (:data:`STAGED`).

    Args:
        rows: The rows.
        kind: Why they are bad.
        keeps: Whether to keep their content, or only file, byte offset and why they are bad.
    """
    columns = {
        "place": [row.path for row in rows],
        "offset": [row.offset for row in rows],
        "value": [row.content if keeps else None for row in rows],
        "kind": [kind] * len(rows),
        "reason": [row.reason for row in rows],
    }
    nothing = [None] * len(rows)
    arrays = [pa.array(columns.get(field.name, nothing), field.type) for field in STAGED]
    return pa.RecordBatch.from_arrays(arrays, schema=STAGED)


def removing(
    folder: Folder,
    mark: str,
    kept: Sequence[str],
    bad: Callable[[pa.RecordBatch], pa.RecordBatch],
    repairs: Repairs | None = None,
) -> Step:
    """Return a ``mapInArrow`` function that stages the bad rows of a stream and drops them.

    Args:
        folder: The source's :func:`staging_folder`.
        mark: Name of the column with the reason why a row is bad; null for a good row.
        kept: Names of the columns of a good row that are passed on.
        bad: Turns bad rows into rows with the columns of :data:`STAGED`.
        repairs: Where rows of a mirror are watched that are wrong: stages good changes of them;
            None where they are not.
    """

    def remove(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stager = Stager(folder)
        wrong = set() if repairs is None else repairs.wrong_keys()
        for batch in batches:
            rows, reasons = batch, batch.column(mark)
            if reasons.null_count < batch.num_rows:
                unread = bad(batch.filter(pc.is_valid(reasons)))
                stager.add(unread)
                rows = batch.filter(pc.is_null(reasons))
                if repairs is not None:
                    wrong.update(filter(None, unread.column("key").to_pylist()))
            if repairs is not None and wrong:
                again = repairs.staged(rows, wrong)
                if again.num_rows:
                    stager.add(again)
            yield rows.select(kept)
        stager.flush()

    return remove


def unmovable() -> Column:
    """Return a condition that is always true, but that Spark's optimizer can't evaluate.

    Add it to a filter on parsed rows. Without it Spark would move this filter, and those of the
    transform, below the parsing, which each of them would do once more; and rows that the transform
    filters away would not be looked at.
    """
    return F.spark_partition_id() >= 0


def without_staged(rows: DataFrame, staged: Column, folder: Folder) -> DataFrame:
    """Return the good rows of a stream, whose tasks stage the bad ones as they evaluate it.

    Args:
        rows: The stream.
        staged: The columns of :data:`STAGED` as a struct for a bad row; null for a good one.
        folder: The source's :func:`staging_folder`.
    """
    # PySpark infers the kind of function from type hints, which its stub does not allow.
    stage = arrow_udf(_staging(folder), "boolean")  # type: ignore[call-overload]
    # Otherwise a filter of the transform would take rows away before they are staged.
    stage = stage.asNondeterministic()
    return rows.select("*", staged.alias(_MARK)).where(stage(F.col(_MARK))).drop(_MARK)


def _staging(folder: Folder) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    """Return a function that stages rows which are not null, and returns whether a row is null."""

    def stage(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        try:
            stager = Stager(folder)
            for staged in batches:
                bad = staged.drop_null()
                if len(bad):
                    records = pa.RecordBatch.from_struct_array(bad)
                    stager.add(records.cast(STAGED))
                yield pc.is_null(staged)
            stager.flush()
        except HybridError as error:
            raise ReportedError(error.report()) from None

    return stage
