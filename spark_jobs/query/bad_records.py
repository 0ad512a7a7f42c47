"""Bad records that do not stop a run: staged by the tasks, collected once their batch is committed.

A task writes the bad records it meets as Parquet, into a folder of its micro-batch beside the
checkpoint. A batch may be tried several times, so a record may be staged several times. Once the
batch is committed the driver takes each place once, appends it to the quarantine table, counts it,
and removes the folder. What was staged for a batch that did not commit stays until its replay has:
a sink that knows that it has written a batch skips it, and then nobody stages it again.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from sources.common.schema import TIMESTAMP
from sources.common.state import Generation
from sources.config.bad_records import BadRecordCount, BadRecords, bad_count_name, quarantine_path
from sources.config.pipeline import Pipeline
from sources.errors import InputError, RunError
from sources.formats.lines import BadRow
from spark_jobs.checkpoint import offset_log

Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for ``mapInArrow``."""

STAGED = pa.schema(
    [
        ("place", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("reason", pa.string()),
    ]
)
"""A bad record: the topic, its partition and the offset; or the file, null, and the byte."""
_PLACE = ["place", "partition", "offset"]
_TABLE = pa.schema([("source", pa.string()), *STAGED, ("batch_id", pa.int64())])
_HELD_BYTES = 16 << 20
_READ_ROWS = 10_000
_STAGED_ROWS = 10_000
# MicroBatchExecution's own property of all jobs of a batch.
_BATCH_ID = "streaming.sql.batchId"


def staging_folder(generation: Generation, source: str) -> Path:
    """Where the tasks of a source leave bad records: one folder for each micro-batch."""
    return generation.path(f"bad/{source}-staged")


class Stager:
    """Leaves the bad records of one task where the driver finds them.

    Args:
        folder: :func:`staging_folder`.

    Raises:
        RunError: The task belongs to no micro-batch.
    """

    def __init__(self, folder: Path) -> None:
        from pyspark import TaskContext  # noqa: PLC0415 - there is one in a worker only

        task = TaskContext.get()
        batch = task.getLocalProperty(_BATCH_ID) if task is not None else None
        if batch is None:
            message = f"Bad records can't be staged in {folder} outside a micro-batch."
            raise RunError(message)
        self._folder = folder / batch
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, records: pa.RecordBatch) -> None:
        """Take in bad records, with the columns of :data:`STAGED`."""
        self._held.append(records)
        self._bytes += records.nbytes
        if self._bytes >= _HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was taken in, whole or not at all; call it at the task's end."""
        if not self._held:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        name = uuid.uuid4().hex
        temporary = self._folder / f".{name}"
        pq.write_table(pa.Table.from_batches(self._held, STAGED), temporary)
        temporary.rename(self._folder / f"{name}.parquet")
        self._held.clear()
        self._bytes = 0


class RowStager:
    """Stages the bad rows of files, one after the other (:data:`sources.formats.lines.OnBad`).

    Args:
        folder: :func:`staging_folder`.
        keeps: Whether what they hold is wanted, and not only where they are.
    """

    def __init__(self, folder: Path, *, keeps: bool) -> None:
        self._stager = Stager(folder)
        self._keeps = keeps
        self._rows: list[BadRow] = []

    def __call__(self, row: BadRow) -> None:
        """Take in a bad row."""
        self._rows.append(row)
        if len(self._rows) == _STAGED_ROWS:
            self._stage()

    def flush(self) -> None:
        """Write what was taken in; call it at the task's end."""
        self._stage()
        self._stager.flush()

    def _stage(self) -> None:
        rows, self._rows = self._rows, []
        nothing = [None] * len(rows)
        columns = [
            [row.path for row in rows],
            nothing,
            [row.offset for row in rows],
            nothing,
            nothing,
            [row.content for row in rows] if self._keeps else nothing,
            [row.reason for row in rows] if self._keeps else nothing,
        ]
        arrays = [pa.array(each, kind) for each, kind in zip(columns, STAGED.types, strict=True)]
        self._stager.add(pa.RecordBatch.from_arrays(arrays, schema=STAGED))


def removing(folder: Path, mark: str, bad: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Step:
    """A step that stages the bad rows of a stream and lets the others pass.

    Args:
        folder: :func:`staging_folder`.
        mark: Column with what is wrong with a row; null where nothing is. What stands before it
            are the columns that pass.
        bad: Makes the columns of :data:`STAGED` of bad rows.
    """

    def remove(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stager = Stager(folder)
        for batch in batches:
            rows, reasons = batch, batch.column(mark)
            if reasons.null_count < batch.num_rows:
                stager.add(bad(batch.filter(pc.is_valid(reasons))))
                rows = batch.filter(pc.is_null(reasons))
            yield rows.select(batch.schema.names[: batch.schema.get_field_index(mark)])
        stager.flush()

    return remove


class Collector:
    """Takes in what the tasks have staged for one source; one driver does so at a time.

    Args:
        generation: Its state.
        source: The source's name.
        declared: What it declares.
    """

    def __init__(self, generation: Generation, source: str, declared: BadRecords) -> None:
        self._generation = generation
        self._source = source
        self._keeps = declared.on_bad_record == "quarantine"
        self._path = quarantine_path(source, declared.quarantine, generation)
        self._folder = staging_folder(generation, source)

    def collect(self) -> int:
        """Take in all committed batches.

        Returns:
            How many bad records there were so far.

        Raises:
            InputError: The quarantine table can't be written.
        """
        committed = offset_log.last_committed(self._generation.checkpoint)
        counted = self._generation.read(bad_count_name(self._source), BadRecordCount)
        for batch in self._staged():
            if committed is None or batch > committed:
                break
            counted = self._take(batch, counted)
            # A task that was given up may still write there: the next call takes that away.
            shutil.rmtree(self._folder / str(batch), ignore_errors=True)
        return counted.total if counted is not None else 0

    def _staged(self) -> list[int]:
        try:
            names = [entry.name for entry in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isdigit())

    def _take(self, batch: int, counted: BadRecordCount | None) -> BadRecordCount:
        """Each half knows by the batch's number whether it was done before."""
        files = sorted((self._folder / str(batch)).glob("*.parquet"))
        tables = [pq.read_table(file, columns=_PLACE) for file in files]
        places = pa.concat_tables([STAGED.empty_table().select(_PLACE), *tables]).to_pandas()
        is_first = pa.array(~places.duplicated())
        total = pc.sum(is_first).as_py() or 0
        if self._keeps:
            self._append(batch, files, is_first)
        if counted is not None and counted.last_batch >= batch:
            return counted
        before = counted.total if counted is not None else 0
        now = BadRecordCount(source=self._source, total=before + total, last_batch=batch)
        self._generation.replace(bad_count_name(self._source), now)
        return now

    def _append(self, batch: int, files: list[Path], wanted: pa.BooleanArray) -> None:
        application = f"{self._generation.info.transaction_id}/{self._source}"
        done = Transaction(application, batch)
        try:
            table = DeltaTable.create(self._path, _TABLE, mode="ignore")
            written = table.transaction_version(application)
            if written is not None and written >= batch:
                return
            rows = pa.RecordBatchReader.from_batches(_TABLE, self._rows(batch, files, wanted))
            properties = CommitProperties(app_transactions=[done])
            write_deltalake(table, rows, mode="append", commit_properties=properties)
        except DeltaError as error:
            message = f"The quarantine of source `{self._source}`, {self._path}, fails: {error}."
            raise InputError(message, "Name another table, or repair it.") from None

    def _rows(
        self, batch: int, files: list[Path], wanted: pa.BooleanArray
    ) -> Iterator[pa.RecordBatch]:
        at = 0
        for path in files:
            with pq.ParquetFile(path) as file:
                for rows in file.iter_batches(_READ_ROWS):
                    kept = rows.filter(wanted.slice(at, rows.num_rows))
                    at += rows.num_rows
                    source = pa.repeat(pa.scalar(self._source), kept.num_rows)
                    number = pa.repeat(pa.scalar(batch, pa.int64()), kept.num_rows)
                    yield pa.RecordBatch.from_arrays([source, *kept.columns, number], schema=_TABLE)


class Collectors:
    """Those of all sources whose bad records do not stop a run.

    Args:
        pipeline: The declaration.
        generation: Its state.
    """

    def __init__(self, pipeline: Pipeline, generation: Generation) -> None:
        self._collectors = {
            source.name: Collector(generation, source.name, source)
            for source in pipeline.sources
            if source.on_bad_record != "fail"
        }

    def collect(self) -> dict[str, int]:
        """Before, during and after a run: how many bad records there were so far, by source."""
        return {name: collector.collect() for name, collector in self._collectors.items()}
