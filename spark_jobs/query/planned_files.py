"""History is read from its plan: a Delta log, read by Delta's stream source.

For Parquet the log points at the files themselves (nothing is copied). For other formats it
points at small tables of splits, which tasks open and parse. Either way Delta's source reads
exactly what was planned, in the planned order, fails loudly when a file is gone, and stays
drained for ever in the runs that follow. The plan comes first, each round or discovery after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
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
from sources.planning.file_plan import FoundFiles, Ints, batch_ends, read_splits
from sources.storage.partitions import typed, values_of
from sources.storage.stores import Stores
from spark_jobs.query.bad_records import RowStager, staging_folder
from spark_jobs.query.plan_log import Entry, PlanLog, versions_of
from spark_jobs.query.select import select_columns

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
# What an entry of a Parquet file is made of.
_ENTRY_OF = ("path", "size", "partition", "rows", "event_min_us", "event_max_us")


class PlannedSource:
    """One planned file source, readable as a stream or as a batch.

    Args:
        source: The declaration.
        parts: Its plan, and one more for each round or discovery.
        generation: Where the plan is kept.
        event_time: The event-time column.
        stores: Where the files are.
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
        self._parts = [_Part(read_splits(part, generation), source) for part in parts]
        self._log = PlanLog(generation.path(f"plan-log/{source.name}"))
        self._staging = staging_folder(generation, source.name)

    @property
    def entries(self) -> list[int]:
        """Number of entries in each version of its Delta log; the unit of Delta's offsets."""
        return [stop - first for _, first, stop in self._versions()]

    def extend(self, found: FoundFiles) -> None:
        """Add what arrived while the stream runs: its next micro-batch takes it in."""
        self._parts.append(_Part(read_splits(found, self._generation), self._source))
        self.__dict__.pop("_totals", None)
        self.prepare()

    @property
    def largest(self) -> Batch:
        """What one micro-batch takes in at most."""
        numbers = zip(*(part.largest for part in self._parts), strict=True)
        return Batch(*(None if None in of else max(of) for of in numbers))

    def require_unchanged(self, entries_done: int = 0) -> None:
        """Refuse to read files that are not those that were planned.

        Args:
            entries_done: As many entries of the log have been read: their files may go.

        Raises:
            InputError: A planned file is gone or was rewritten; names up to five.
        """
        done, _, _ = self.reached(entries_done)
        every = pa.concat_tables([part.splits for part in self._parts])
        to_read = every.filter(pc.is_in(every["path"], every["path"].slice(done).unique()))
        changed = changed_splits(to_read, self._stores)
        if changed:
            shown = "\n    ".join(changed[:5])
            message = f"Source `{self._source.name}` changed since it was planned:\n    {shown}"
            hint = "Put the files back, or start over with a new state folder."
            raise InputError(message, hint)

    def prepare(self) -> None:
        """Write those versions of the Delta log that are not there."""
        partitions = self._partitions if self._source.is_parquet else []
        columns = self._read if self._source.is_parquet else _ENTRY_COLUMNS
        entries = self._parquet_entries if self._source.is_parquet else self._split_entries
        for version, (part, first, stop) in enumerate(self._versions()):
            if not self._log.has(version):
                self._log.write(version, columns, entries(part, first, stop), partitions)

    def _versions(self) -> Iterator[tuple[int, int, int]]:
        """For each version of the log, its part, and of it the first entry and the one to stop."""
        for number, part in enumerate(self._parts):
            for first, stop in versions_of(len(part.ends)):
                yield number, first, stop

    def stream(self, spark: SparkSession) -> DataFrame:
        """The source as a stream, in planned order."""
        batch = self._source.batch
        if self._source.is_parquet:
            return self._rows(spark, self._log.stream(spark, batch.files, int(batch.bytes)))
        # Splits were grouped by the same limits when the log was written.
        return self._rows(spark, self._log.stream(spark, 1))

    def batch(self, spark: SparkSession) -> DataFrame:
        """The whole source as a batch."""
        return self._rows(spark, spark.read.format("delta").load(str(self._log.folder)))

    def reached(self, entries: int) -> tuple[int, int | None, int | None]:
        """Splits, rows (None if unknown) and highest event time (ms) of the first entries."""
        if not entries:
            return 0, 0, None
        splits, rows, highest = self._totals
        at = entries - 1
        high = int(highest[at])
        return (
            int(splits[at]),
            None if rows is None else int(rows[at]),
            None if high == _NO_TIME else high // 1000,
        )

    @cached_property
    def _totals(self) -> tuple[Ints, Ints | None, Ints]:
        """After each entry: splits, rows, highest event time in microseconds."""
        before = np.cumsum([0, *(len(part.splits) for part in self._parts)])
        splits = np.concatenate(
            [part.ends + first for part, first in zip(self._parts, before, strict=False)]
        )
        table = pa.concat_tables([part.splits for part in self._parts])
        highest = np.maximum.accumulate(table["event_max_us"].fill_null(_NO_TIME).to_numpy())
        known = not table["rows"].null_count
        rows = np.cumsum(table["rows"].to_numpy())[splits - 1] if known else None
        return splits, rows, highest[splits - 1]

    def _rows(self, spark: SparkSession, entries: DataFrame) -> DataFrame:
        rows = entries
        if not self._source.is_parquet:
            # By turns: a hash of the ranks would give some tasks twice the splits of others.
            tasks = 2 * spark.sparkContext.defaultParallelism
            spread = entries.repartitionById(tasks, F.col("rank").cast("int"))
            staging = self._staging if entries.isStreaming else None
            read = split_reader(self._read, self._source, self._stores, staging)
            rows = spread.mapInArrow(read, ddl(self._read))
        rows = select_columns(rows, self._source.selection, self._columns)
        wanted, at = self._source.time_range, F.col(f"`{self._event_time}`")
        # A row without a time is in no range; it is not for us to lose it.
        if wanted.since is not None:
            rows = rows.where(at.isNull() | (at >= F.lit(wanted.since)))
        if wanted.until is not None:
            rows = rows.where(at.isNull() | (at < F.lit(wanted.until)))
        return rows

    def _parquet_entries(self, number: int, first: int, stop: int) -> Iterator[Entry]:
        event = self._source.selection.event_column(self._event_time)
        named = event.name if event is not None and event.unit_us is None else None
        splits = self._parts[number].splits.slice(first, stop - first)
        values = (splits[name].to_pylist() for name in _ENTRY_OF)
        for path, size, partition, rows, low, high in zip(*values, strict=True):
            uri = self._stores.of(path).uri(path)
            yield Entry(uri, size, _statistics(rows, named, low, high), values_of(partition))

    def _split_entries(self, number: int, first: int, stop: int) -> Iterator[Entry]:
        part = self._parts[number]
        for rank in range(first, stop):
            begin, end = part.group(rank)
            group = part.splits.slice(begin, end - begin)
            ranks = pa.array(np.arange(begin, end))
            columns = [ranks, *(group[name] for name in _ENTRY_COLUMNS.names[1:])]
            table = pa.table(columns, schema=_ENTRY_COLUMNS)
            yield self._log.keep(f"splits-{number:04d}-{rank:06d}.parquet", table)


_NO_TIME = np.iinfo(np.int64).min


class _Part:
    """The splits of the plan, a round or a discovery; the entries of the log are ranges of them.

    Attributes:
        splits: In reading order.
        ends: For each entry, how many splits there are up to its end.
    """

    def __init__(self, splits: pa.Table, source: FileSource) -> None:
        self.splits = splits
        self._limit = source.batch
        # Delta itself admits single files; groups of others are made within the same limits.
        self.ends: Ints = (
            np.arange(1, len(splits) + 1)
            if source.is_parquet
            else batch_ends(splits["length"].to_pylist(), source.batch)
        )

    @cached_property
    def largest(self) -> Batch:
        """What one micro-batch of it takes in at most."""
        if not self.splits:
            return Batch(bytes=0, files=0, rows=0)
        ends = batch_ends(self.splits["length"].to_pylist(), self._limit)
        starts = np.append(0, ends[:-1])

        def most(column: str) -> int:
            return int(np.add.reduceat(self.splits[column].to_numpy(), starts).max())

        rows = None if self.splits["rows"].null_count else most("rows")
        return Batch(most("length"), int((ends - starts).max()), rows)

    def group(self, rank: int) -> tuple[int, int]:
        """First split of an entry, and the one after its last."""
        return int(self.ends[rank - 1]) if rank else 0, int(self.ends[rank])


def _statistics(rows: int, event_time: str | None, low: int | None, high: int | None) -> str:
    """Delta's statistics of a file; event times in microseconds, if they are known."""
    if event_time is None or low is None or high is None:
        return json.dumps({"numRecords": rows})
    # Delta keeps milliseconds and allows for the rest of them when it skips files.
    least, most = {event_time: _moment(low)}, {event_time: _moment(high)}
    return json.dumps({"numRecords": rows, "minValues": least, "maxValues": most})


def _moment(micros: int) -> str:
    moment = datetime.fromtimestamp(micros // 1_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros // 1000 % 1000:03d}Z"


def split_reader(
    columns: pa.Schema, source: FileSource, stores: Stores, staging: Path | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` that turns rows of splits into the rows of their files.

    Damage fails the task with the name of the file. A bad row fails it with its place too, or is
    left out (``on_bad_record``); a stream stages it.

    Args:
        columns: What to return, partition columns included.
        source: The declaration.
        stores: Where the files are.
        staging: Where bad rows are staged.
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

    return read


def _pass_over(_: BadRow) -> None:
    """A batch reads again what a stream has staged."""


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
