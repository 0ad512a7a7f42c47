"""Reading a file source from its plan: a Delta log, read by Delta's streaming source.

For Parquet the log points at the files themselves (nothing is copied). For other formats it
points at small tables of splits, which tasks open and parse. Either way Delta's source reads
exactly what was planned, in the planned order, fails when a file is gone, and stays drained for
ever in the runs that follow. The plan comes first, each round or discovery after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import ddl, parse_schema
from sources.common.state import Generation
from sources.config.file_source import FileSource
from sources.config.rate_limit import Batch
from sources.errors import InputError
from sources.files.format_registry import format_of
from sources.files.split_table import changed_splits
from sources.formats.lines import BadRow, refuse
from sources.formats.open import read_region
from sources.formats.regions import Region
from sources.planning.file_plan import FoundFiles, read_splits
from sources.storage.partitions import typed, values_of
from sources.storage.stores import Stores
from spark_jobs.readers.bad_records import RowStager, staging_folder
from spark_jobs.readers.plan_entries import PlanEntries, PlannedPart, Version
from spark_jobs.readers.plan_log import Entry, PlanLog
from spark_jobs.readers.select import select_columns
from spark_jobs.readers.spark_errors import Step, reporting

_ENTRY_COLUMNS = pa.schema(
    [
        ("rank", pa.int64()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("size", pa.int64()),
        ("partition", pa.string()),
    ]
)
# Number of changed files that a message lists one by one.
_SHOWN = 5
# Columns of a Parquet file's split that its log entry is made of.
_ENTRY_OF = ("path", "size", "partition", "rows", "event_min_us", "event_max_us")


class PlannedSource:
    """A planned file source, readable as a stream or as a batch.

    Args:
        source: The declaration.
        parts: Parts of its plan: the first listing, then one for each round (a further listing
            before the hand-over) or discovery (in a folder that keeps filling).
        generation: State of the generation, which keeps plan, Delta log and bad records.
        event_time: Name of the event-time column.
        stores: Access to the storage that holds the files.
    """

    def __init__(
        self,
        source: FileSource,
        parts: Sequence[FoundFiles],
        generation: Generation,
        event_time: str,
        stores: Stores,
    ) -> None:
        self._source = source
        self._read = parse_schema(parts[0].read)
        self._columns = parse_schema(parts[0].columns)
        self._event_time = event_time
        self._stores = stores
        self._partitions = parts[0].partitions
        self._generation = generation
        self._entries = PlanEntries(
            tuple(PlannedPart(read_splits(part, generation), source) for part in parts)
        )
        self._log = PlanLog(generation.path(f"plan-log/{source.name}"))
        self._staging = staging_folder(generation, source.name)

    @property
    def entries(self) -> list[int]:
        """Number of entries (files) in each version of its Delta log, computed from the plan.

        Delta's offsets count them, so a committed offset is turned into a position by this list.
        """
        return [version.stop - version.first for version in self._entries.versions()]

    def extend(self, found: FoundFiles) -> None:
        """Add files that arrived while the stream runs to the Delta log, which it reads next."""
        part = PlannedPart(read_splits(found, self._generation), self._source)
        self._entries = self._entries.with_part(part)
        self.prepare()

    @property
    def largest(self) -> Batch:
        """Highest numbers of bytes, splits (as ``files``) and rows that a micro-batch reads.

        Each number is a maximum of its own, maybe of different micro-batches. Rows are None if a
        split's number of rows is unknown.
        """
        return self._entries.largest

    def reached(self, entries: int) -> tuple[int, int | None, int | None]:
        """Return how far the source was read once the first entries of its log are read.

        Returns:
            Number of splits; number of rows, None if unknown; highest event time in ms, None if
            unknown or nothing was read.
        """
        return self._entries.reached(entries)

    def require_unchanged(self, entries_done: int = 0) -> None:
        """Refuse to read files that differ from what was planned.

        Args:
            entries_done: Number of log entries that were read already: their files may be gone.

        Raises:
            InputError: A planned file is missing or was rewritten; the message names up to five.
        """
        done, _, _ = self.reached(entries_done)
        every = self._entries.splits()
        to_read = every.filter(pc.is_in(every["path"], every["path"].slice(done).unique()))
        changed = changed_splits(to_read, self._stores)
        if changed:
            shown = "\n    ".join(changed[:_SHOWN])
            more = f"\n    and {len(changed) - _SHOWN:,} more" if len(changed) > _SHOWN else ""
            message = (
                f"Source `{self._source.name}` changed since it was planned:\n    {shown}{more}\n"
                "The query was not started: the table would lack planned rows, or hold others."
            )
            hint = (
                "Restore these files as they were planned and run the pipeline again "
                "(`hybrid run P`), or begin a new generation, which plans the files as they are "
                "now: `hybrid generation new P`."
            )
            raise InputError(message, hint, source=self._source.name)

    def prepare(self) -> None:
        """Write the versions of the source's Delta log that do not exist yet."""
        partitions = self._partitions if self._source.is_parquet else []
        columns = self._read if self._source.is_parquet else _ENTRY_COLUMNS
        entries = self._parquet_entries if self._source.is_parquet else self._split_entries
        for number, version in enumerate(self._entries.versions()):
            if not self._log.has(number):
                self._log.write(number, columns, entries(version), partitions)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the source's rows as a stream, in planned order; call :meth:`prepare` before.

        A missing or damaged file fails the query, as does a bad row under ``on_bad_record: fail``.

        Raises:
            InputError: Spark can't evaluate ``select``, or a type differs from the planned one.
        """
        batch = self._source.batch
        if self._source.is_parquet:
            return self._rows(spark, self._log.stream(spark, batch.files, int(batch.bytes)))
        # Splits were grouped by the same limits when the log was written.
        return self._rows(spark, self._log.stream(spark, 1))

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return all rows of the source as a batch; call :meth:`prepare` before.

        Bad rows are left out without being staged, unless ``on_bad_record`` is ``fail``.

        Raises:
            InputError: Spark can't evaluate ``select``, or a type differs from the planned one.
        """
        return self._rows(spark, spark.read.format("delta").load(str(self._log.folder)))

    def _rows(self, spark: SparkSession, entries: DataFrame) -> DataFrame:
        rows = entries
        if not self._source.is_parquet:
            # Round robin: a hash of the ranks would give some tasks twice the splits of others.
            tasks = 2 * spark.sparkContext.defaultParallelism
            spread = entries.repartitionById(tasks, F.col("rank").cast("int"))
            staging = self._staging if entries.isStreaming else None
            read = split_reader(self._read, self._source, self._stores, staging)
            rows = spread.mapInArrow(read, ddl(self._read))
        rows = select_columns(rows, self._source.selection, self._columns)
        time_range, at = self._source.time_range, F.col(f"`{self._event_time}`")
        # A row without an event time lies in no range and must not be lost: it is kept.
        if time_range.since is not None:
            rows = rows.where(at.isNull() | (at >= F.lit(time_range.since)))
        if time_range.until is not None:
            rows = rows.where(at.isNull() | (at < F.lit(time_range.until)))
        return rows

    def _parquet_entries(self, version: Version) -> Iterator[Entry]:
        event = self._source.selection.event_column(self._event_time)
        named = event.name if event is not None and event.unit_us is None else None
        part = self._entries.parts[version.part]
        splits = part.splits.slice(version.first, version.stop - version.first)
        values = (splits[name].to_pylist() for name in _ENTRY_OF)
        for path, size, partition, rows, low, high in zip(*values, strict=True):
            uri = self._stores.of(path).uri(path)
            yield Entry(uri, size, _statistics(rows, named, low, high), values_of(partition))

    def _split_entries(self, version: Version) -> Iterator[Entry]:
        part = self._entries.parts[version.part]
        for rank in range(version.first, version.stop):
            begin, end = part.splits_of(rank)
            group = part.splits.slice(begin, end - begin)
            ranks = pa.array(np.arange(begin, end))
            columns = [ranks, *(group[name] for name in _ENTRY_COLUMNS.names[1:])]
            table = pa.table(columns, schema=_ENTRY_COLUMNS)
            yield self._log.keep(f"splits-{version.part:04d}-{rank:06d}.parquet", table)


def _statistics(rows: int, event_time: str | None, low: int | None, high: int | None) -> str:
    """Return Delta's statistics of a file as JSON; event times are in microseconds, if known."""
    if event_time is None or low is None or high is None:
        return json.dumps({"numRecords": rows})
    # Delta keeps milliseconds, and allows for the truncated rest when it skips files.
    least, most = {event_time: _moment(low)}, {event_time: _moment(high)}
    return json.dumps({"numRecords": rows, "minValues": least, "maxValues": most})


def _moment(micros: int) -> str:
    moment = datetime.fromtimestamp(micros // 1_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros // 1000 % 1000:03d}Z"


def split_reader(
    columns: pa.Schema, source: FileSource, stores: Stores, staging: Path | None = None
) -> Step:
    """Return a function for ``mapInArrow`` that turns rows of splits into the rows of their files.

    A damaged file fails the task with the file's name. A bad row fails it with the position in the
    file too, or is left out (``on_bad_record``); a stream stages it.

    Args:
        columns: The columns to return, partition columns included.
        source: The declaration.
        stores: The stores that hold the files.
        staging: Folder in which bad rows are staged; None for a batch.
    """
    form = format_of(source)
    inside = pa.schema([field for field in columns if field.name not in source.partitions])

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stager = None
        if staging is not None and source.on_bad_record != "fail":
            stager = RowStager(staging, keeps=source.on_bad_record == "quarantine")
        bad = refuse if source.on_bad_record == "fail" else stager or _pass_over
        for batch in batches:
            for split in batch.to_pylist():
                if not split["length"]:
                    continue
                constants = values_of(split["partition"])
                region = Region(*(split[name] for name in Region._fields))
                for rows in read_region(form, region, inside, stores, bad):
                    yield _with_constants(rows, columns, constants)
        if stager is not None:
            stager.flush()

    return reporting(read)


def _pass_over(_: BadRow) -> None:
    """Skip a bad row: a batch reads again what a stream has staged before."""


def _with_constants(
    rows: pa.RecordBatch, columns: pa.Schema, constants: dict[str, str | None]
) -> pa.RecordBatch:
    if not constants:
        return rows
    arrays = [
        pa.repeat(typed(constants[field.name], field.type), len(rows))
        if field.name in constants
        else rows[field.name]
        for field in columns
    ]
    return pa.record_batch(arrays, schema=columns)
