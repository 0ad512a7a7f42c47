"""All records of a topic, read without Spark, as a DuckDB view."""

from __future__ import annotations

import logging
import time
from typing import Any

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from orchestration.audit_sql import count_rows, insert_arrow, literal, quoted, structure
from sources.errors import InputError
from sources.kafka import KafkaTopic
from sources.pipeline import KafkaSource

BATCH_RECORDS = 50_000
# A broker that sends nothing for so long is given up.
SILENCE_S = 30.0
_RECORD = pa.schema(
    [
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp_ms", pa.int64()),
        ("_value", pa.string()),
    ]
)
_QUIET = logging.getLogger("hybrid.librdkafka")


class TopicReading:
    """The records between log start and log end, both as they stand when this is made.

    Finished by position, never by count: control records and compaction take up offsets.

    Args:
        source: The declaration.

    Raises:
        InputError: The broker can't be reached, or has no such topic.
    """

    def __init__(self, source: KafkaSource) -> None:
        topic = KafkaTopic(source.bootstrap_servers, source.topic)
        self._name = source.topic
        self._servers = topic.servers
        self._ends = topic.log_end()
        self._starts = topic.log_start()

    def insert_into(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Append all records to a table with the columns of a record.

        Raises:
            InputError: The broker stopped answering, or a value is no UTF-8 text.
        """
        open_parts = set(self._starts)
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(self._name, *item) for item in self._starts.items()])
            heard = time.monotonic()
            while open_parts:
                messages = consumer.consume(BATCH_RECORDS, timeout=0.2)
                if messages:
                    heard = time.monotonic()
                    insert_arrow(connection, table, self._take(messages, open_parts))
                elif time.monotonic() - heard > SILENCE_S:
                    message = f"Topic `{self._name}`: no answer for {SILENCE_S:.0f} s."
                    raise InputError(message, "Check the broker and audit again.")
        except KafkaException as error:
            message = f"Topic `{self._name}` can't be read: {error.args[0].str()}."
            raise InputError(message, "Check the broker and audit again.") from None
        finally:
            consumer.close()

    def _consumer(self) -> Any:
        settings = {
            "bootstrap.servers": self._servers,
            "group.id": "hybrid-audit",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            # What Spark's reader uses unless told otherwise; librdkafka's own is read_committed.
            "isolation.level": "read_uncommitted",
        }
        return Consumer(settings, logger=_QUIET)

    def _take(self, messages: list[Any], open_parts: set[int]) -> pa.Table:
        """Records below the ends; closes the partitions whose end is reached."""
        records = []
        for message in messages:
            part, offset, error = message.partition(), message.offset(), message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if error is None and offset < self._ends[part]:
                records.append(message)
            # At the end of a partition the offset is that of the record that will come next.
            if offset + (error is None) >= self._ends[part]:
                open_parts.discard(part)
        columns = [
            [record.partition() for record in records],
            [record.offset() for record in records],
            [record.timestamp()[1] for record in records],
        ]
        try:
            values = pa.array([record.value() for record in records], pa.string())
        except pa.ArrowException:
            bad = next(record for record in records if not _is_text(record.value()))
            message = f"{self._where(bad.partition(), bad.offset())}: the value is no UTF-8 text."
            raise InputError(message, "An audit needs every record.") from None
        return pa.table([*columns, values], schema=_RECORD)

    def decode(
        self,
        connection: duckdb.DuckDBPyConnection,
        records: str,
        rows: str,
        types: dict[str, str],
    ) -> None:
        """Make a table of records with their values decoded, one column for each of ``types``.

        Raises:
            InputError: A value is no JSON object, or has a field that is not of its type; names
                partition, offset and field.
        """
        order = "ORDER BY _partition, _offset LIMIT 1"
        broken = (
            f"SELECT _partition, _offset, _value FROM {records} WHERE CASE WHEN "
            f"json_valid(_value) THEN json_type(_value) END IS DISTINCT FROM 'OBJECT' {order}"
        )
        for part, offset, value in connection.execute(broken).fetchall():
            message = f"{self._where(part, offset)} is no JSON object: {value[:200]}"
            raise InputError(message, "An audit needs every record.")
        selected = ", ".join(f"_row[{literal(name)}] AS {quoted(name)}" for name in types)
        connection.execute(
            f"CREATE TABLE {rows} AS SELECT {selected}, * EXCLUDE (_row) FROM "
            f"(SELECT *, from_json(_value, {structure(types)}) AS _row FROM {records})"
        )
        for name, kind in types.items():
            field = f"json_extract(_value, {literal(_json_path(name))})"
            lost = (
                f"SELECT _partition, _offset, CAST({field} AS VARCHAR) FROM {rows} WHERE "
                f"{quoted(name)} IS NULL AND json_type({field}) <> 'NULL' {order}"
            )
            for part, offset, value in connection.execute(lost).fetchall():
                message = f"{self._where(part, offset)}: `{name}` is no {kind}: {value[:200]}"
                raise InputError(message, "Correct the source's `schema`.")

    def _where(self, part: int, offset: int) -> str:
        return f"Topic `{self._name}`, partition {part}, offset {offset}"


def create_topic_view(
    connection: duckdb.DuckDBPyConnection,
    source: KafkaSource,
    reading: TopicReading,
    types: dict[str, str],
) -> list[str]:
    """Read a topic and make the view of its rows, named like the source.

    The view has the columns of the values, and ``_partition``, ``_offset``, ``_timestamp_ms``.

    Returns:
        A note, if there are records without a value: those are no rows.

    Raises:
        InputError: The topic can't be read whole, or a value can't be decoded.
    """
    records, rows = (f"audit.{quoted(f'{source.name}.{kind}')}" for kind in ("records", "rows"))
    connection.execute(
        f"CREATE TABLE {records} (_partition INTEGER, _offset BIGINT, _timestamp_ms BIGINT, "
        "_value VARCHAR)"
    )
    reading.insert_into(connection, records)
    read = count_rows(connection, records)
    connection.execute(f"DELETE FROM {records} WHERE _value IS NULL")
    empty = read - count_rows(connection, records)
    reading.decode(connection, records, rows, types)
    connection.execute(f"DROP TABLE {records}")
    connection.execute(
        f"CREATE VIEW {quoted(source.name)} AS SELECT * EXCLUDE (_value) FROM {rows}"
    )
    return [f"Source `{source.name}`: {empty} records without a value are no rows."] * bool(empty)


def _json_path(name: str) -> str:
    return '$."' + name.replace('"', '\\"') + '"'


def _is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
