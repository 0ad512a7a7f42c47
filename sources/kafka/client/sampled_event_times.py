"""Event times of a sample of records, decoded without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from sources.common.conversion import BadValue
from sources.common.schema import TIMESTAMP, parse_schema
from sources.common.state_document import Part
from sources.common.times import iso
from sources.common.topic_log import LogRecord
from sources.config.source.event_time import EventTime
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.record_columns import RecordPart
from sources.decoding.row_decoder import RowDecoder

_INCLUDED: dict[RecordPart, Callable[[LogRecord], Any]] = {
    "key": lambda record: record.key,
    "headers": lambda record: (
        record.headers and [{"key": key, "value": value} for key, value in record.headers]
    ),
    "timestamp": lambda record: record.timestamp_ms * 1000,
    "topic": lambda record: record.partition.topic,
    "partition": lambda record: record.partition.partition,
    "offset": lambda record: record.offset,
    "tombstone": lambda record: record.value is None,
}


class SampledTimes(Part):
    """Event times of a sample of a topic's records. All times are in Unix milliseconds.

    An event time counts if it is within the bounds of ``event_time``; others are only reported.

    Attributes:
        records: Number of records of the sample that have an event time.
        outside: Number of those whose event time does not count.
        first_outside: Place and event time of the first of them, in words; None without any.
        lowest_ms, highest_ms: Lowest and highest event time that counts; None without any.
        ahead_ms: By how many milliseconds an event time that counts lies after the timestamp of its
            record, at most; 0 if none does.
    """

    records: int = 0
    outside: int = 0
    first_outside: str | None = None
    lowest_ms: int | None = None
    highest_ms: int | None = None
    ahead_ms: int = 0

    def in_words(self) -> str:
        """Describe the sample in a phrase: number, range of event times, number out of bounds.

        Such as ``100 sampled, 2024-01-01T00:00:00Z to 2024-01-01T00:59:00Z``; ``0 sampled`` for
        none.
        """
        words = f"{self.records:,} sampled"
        if self.lowest_ms is not None and self.highest_ms is not None:
            words = f"{words}, {iso(self.lowest_ms)} to {iso(self.highest_ms)}"
        if self.outside:
            words = f"{words}, {self.outside:,} outside of the bounds of `event_time`"
        return words


def sampled_times(
    source: KafkaSource,
    read: Mapping[str, str],
    event_time: EventTime,
    clock_ms: int,
    sample: Sequence[LogRecord],
) -> SampledTimes:
    """Compute the event times of sampled records, and how far they are ahead of record timestamps.

    For the plan: a start by time looks up record timestamps, so it may start too late where event
    times are ahead of them by more than ``allowed_lateness``. Event times out of the bounds are
    only counted.

    Args:
        source: Declaration of the source.
        read: All columns of a row before ``select``: names and Spark SQL types.
        event_time: The pipeline's event time, with its bounds.
        clock_ms: The clock at which the bounds are measured, in Unix milliseconds.
        sample: Records; bad ones, and those without an event time, are skipped.

    Raises:
        InputError: The expression of ``select`` for the event time can't be evaluated.
        UnavailableError: The schema registry does not answer.
    """
    low_ms, high_ms = event_time.bounds_ms(clock_ms)
    dated = dated_records(source, read, event_time.column, sample)
    inside = [(record, ms) for record, ms in dated if low_ms <= ms <= high_ms]
    first = next(((record, ms) for record, ms in dated if not low_ms <= ms <= high_ms), None)
    times = [ms for _, ms in inside]
    return SampledTimes(
        records=len(dated),
        outside=len(dated) - len(inside),
        first_outside=first
        and f"{first[0].partition}, offset {first[0].offset}, with {iso(first[1])}",
        lowest_ms=min(times, default=None),
        highest_ms=max(times, default=None),
        ahead_ms=max([0, *(ms - record.timestamp_ms for record, ms in inside)]),
    )


def dated_records(
    source: KafkaSource, read: Mapping[str, str], event_time: str, sample: Sequence[LogRecord]
) -> list[tuple[LogRecord, int]]:
    """Pair each record of a sample with its event time in Unix milliseconds; may be empty.

    Args:
        source: Declaration of the source.
        read: All columns of a row before ``select``: names and Spark SQL types.
        event_time: Name of the event-time column.
        sample: Records; bad ones, and those whose event time is null, are left out.

    Raises:
        InputError: The expression of ``select`` for the event time can't be evaluated.
        UnavailableError: The schema registry does not answer.
    """
    decoded, values = decode_records(source, read, [event_time], sample)
    times_us = values[0].cast(TIMESTAMP, safe=False).cast(pa.int64()).to_pylist() if decoded else []
    pairs = zip(decoded, times_us, strict=True)
    return [(record, time_us // 1000) for record, time_us in pairs if time_us is not None]


def decode_records(
    source: KafkaSource, read: Mapping[str, str], names: Sequence[str], sample: Sequence[LogRecord]
) -> tuple[list[LogRecord], list[pa.ChunkedArray]]:
    """Decode some columns of a few records: return the good records, and the values by column.

    Args:
        source: Declaration of the source.
        read: All columns of a row before ``select``: names and Spark SQL types.
        names: Output columns.
        sample: Records; bad ones are left out. Without a good one, there are no columns either.

    Raises:
        InputError: The expression of ``select`` for a column can't be evaluated.
        UnavailableError: The schema registry does not answer.
    """
    needed = {each for name in names for each in source.selection.inputs(name)}
    columns = pa.schema([field for field in parse_schema(read) if field.name in needed])
    values_of = _row_reader(source, columns)
    rows: list[list[pa.Array]] = []
    decoded: list[LogRecord] = []
    for record in sample:
        try:
            values = zip(values_of(record), columns.types, strict=True)
            rows.append([pa.array([value], kind) for value, kind in values])
        except (BadValue, pa.ArrowException, ValueError, TypeError, OverflowError):
            continue
        decoded.append(record)
    if not rows or not columns:
        return [], []
    arrays = [pa.concat_arrays(parts) for parts in zip(*rows, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=columns)
    return decoded, [source.selection.evaluate(name, batch) for name in names]


def _row_reader(source: KafkaSource, columns: pa.Schema) -> Callable[[LogRecord], list[Any]]:
    """Return a function from a record to the values of some columns; it raises on bad values."""
    included = {name: _INCLUDED[what] for name, what in source.record_columns.items()}
    of_value = pa.schema([field for field in columns if field.name not in included])
    reader = source.reader()
    decoder = None if source.value.parser == "json" else RowDecoder(reader, of_value)

    def values(value: bytes | None) -> list[Any]:
        if decoder is not None:
            return decoder.decode(value)
        fields = reader.fields(value or b"")
        return [_from_json(fields.get(field.name), field.type) for field in of_value]

    def read(record: LogRecord) -> list[Any]:
        row = dict(zip(of_value.names, values(record.value), strict=True)) if of_value else {}
        return [row[name] if name in row else included[name](record) for name in columns.names]

    return read


def _from_json(value: Any, kind: pa.DataType) -> Any:
    """Return a member of a JSON object as ``pyarrow.array`` accepts it: times are texts there."""
    if pa.types.is_timestamp(kind):
        return value and datetime.fromisoformat(value)
    if pa.types.is_date(kind):
        return value and date.fromisoformat(value)
    if pa.types.is_struct(kind):
        return value and {
            field.name: _from_json(value.get(field.name), field.type) for field in kind
        }
    if pa.types.is_list(kind):
        return value and [_from_json(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return value and [(key, _from_json(item, kind.item_type)) for key, item in value.items()]
    return value
