"""All records of a topic, read without Spark, as a DuckDB view; bad ones apart.

JSON is parsed by DuckDB, not by what the stream uses. Avro and Protobuf are decoded by the very
decoder of the stream (:mod:`sources.decoding.decoder`): for them the audit proves which records
arrived, not what their bytes mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from orchestration.audit.sql import (
    columns_of,
    count_rows,
    insert_arrow,
    listed,
    literal,
    quoted,
    structure,
)
from sources.common.positions import Offsets, TopicPartition
from sources.common.schema import TIMESTAMP
from sources.config.kafka_source import KafkaSource
from sources.decoding.conversion import BadValue, to_arrow_array
from sources.decoding.decoder import NO_VALUE, RowDecoder, field_reader
from sources.decoding.value_format import RecordPart
from sources.errors import InputError
from sources.kafka.client import KafkaLog

BATCH_RECORDS = 50_000
_RECORD = [
    pa.field("_topic", pa.string()),
    pa.field("_partition", pa.int32()),
    pa.field("_offset", pa.int64()),
    pa.field("_timestamp_ms", pa.int64()),
    pa.field("_reason", pa.string()),
]
_VALUE = pa.field("_value", pa.string())
# Where DuckDB would convert what Spark refuses; {0} is a field's JSON type, {1} its column.
_NO_INTEGER = "{0} NOT IN ('UBIGINT', 'BIGINT', 'HUGEINT')"
_NO_NUMBER = "({0} = 'VARCHAR' AND isfinite({1}))"
_STRICTER = {
    "BOOLEAN": "{0} <> 'BOOLEAN'",
    **dict.fromkeys(["TINYINT", "SMALLINT", "INTEGER", "BIGINT"], _NO_INTEGER),
    **dict.fromkeys(["FLOAT", "DOUBLE"], _NO_NUMBER),
}


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
        self._source = source
        self._log = KafkaLog(source)
        ends, starts = self._log.log_end(), self._log.log_start()
        # A partition that an end does not name came later.
        self._ends = ends if end is None else {at: min(end.get(at, 0), ends[at]) for at in ends}
        self.starts: Offsets = {at: max((first or {}).get(at, 0), starts[at]) for at in starts}

    def insert_into(
        self, connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, pa.DataType]
    ) -> None:
        """Make a table of all records: their places, and all their columns or the JSON text.

        Raises:
            InputError: The broker stopped answering, or has not what decoding needs.
        """
        made = _Records(self._source, columns)
        connection.register("_columns", made.schema.empty_table())
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM _columns")
        connection.unregister("_columns")
        held: list[Any] = []

        # Of a log of changes, a record without a value is a tombstone: no row, and not bad.
        has_tombstones = self._source.format == "debezium"

        def take(_: TopicPartition, message: Any) -> bool:
            if has_tombstones and message.value() is None:
                return True
            held.append(message)
            if len(held) == BATCH_RECORDS:
                insert_arrow(connection, table, made.table(held))
                held.clear()
            return True

        self._log.scan(self.starts, self._ends, take)
        if held:
            insert_arrow(connection, table, made.table(held))


class _Records:
    """Makes Arrow tables of messages.

    Attributes:
        schema: Of them.
    """

    def __init__(self, source: KafkaSource, columns: Mapping[str, pa.DataType]) -> None:
        self._include = source.record_columns
        included = [pa.field(name, columns[name]) for name in source.record_columns]
        self._of_value = pa.schema(
            [pa.field(n, kind) for n, kind in columns.items() if n not in source.record_columns]
        )
        self._decoder = None
        values = [_VALUE]
        if source.format != "json":
            self._decoder = RowDecoder(field_reader(source), self._of_value)
            values = list(self._of_value)
        self.schema = pa.schema([*_RECORD, *included, *values])

    def table(self, messages: list[Any]) -> pa.Table:
        """The table of some messages."""
        rows = [self._row(message) for message in messages]
        columns = zip(*rows, strict=True)
        arrays = [
            to_arrow_array(each, field.type)
            for each, field in zip(columns, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _row(self, message: Any) -> list[Any]:
        reason = None
        included = [None] * len(self._include)
        values = [None] * (len(self.schema) - len(_RECORD) - len(included))
        try:
            included = [self._metadata(message, name) for name in self._include]
            values = self._values(message.value())
        except BadValue as error:
            reason = str(error)
        place = [message.topic(), message.partition(), message.offset(), message.timestamp()[1]]
        return [*place, reason, *included, *values]

    def _values(self, value: bytes | None) -> list[Any]:
        if self._decoder is not None:
            return self._decoder.decode(value)
        if value is None:
            raise BadValue(NO_VALUE)
        return [_text(value, "value")]

    def _metadata(self, message: Any, name: str) -> Any:
        what: RecordPart = self._include[name]
        if what == "headers":
            headers = message.headers()
            return headers and [{"key": key, "value": value} for key, value in headers]
        if what == "timestamp":
            return pa.scalar(message.timestamp()[1] * 1000, TIMESTAMP).as_py()
        if what == "key":
            key = message.key()
            is_text = self.schema.field(name).type == pa.string()
            return _text(key, "key") if is_text and key is not None else key
        return {"topic": message.topic, "partition": message.partition, "offset": message.offset}[
            what
        ]()


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        reason = f"the {what} is no UTF-8 text"
        raise BadValue(reason) from None


def create_topic_view(
    connection: duckdb.DuckDBPyConnection,
    source: KafkaSource,
    reading: TopicReading,
    columns: Mapping[str, pa.DataType],
) -> list[str]:
    """Read a topic and make the view of its rows, named like the source.

    The view has the columns that come out of the source, and ``_topic``, ``_partition``,
    ``_offset``, ``_timestamp_ms``. Places of bad records are in :func:`bad_table`.

    Args:
        connection: Gets the view.
        source: The declaration.
        reading: The records.
        columns: All columns of a row, before ``select``.

    Returns:
        A note, if there are records without a value: those are no rows.

    Raises:
        InputError: The topic can't be read whole, or has a bad record though none is allowed;
            names its topic, partition and offset.
    """
    records, rows = (f"audit.{quoted(f'{source.name}.{kind}')}" for kind in ("records", "rows"))
    reading.insert_into(connection, records, columns)
    if source.format == "json":
        of_value = {n: kind for n, kind in columns.items() if n not in source.include}
        types = _duckdb_types(connection, of_value)
        parse_json(connection, records, rows, types, _refused(types))
        connection.execute(f"DROP TABLE {records}")
    else:
        rows = records
    bad = bad_table(source.name)
    connection.execute(
        f"CREATE TABLE {bad} AS SELECT _topic AS _place, _partition, _offset, _reason "
        f"FROM {rows} WHERE _reason IS NOT NULL"
    )
    made = ["* EXCLUDE (_reason)"]
    if source.select:
        own = [field.name for field in _RECORD if field.name != "_reason"]
        made = [f"{source.selection.duckdb(at)} AS {quoted(at)}" for at in source.select]
        made = [listed(own), *made]
    connection.execute(
        f"CREATE VIEW {quoted(source.name)} AS SELECT {', '.join(made)} FROM {rows} "
        "WHERE _reason IS NULL"
    )
    return _refuse_bad(connection, source, bad) if source.on_bad_record == "fail" else []


def bad_table(source: str) -> str:
    """The table of the places of a source's bad records, and what is wrong with each."""
    return f"audit.{quoted(f'{source}.bad')}"


def _refuse_bad(connection: duckdb.DuckDBPyConnection, source: KafkaSource, bad: str) -> list[str]:
    is_empty = f"_reason = {literal(NO_VALUE)}"
    query = f"SELECT * FROM {bad} WHERE NOT ({is_empty}) ORDER BY ALL LIMIT 1"
    for topic, part, offset, reason in connection.execute(query).fetchall():
        message = f"Topic `{topic}`, partition {part}, offset {offset}: {reason}."
        hint = "Correct the source's declaration, or write `on_bad_record: quarantine`."
        raise InputError(message, hint)
    empty = count_rows(connection, bad)
    return [f"Source `{source.name}`: {empty} records without a value are no rows."] * bool(empty)


def _duckdb_types(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, pa.DataType]
) -> dict[str, str]:
    connection.register("_columns", pa.schema(list(columns.items())).empty_table())
    types = columns_of(connection, "SELECT * FROM _columns")
    connection.unregister("_columns")
    return types


def _refused(types: dict[str, str]) -> dict[str, str]:
    return {
        name: _STRICTER[kind].format(f"json_type({json_field(name)})", quoted(name))
        for name, kind in types.items()
        if kind in _STRICTER
    }


def parse_json(
    connection: duckdb.DuckDBPyConnection,
    records: str,
    rows: str,
    types: Mapping[str, str],
    refused: Mapping[str, str],
) -> None:
    """Make a table of records with their values parsed.

    Args:
        connection: Gets it.
        records: A table with ``_value``, the JSON text, and ``_reason``, if one is known to be
            bad; others are added.
        rows: Name of the new table.
        types: Its columns and their DuckDB types.
        refused: By column: SQL that tells whether DuckDB converts what is bad.
    """
    connection.execute(
        f"UPDATE {records} SET _reason = 'the value is no JSON object: ' || left(_value, 200) "
        "WHERE _reason IS NULL AND CASE WHEN json_valid(_value) THEN json_type(_value) END "
        "IS DISTINCT FROM 'OBJECT'"
    )
    # DuckDB's own conversions fail the query over text that is no JSON.
    connection.execute(f"UPDATE {records} SET _value = NULL WHERE _reason IS NOT NULL")
    selected = ", ".join(f"_row[{literal(name)}] AS {quoted(name)}" for name in types)
    connection.execute(
        f"CREATE TABLE {rows} AS SELECT {selected}, * EXCLUDE (_row) FROM "
        f"(SELECT *, from_json(_value, {structure(types)}) AS _row FROM {records})"
    )
    for name, kind in types.items():
        field = json_field(name)
        lost = f"{quoted(name)} IS NULL"
        if name in refused:
            lost = f"({lost} OR {refused[name]})"
        connection.execute(
            f"UPDATE {rows} SET _reason = {literal(f'`{name}` is no {kind}: ')} || "
            f"left(CAST({field} AS VARCHAR), 200) "
            f"WHERE _reason IS NULL AND {lost} AND json_type({field}) <> 'NULL'"
        )
    connection.execute(f"ALTER TABLE {rows} DROP COLUMN _value")


def json_field(name: str, value: str = "_value") -> str:
    """SQL: a member of a JSON object."""
    path = '$."' + name.replace('"', '\\"') + '"'
    return f"json_extract({value}, {literal(path)})"
