"""Sample of records, decoded without Spark to compare event times with record timestamps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from sources.common.schema import TIMESTAMP, parse_schema
from sources.common.topic_log import LogRecord
from sources.config.kafka_source import KafkaSource
from sources.decoding.conversion import BadValue
from sources.decoding.decoder import RowDecoder, field_reader
from sources.decoding.value_format import RecordPart

_INCLUDED: dict[RecordPart, Callable[[LogRecord], Any]] = {
    "key": lambda record: record.key,
    "headers": lambda record: (
        record.headers and [{"key": key, "value": value} for key, value in record.headers]
    ),
    "timestamp": lambda record: record.timestamp_ms * 1000,
    "topic": lambda record: record.partition.topic,
    "partition": lambda record: record.partition.partition,
    "offset": lambda record: record.offset,
}


def ahead_ms(
    source: KafkaSource, read: Mapping[str, str], event_time: str, sample: Sequence[LogRecord]
) -> int:
    """Return how far event times run ahead of record timestamps in a sample, in milliseconds.

    A start by time looks up record timestamps: where they are older than the event times by more
    than ``allowed_lateness``, it may start too late.

    Args:
        source: Declaration of the source.
        read: All columns of a row before ``select``: names and Spark SQL types.
        event_time: Event-time column.
        sample: Records; bad ones are skipped.

    Returns:
        The largest difference; 0 if no event time is ahead, or no record can be decoded.

    Raises:
        InputError: The expression of ``select`` for the event time can't be evaluated.
        UnavailableError: The schema registry does not answer.
    """
    needed = source.selection.inputs(event_time)
    columns = pa.schema([field for field in parse_schema(read) if field.name in needed])
    values_of = _row_reader(source, columns)
    rows: list[list[pa.Array]] = []
    stamps: list[int] = []
    for record in sample:
        try:
            values = zip(values_of(record), columns.types, strict=True)
            rows.append([pa.array([value], kind) for value, kind in values])
        except (BadValue, pa.ArrowException, ValueError, TypeError, OverflowError):
            continue
        stamps.append(record.timestamp_ms)
    if not rows or not columns:
        return 0
    arrays = [pa.concat_arrays(parts) for parts in zip(*rows, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=columns)
    events = source.selection.evaluate(event_time, batch).cast(TIMESTAMP, safe=False)
    times = events.cast(pa.int64()).to_pylist()
    worst = 0
    for time_us, stamp_ms in zip(times, stamps, strict=True):
        if time_us is not None:
            worst = max(worst, time_us // 1000 - stamp_ms)
    return worst


def _row_reader(source: KafkaSource, columns: pa.Schema) -> Callable[[LogRecord], list[Any]]:
    """Return a function from a record to the values of some columns; it raises on bad values."""
    included = {name: _INCLUDED[what] for name, what in source.record_columns.items()}
    of_value = pa.schema([field for field in columns if field.name not in included])
    reader = field_reader(source)
    decoder = None if source.format == "json" else RowDecoder(reader, of_value)

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
