"""All records of a topic, read without Spark, as a DuckDB view."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from orchestration.audit_sql import count_rows, insert_arrow, literal, quoted, structure
from sources.errors import InputError
from sources.kafka import KafkaLog
from sources.kafka_source import KafkaSource
from sources.positions import Offsets, TopicPartition

BATCH_RECORDS = 50_000
_RECORD = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp_ms", pa.int64()),
        ("_value", pa.string()),
    ]
)


class TopicReading:
    """The records between log start and log end, both as they stand when this is made.

    Args:
        source: The declaration.
        first: Records before are another source's, or nobody's.
        end: Offset after the last record of each partition, if the source has an end.

    Raises:
        InputError: The broker can't be reached, or has no such topic.
    """

    def __init__(
        self, source: KafkaSource, first: Offsets | None = None, end: Offsets | None = None
    ) -> None:
        self._log = KafkaLog(source)
        ends, starts = self._log.log_end(), self._log.log_start()
        # A partition that an end does not name came later.
        self._ends = ends if end is None else {at: min(end.get(at, 0), ends[at]) for at in ends}
        self._starts = {at: max((first or {}).get(at, 0), starts[at]) for at in starts}

    def insert_into(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Append all records to a table with the columns of a record.

        Raises:
            InputError: The broker stopped answering, or a value is no UTF-8 text.
        """
        held: list[Any] = []

        def take(_: TopicPartition, message: Any) -> bool:
            held.append(message)
            if len(held) == BATCH_RECORDS:
                insert_arrow(connection, table, _table(held))
                held.clear()
            return True

        self._log.scan(self._starts, self._ends, take)
        if held:
            insert_arrow(connection, table, _table(held))

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
        order = "ORDER BY _topic, _partition, _offset LIMIT 1"
        broken = (
            f"SELECT _topic, _partition, _offset, _value FROM {records} WHERE CASE WHEN "
            f"json_valid(_value) THEN json_type(_value) END IS DISTINCT FROM 'OBJECT' {order}"
        )
        for topic, part, offset, value in connection.execute(broken).fetchall():
            message = f"{_where(topic, part, offset)} is no JSON object: {value[:200]}"
            raise InputError(message, "An audit needs every record.")
        selected = ", ".join(f"_row[{literal(name)}] AS {quoted(name)}" for name in types)
        connection.execute(
            f"CREATE TABLE {rows} AS SELECT {selected}, * EXCLUDE (_row) FROM "
            f"(SELECT *, from_json(_value, {structure(types)}) AS _row FROM {records})"
        )
        for name, kind in types.items():
            field = f"json_extract(_value, {literal(_json_path(name))})"
            lost = (
                f"SELECT _topic, _partition, _offset, CAST({field} AS VARCHAR) FROM {rows} WHERE "
                f"{quoted(name)} IS NULL AND json_type({field}) <> 'NULL' {order}"
            )
            for topic, part, offset, value in connection.execute(lost).fetchall():
                message = f"{_where(topic, part, offset)}: `{name}` is no {kind}: {value[:200]}"
                raise InputError(message, "Correct the source's `schema`.")


def _table(messages: list[Any]) -> pa.Table:
    columns = [
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [message.timestamp()[1] for message in messages],
    ]
    try:
        values = pa.array([message.value() for message in messages], pa.string())
    except pa.ArrowException:
        bad = next(message for message in messages if not _is_text(message.value()))
        where = _where(bad.topic(), bad.partition(), bad.offset())
        message = f"{where}: the value is no UTF-8 text."
        raise InputError(message, "An audit needs every record.") from None
    return pa.table([*columns, values], schema=_RECORD)


def _where(topic: str, part: int, offset: int) -> str:
    return f"Topic `{topic}`, partition {part}, offset {offset}"


def create_topic_view(
    connection: duckdb.DuckDBPyConnection,
    source: KafkaSource,
    reading: TopicReading,
    types: dict[str, str],
) -> list[str]:
    """Read a topic and make the view of its rows, named like the source.

    The view has the columns of the values, and ``_topic``, ``_partition``, ``_offset``,
    ``_timestamp_ms``.

    Returns:
        A note, if there are records without a value: those are no rows.

    Raises:
        InputError: The topic can't be read whole, or a value can't be decoded.
    """
    records, rows = (f"audit.{quoted(f'{source.name}.{kind}')}" for kind in ("records", "rows"))
    connection.execute(
        f"CREATE TABLE {records} (_topic VARCHAR, _partition INTEGER, _offset BIGINT, "
        "_timestamp_ms BIGINT, _value VARCHAR)"
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
