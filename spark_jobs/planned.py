"""History is read from its plan: a Delta log, read by Delta's stream source.

For Parquet the log points at the files themselves (nothing is copied). For other formats it
points at small tables of splits, which tasks open and parse. Either way Delta's source reads
exactly what was planned, in the planned order, fails loudly when a file is gone, and stays
drained for ever in the runs that follow. The plan is version 0, each round after it one more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from sources.errors import InputError
from sources.file_plan import FilePlan, read_splits
from sources.file_source import FileBatch, FileSource
from sources.files import changed_splits
from sources.schema import ddl, parse_schema
from sources.state import Generation
from spark_jobs.plan_log import Entry, PlanLog

_BLOCK_BYTES = 16 << 20
_ENTRY_COLUMNS = pa.schema([("rank", pa.int64()), ("path", pa.string()), ("size", pa.int64())])


class PlannedSource:
    """One planned file source, readable as a stream or as a batch.

    Attributes:
        entries: Number of entries in each version of its Delta log; the unit of Delta's offsets.
        cumulative: Splits, rows (None if unknown) and highest event time (ms) after each entry.
    """

    def __init__(
        self,
        source: FileSource,
        parts: Sequence[FilePlan],
        generation: Generation,
        event_time: str,
    ) -> None:
        self._source = source
        self._plan = parts[0]
        self._event_time = event_time
        self._versions = [
            _Version(read_splits(part, generation), source, part.format) for part in parts
        ]
        self._log = PlanLog(generation.path(f"plan-log/{source.name}"))
        self.entries = [len(version.groups) for version in self._versions]
        self.cumulative = _accumulate(self._versions)

    def require_unchanged(self) -> None:
        """Refuse to read files that are not those that were planned.

        Raises:
            InputError: A planned file is gone or was rewritten; names up to five.
        """
        changed = [text for version in self._versions for text in changed_splits(version.splits)]
        if changed:
            shown = "\n    ".join(changed[:5])
            message = f"Source `{self._source.name}` changed since it was planned:\n    {shown}"
            hint = "Put the files back, or start over with a new state folder."
            raise InputError(message, hint)

    def prepare(self) -> None:
        """Write those versions of the Delta log that are not there."""
        columns = self._columns if self._is_parquet else _ENTRY_COLUMNS
        for number, version in enumerate(self._versions):
            if not self._log.has(number):
                entries = self._parquet_entries if self._is_parquet else self._split_entries
                self._log.write(number, columns, entries(number, version))

    def stream(self, spark: SparkSession) -> DataFrame:
        """The source as a stream, in planned order."""
        batch = self._source.batch
        reader = spark.readStream.format("delta")
        if self._is_parquet:
            reader = reader.option("maxFilesPerTrigger", batch.files)
            reader = reader.option("maxBytesPerTrigger", f"{int(batch.bytes)}b")
        else:
            # Splits were grouped by the same limits when the log was written.
            reader = reader.option("maxFilesPerTrigger", 1)
        return self._rows(spark, reader.load(str(self._log.folder)))

    def batch(self, spark: SparkSession) -> DataFrame:
        """The whole source as a batch."""
        return self._rows(spark, spark.read.format("delta").load(str(self._log.folder)))

    @property
    def _is_parquet(self) -> bool:
        return self._plan.format == "parquet"

    @property
    def _columns(self) -> pa.Schema:
        return parse_schema(self._plan.columns)

    def _rows(self, spark: SparkSession, entries: DataFrame) -> DataFrame:
        if self._is_parquet:
            return entries
        spread = entries.repartition(2 * spark.sparkContext.defaultParallelism, "rank")
        return spread.mapInArrow(json_reader(self._columns), ddl(self._columns))

    def _parquet_entries(self, _: int, version: _Version) -> Iterator[Entry]:
        for split in version.splits.to_pylist():
            yield Entry(Path(split["path"]).as_uri(), split["size"], self._statistics(split))

    def _statistics(self, split: dict[str, Any]) -> str:
        if split["event_min_us"] is None:
            return json.dumps({"numRecords": split["rows"]})
        # Delta keeps milliseconds and allows for the rest of them when it skips files.
        low, high = (_moment(split[name]) for name in ("event_min_us", "event_max_us"))
        return json.dumps(
            {
                "numRecords": split["rows"],
                "minValues": {self._event_time: low},
                "maxValues": {self._event_time: high},
            }
        )

    def _split_entries(self, number: int, version: _Version) -> Iterator[Entry]:
        for rank, (first, end) in enumerate(version.groups):
            group = version.splits.slice(first, end - first)
            table = pa.Table.from_arrays(
                [pa.array(range(first, end), pa.int64()), group["path"], group["size"]],
                schema=_ENTRY_COLUMNS,
            )
            self._log.folder.mkdir(parents=True, exist_ok=True)
            path = self._log.folder / f"splits-{number:04d}-{rank:06d}.parquet"
            pq.write_table(table, path)
            yield Entry(path.name, path.stat().st_size)


class _Version:
    """The splits of one version of the log, and its entries as ranges of them."""

    def __init__(self, splits: pa.Table, source: FileSource, file_format: str) -> None:
        self.splits = splits
        sizes = splits["size"].to_pylist()
        # Delta itself admits single files; groups of others are made within the same limits.
        self.groups = (
            [(at, at + 1) for at in range(len(sizes))]
            if file_format == "parquet"
            else _grouped(sizes, source.batch)
        )


def _grouped(sizes: list[int], limit: FileBatch) -> list[tuple[int, int]]:
    groups: list[tuple[int, int]] = []
    first, size = 0, 0
    for at, length in enumerate(sizes):
        if at > first and (at - first >= limit.files or size + length > limit.bytes):
            groups.append((first, at))
            first, size = at, 0
        size += length
    return [*groups, (first, len(sizes))]


def _accumulate(versions: list[_Version]) -> list[tuple[int, int | None, int | None]]:
    splits = 0
    total: int | None = 0
    highest: int | None = None
    result = []
    for version in versions:
        rows = version.splits["rows"].to_pylist()
        highs = version.splits["event_max_us"].to_pylist()
        for first, end in version.groups:
            splits += end - first
            known = [count for count in rows[first:end] if count is not None]
            total = total + sum(known) if total is not None and len(known) == end - first else None
            dated = [high // 1000 for high in highs[first:end] if high is not None]
            highest = max([*dated, highest] if highest is not None else dated, default=None)
            result.append((splits, total, highest))
    return result


def _moment(micros: int) -> str:
    moment = datetime.fromtimestamp(micros // 1_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros // 1000 % 1000:03d}Z"


def json_reader(
    columns: pa.Schema,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` that turns rows of splits into the rows of their files.

    A line that is no JSON object, or a value that does not fit its column, fails the task with
    the name of the file.
    """
    options = pa_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
    blocks = pa_json.ReadOptions(block_size=_BLOCK_BYTES)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, size in zip(
                batch["path"].to_pylist(), batch["size"].to_pylist(), strict=True
            ):
                if size == 0:
                    continue
                try:
                    with pa.input_stream(path, compression="detect") as stream:
                        for block in pa_json.open_json(stream, blocks, options):
                            yield block.select(columns.names)
                except (OSError, pa.ArrowException) as error:
                    message = f"{path} can't be read as JSON lines: {error}"
                    raise InputError(message, "Repair or remove it, then start over.") from None

    return read
