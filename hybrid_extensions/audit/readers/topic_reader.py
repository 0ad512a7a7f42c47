"""Topic's records for the audit by the Kafka client: offsets fixed at creation, tombstones.

Avro, Protobuf and Debezium records are decoded on the way, by the decoder of the runs; the text of
JSON is stored as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from hybrid_extensions.audit.readers.values.lacking_values import LackingValues
from hybrid_extensions.audit.readers.values.tombstoned_rows import DeletedRows
from hybrid_extensions.comparison.duckdb_database import create_empty_table, insert_arrow
from sources.common.conversion import BadValue, to_arrow_array
from sources.common.positions import Offsets, TopicPartition
from sources.common.schema import TIMESTAMP
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.record_columns import RecordPart
from sources.decoding.row_decoder import NO_TEXT_HEADER, NO_VALUE, RowDecoder
from sources.kafka.client.headers import NOT_TEXT, headers_of
from sources.kafka.client.kafka_log import KafkaLog

BATCH_RECORDS = 50_000
# Columns of every record: its position, its timestamp, and why it is bad.
RECORD_FIELDS = [
    pa.field("_topic", pa.string()),
    pa.field("_partition", pa.int32()),
    pa.field("_offset", pa.int64()),
    pa.field("_timestamp_ms", pa.int64()),
    pa.field("_reason", pa.string()),
]
_VALUE = pa.field("_value", pa.string())


class TopicReader:
    """Reader of a topic's records from the first to the last offset that Kafka holds right now.

    The range of offsets is fixed when the reader is created.

    Args:
        source: The topic's source.
        first: First offset of each partition that belongs to the source; log start if left out.
        end: For a bounded source, the offset after the last record of each partition; partitions
            that it does not name are left out.

    Attributes:
        starts: First offset to be read, by partition.

    Raises:
        InputError: The broker does not know the topic, or refuses.
        UnavailableError: The broker does not answer.
    """

    def __init__(
        self, source: KafkaSource, first: Offsets | None = None, end: Offsets | None = None
    ) -> None:
        self._source = source
        self._log = KafkaLog(source)
        ends, starts = self._log.log_end(), self._log.log_start()
        if end is not None:
            # A partition that a bounded source does not name was created later.
            ends = {partition: min(end.get(partition, 0), ends[partition]) for partition in ends}
        self._ends = ends
        self.starts: Offsets = {
            partition: max((first or {}).get(partition, 0), starts[partition])
            for partition in starts
        }

    def insert_into(
        self, connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, pa.DataType]
    ) -> None:
        """Read the records into a new table with their positions and values.

        Columns are ``_topic``, ``_partition``, ``_offset``, ``_timestamp_ms`` and ``_reason`` (why
        the record is bad; null for others), then those of the value, or its text as ``_value`` for
        JSON. Blocks until the last offset is read. Tombstones are left out if the source skips
        them.

        Args:
            connection: The audit's database.
            table: Quoted name of the new table.
            columns: Arrow types of the columns before ``select``, by name.

        Raises:
            InputError: The broker or the schema registry refuses, or lacks what decoding needs.
            UnavailableError: One of them does not answer.
        """
        converter = _RecordConverter(self._source, columns)
        create_empty_table(connection, table, converter.schema)
        batch: list[Any] = []

        skips_tombstones = self._source.skips_tombstones

        def add(_: TopicPartition, message: Any) -> bool:
            if skips_tombstones and message.value() is None:
                return True
            batch.append(message)
            if len(batch) == BATCH_RECORDS:
                insert_arrow(connection, table, converter.to_table(batch))
                batch.clear()
            return True

        self._log.scan(self.starts, self._ends, add)
        if batch:
            insert_arrow(connection, table, converter.to_table(batch))


class _RecordConverter:
    """Converter of Kafka messages to Arrow tables.

    Args:
        source: The topic's source.
        columns: Arrow types of the columns before ``select``, by name.

    Attributes:
        schema: Schema of the tables.
    """

    def __init__(self, source: KafkaSource, columns: Mapping[str, pa.DataType]) -> None:
        self._include = source.record_columns
        included = [pa.field(name, columns[name]) for name in source.record_columns]
        self._of_value = pa.schema(
            [pa.field(n, kind) for n, kind in columns.items() if n not in source.record_columns]
        )
        self._decoder = None
        self._lacking = LackingValues.of_source(source)
        self._deleted = DeletedRows.of_source(source, self._of_value)
        values = [_VALUE]
        if source.value.parser != "json":
            self._decoder = RowDecoder(
                source.reader(), self._of_value, positions=source.position_columns
            )
            values = list(self._of_value)
        self.schema = pa.schema([*RECORD_FIELDS, *included, *values])

    def to_table(self, messages: list[Any]) -> pa.Table:
        """Return an Arrow table with a row for each message, bad ones included."""
        rows = [self._row(message) for message in messages]
        columns = zip(*rows, strict=True)
        arrays = [
            to_arrow_array(each, field.type)
            for each, field in zip(columns, self.schema, strict=True)
        ]
        if self._decoder is not None:
            first = len(arrays) - len(self._of_value)
            offsets = arrays[self.schema.get_field_index("_offset")]
            arrays[first:] = self._decoder.placed(arrays[first:], offsets)
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _row(self, message: Any) -> list[Any]:
        """Return the values of one row; those of a bad record are null, with a reason."""
        reason = None
        included = [None] * len(self._include)
        values = [None] * (len(self.schema) - len(RECORD_FIELDS) - len(included))
        try:
            included = [self._metadata(message, name) for name in self._include]
            values = self._values(message)
        except BadValue as error:
            reason = str(error)
        position = [message.topic(), message.partition(), message.offset(), message.timestamp()[1]]
        return [*position, reason, *included, *values]

    def _values(self, message: Any) -> list[Any]:
        """Return the decoded columns of a value, or its text for JSON."""
        value = message.value()
        if value is None and self._deleted is not None:
            row = self._deleted.of(message.key(), message.timestamp()[1])
            if self._decoder is None:
                return [json.dumps(row, default=str)]
            return [row.get(name) for name in self._of_value.names]
        if self._decoder is not None:
            decoded = self._decoder.decode(value)
            if self._lacking is not None and value is not None:
                named = dict(zip(self._of_value.names, decoded, strict=True))
                self._lacking.refuse_placeholders(value, named)
            return decoded
        if value is None:
            raise BadValue(NO_VALUE)
        return [_text(value, "value")]

    def _metadata(self, message: Any, name: str) -> Any:
        """Return the part of a Kafka record that ``include`` declares for a column."""
        part: RecordPart = self._include[name]
        if part == "headers":
            headers = headers_of(message)
            if any(NOT_TEXT in key for key, _ in headers or []):
                raise BadValue(NO_TEXT_HEADER)
            return headers and [{"key": key, "value": value} for key, value in headers]
        if part == "timestamp":
            return pa.scalar(message.timestamp()[1] * 1000, TIMESTAMP).as_py()
        if part == "key":
            key = message.key()
            is_text = self.schema.field(name).type == pa.string()
            return _text(key, "key") if is_text and key is not None else key
        if part == "tombstone":
            return message.value() is None
        return {"topic": message.topic, "partition": message.partition, "offset": message.offset}[
            part
        ]()


def _text(data: bytes, part: str) -> str:
    """Decode the UTF-8 text of a part of a record, such as ``key``."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        reason = f"the {part} is not UTF-8 text"
        raise BadValue(reason) from None
