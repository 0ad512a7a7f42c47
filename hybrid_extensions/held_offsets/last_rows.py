"""Last rows of history's partitions: what the log has to have at their offsets."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.positions import HeldOffsets, HeldRow, TopicPartition
from sources.common.schema import TIMESTAMP
from sources.config.pipeline import Pipeline
from sources.config.source.file_options import OffsetColumns
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from sources.files.listing.split_table import FileListing
from sources.formats.file_regions import Region
from sources.formats.parquet.file import parquet_file
from sources.formats.parquet.rows import ArrivedRows

SAMPLE = 32
"""Partitions of which rows are compared with the log; of fewer partitions several rows each."""
_WORKERS = 8
_COLUMNS = 8
T = TypeVar("T", TopicPartition, int)


@dataclass(frozen=True)
class LastRows:
    """Search for the last rows of partitions in the Parquet files of one source.

    A row is found where one file has it with all columns that are needed under their own names, and
    where the plan can evaluate them; elsewhere the files show nothing.

    Attributes:
        pipeline: Declaration of the pipeline.
        source: The file source.
        live: The source of the topic after it.
        listing: Splits of the file source.
        offsets: Its columns of partition and offset.
    """

    pipeline: Pipeline
    source: FileSource
    live: KafkaSource
    listing: FileListing
    offsets: OffsetColumns

    def find(self, held: HeldOffsets, files: dict[TopicPartition, str]) -> list[HeldRow]:
        """Return the last rows of up to :data:`SAMPLE` partitions; maybe none.

        Args:
            held: Offsets that history holds.
            files: For each partition, the file with its last row.
        """
        # In a table's files columns may have other names.
        if self.listing.mapping is not None:
            return []
        own = set(self.listing.splits["path"].to_pylist())
        # Files of earlier sources may need another `select`.
        chosen = [at for at in sampled(held.next) if files.get(at) in own]
        names = self._compared()
        each = max(SAMPLE // max(len(held.next), 1), 1)

        def rows(at: TopicPartition) -> list[HeldRow]:
            try:
                return self._rows(files[at], at, range(held.next[at] - each, held.next[at]), names)
            except (OSError, pa.ArrowException, InputError):
                return []

        with ThreadPoolExecutor(_WORKERS) as pool:
            return [row for some in pool.map(rows, chosen) for row in some]

    def _compared(self) -> list[str]:
        """Return the columns compared besides the event time: those of the key, else a few others.

        Without a key, no times, which may be rewritten as the event time is, and no floats.
        """
        event_time = self.pipeline.event_time.column
        able = [
            field.name
            for field in self.listing.columns
            if field.name != event_time and self._is_of_value(field.name)
        ]
        by_key = [name for name in able if name in self.pipeline.key]
        plain = [name for name in able if _is_plain(self.listing.columns.field(name).type)]
        return by_key or plain[:_COLUMNS]

    def _is_of_value(self, name: str) -> bool:
        """Return whether files and the values of records both have a column."""
        if self.live.select and name not in self.live.select:
            return False
        around = {*self.live.record_columns, *self.live.envelope_columns}
        in_folders = set(self.listing.partitions)
        return not (
            self.live.selection.inputs(name) & around
            or self.source.selection.inputs(name) & in_folders
        )

    def _rows(
        self, path: str, at: TopicPartition, offsets: range, names: Sequence[str]
    ) -> list[HeldRow]:
        event_time, select = self.pipeline.event_time.column, self.source.selection
        needed = {each for name in (event_time, *names) for each in select.inputs(name)}
        places = (self.offsets.partition, self.offsets.offset)
        columns = pa.schema(
            [
                *(self.listing.read.field(name) for name in sorted(needed - {*places})),
                *((name, pa.int64()) for name in places),
            ]
        )
        reader = ArrivedRows(places[1], offsets.start, offsets.stop)
        with self.pipeline.stores.of(path).open(path) as stream:
            if not needed <= set(parquet_file(stream).schema_arrow.names):
                return []
            batches = [
                batch.filter(pc.equal(batch[places[0]], at.partition))
                for batch in reader.read(stream, Region(path, 0, 0, 0), columns)
            ]
        table = pa.Table.from_batches(batches, columns).combine_chunks()
        if not table.num_rows:
            return []
        (batch,) = table.to_batches()
        times = milliseconds(select.evaluate(event_time, batch))
        texts = {name: digests(select.evaluate(name, batch)) for name in names}
        return [
            HeldRow(
                topic=at.topic,
                partition=at.partition,
                offset=offset,
                file=path,
                event_time_ms=time_ms,
                digests={name: values[row] for name, values in texts.items()},
            )
            for row, (offset, time_ms) in enumerate(
                zip(batch[places[1]].to_pylist(), times, strict=True)
            )
            if time_ms is not None
        ]


def sampled(partitions: Collection[T]) -> list[T]:
    """Return up to :data:`SAMPLE` of some partitions, evenly over all of them in order."""
    ranked = sorted(partitions)
    return ranked[:: -(-len(ranked) // SAMPLE) or 1]


def milliseconds(times: pa.ChunkedArray) -> list[int | None]:
    """Return event times in Unix milliseconds."""
    numbers = times.cast(TIMESTAMP, safe=False).cast(pa.int64()).to_pylist()
    return [None if time_us is None else time_us // 1000 for time_us in numbers]


def digests(values: pa.ChunkedArray) -> list[str]:
    """Return digests of a column's values: enough to compare them, without the values."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(TIMESTAMP, safe=False).cast(pa.int64())
    return [hashlib.sha256(str(each).encode()).hexdigest()[:16] for each in values.to_pylist()]


def _is_plain(kind: pa.DataType) -> bool:
    rules = (pa.types.is_string, pa.types.is_boolean, pa.types.is_integer)
    return any(rule(kind) for rule in rules)
