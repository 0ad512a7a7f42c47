"""Writing of a topic's records by the tasks that parse them, in whole batches.

Only records that are certain to be good are written so: those that Arrow reads as Spark would, with
an event time within its bounds. All others are returned as they are, for
:func:`spark_jobs.readers.parse_records.rows_of`, which decides about each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from sources.common.schema import ddl, parse_schema
from sources.config.kafka_source import KafkaSource
from sources.decoding.batch_cursor import Mask, as_mask
from sources.decoding.json_batches import read_objects, supports_schema
from spark_jobs.readers.decode_records import KEY, RECORD, VALUE
from spark_jobs.readers.direct_rows import RowWriters
from spark_jobs.readers.event_times import EventTimeCheck
from spark_jobs.readers.kafka_stream import LOG_COLUMNS
from spark_jobs.readers.spark_errors import reporting

_EARLIEST, _LATEST = "__earliest", "__latest"
_US = 1000  # microseconds in a millisecond


def can_be_written(source: KafkaSource, columns: Mapping[str, str]) -> bool:
    """Return whether tasks can write records of a source as they parse them.

    Args:
        source: The declaration.
        columns: Names and types of all columns of a record, before ``select``.
    """
    # Whether the bytes of a key are text has to be looked at; headers are nested.
    others = {"key", "headers"} & {*source.record_columns.values()}
    return (
        source.format == "json"
        and not source.selection.expressions
        and not others
        and supports_schema(source.value_schema(columns))
    )


def write_records(
    records: DataFrame,
    source: KafkaSource,
    columns: Mapping[str, str],
    event_time: EventTimeCheck,
    writers: RowWriters,
) -> DataFrame:
    """Return what tasks tell of the records that they write, and the records that they leave.

    A row has either columns of ``writers.told``, or those of ``records``; the others are null. A
    task that leaves records tells their number in a row of its own.

    Args:
        records: From :func:`spark_jobs.readers.parse_records.records_of`, of a source for which
            :func:`can_be_written` holds.
        source: The declaration.
        columns: Names and types of all columns of a record, before ``select``.
        event_time: Check of the event times.
        writers: How tasks write.
    """
    declared = event_time.declared
    is_checked = declared.outside != "keep"
    bounds = zip(event_time.bounds_ms, (_EARLIEST, _LATEST), strict=True) if is_checked else ()
    # Only a quarantine keeps the whole record.
    is_whole = "quarantine" in (source.on_bad_record, declared.outside)
    names = [*LOG_COLUMNS, *source.record_columns, *RECORD]
    kinds = {each.name: each.dataType.simpleString() for each in records.select(*names).schema}
    returned = pa.schema([*writers.told, *parse_schema(kinds)])
    read = _Reader(
        source.value_schema(columns), declared.column if is_checked else None, writers, returned
    )
    return records.select(
        *(name for name in names if is_whole or name != KEY),
        *(bound.alias(name) for bound, name in bounds),
    ).mapInArrow(reporting(read), ddl(returned))


@dataclass(frozen=True)
class _Reader:
    """Function for ``mapInArrow`` that writes good records and returns the others.

    Attributes:
        values: Columns of the value.
        event_time: Column whose bounds are looked at; None for none.
        writers: How tasks write.
        returned: Columns of its result: what writers tell, and those of a record.
    """

    values: pa.Schema
    event_time: str | None
    writers: RowWriters
    returned: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer, left = self.writers.writer(), 0
        for batch in batches:
            rows, good = self._rows(batch)
            if not good.all():
                others = batch.filter(pa.array(~good))
                left += len(others)
                yield self._filled(others)
                rows = rows.filter(pa.array(good))
            yield from map(self._filled, writer.add(rows))
        yield from map(self._filled, writer.close())
        if left:
            yield self._filled(pa.RecordBatch.from_pydict({self.writers.left: [left]}))

    def _rows(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Mask]:
        """Return the records with the columns of their values, and which of them are good."""
        objects = read_objects(batch.column(VALUE), self.values)
        arrays = [*batch.columns, *objects.flatten()]
        rows = pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, *self.values.names])
        good = as_mask(objects.is_valid())
        if self.event_time is None:
            return rows, good
        times = rows.column(self.event_time)
        micros = times.cast(pa.int64()).fill_null(0).to_numpy()
        low_ms, high_ms = (batch.column(name).to_numpy() for name in (_EARLIEST, _LATEST))
        # As Spark's `unix_millis`, which rounds down; both bounds are inclusive.
        within = (micros >= low_ms * _US) & (micros < (high_ms + 1) * _US)
        return rows, good & (within | as_mask(times.is_null()))

    def _filled(self, part: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with all columns of the result; those that they lack are null."""
        there = {*part.schema.names}
        arrays = [
            part.column(field.name) if field.name in there else pa.nulls(len(part), field.type)
            for field in self.returned
        ]
        return pa.RecordBatch.from_arrays(arrays, self.returned.names)
