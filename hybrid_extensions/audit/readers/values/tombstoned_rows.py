"""Which row a tombstone deletes, by the record's key: JSON, text or Avro, types without loss.

Only the bytes of Avro go through the runs' decoder.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.conversion import BadValue
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.registered_values import registered_values
from sources.decoding.schema_registry import Registry

_UNREADABLE = "the key of a record without a value does not tell which row it deletes"


class DeletedRows:
    """Reader of the keys of rows that tombstones (records with a key and no value) delete.

    Args:
        kinds: Arrow types of the columns of the row's key, by name.
        event_time: Column that the record's timestamp fills; None if no column of the
            values is filled by it.
        registry: Schema registry of keys in Avro; None without one.
    """

    def __init__(
        self, kinds: dict[str, pa.DataType], event_time: str | None, registry: Registry | None
    ) -> None:
        self._kinds = kinds
        self._event_time = event_time
        self._registry = registry

    @classmethod
    def of_source(cls, source: KafkaSource, columns: pa.Schema) -> DeletedRows | None:
        """Return the reader for a source; None if its tombstones delete no rows.

        Args:
            source: The declaration.
            columns: Columns of the values.
        """
        if (row := source.row_of_key) is None:
            return None
        time = row.event_time if row.event_time in columns.names else None
        kinds = {name: columns.field(name).type for name in row.key}
        return cls(kinds, time, source.value.key_registry)

    def of(self, key: bytes | None, timestamp_ms: int) -> dict[str, Any]:
        """Return the values of the row that a tombstone deletes, by column: key and event time.

        Args:
            key: Key of the record; None if it has none, which is bad.
            timestamp_ms: Timestamp of the record, in ms since 1970, for the event time.

        Raises:
            BadValue: The key does not tell the row.
        """
        try:
            members = self._members(key)
            row = {name: _as(members[name], kind) for name, kind in self._kinds.items()}
            if self._event_time is not None:
                row[self._event_time] = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
        except (ValueError, KeyError, TypeError, ArithmeticError, pa.ArrowException):
            raise BadValue(_UNREADABLE) from None
        return row

    def _members(self, key: bytes | None) -> dict[str, Any]:
        if key is None:
            raise BadValue(_UNREADABLE)
        value: Any
        if self._registry is not None and key[:1] == b"\0":
            value = registered_values().values(self._registry)(key)
        else:
            text = key.decode()
            try:
                value = json.loads(text, parse_float=Decimal)
            except ValueError:
                value = text
            if isinstance(value, dict) and set(value) == {"schema", "payload"}:
                value = value["payload"]
            is_text = pa.string() in self._kinds.values()
            if is_text and not isinstance(value, dict | str):
                value = text
        if isinstance(value, dict):
            return value
        (name,) = self._kinds
        return {name: value}


def _as(value: Any, kind: pa.DataType) -> Any:
    """Return a value of a type, exactly."""
    is_boolean = pa.types.is_boolean(kind)
    has_fraction = isinstance(value, float | Decimal)
    if has_fraction and pa.types.is_floating(kind):
        value = float(value)
    elif has_fraction and not pa.types.is_decimal(kind):
        raise BadValue(_UNREADABLE)
    if value is None or isinstance(value, bool) != is_boolean:
        raise BadValue(_UNREADABLE)
    if isinstance(value, int) and pa.types.is_temporal(kind):
        raise BadValue(_UNREADABLE)
    if isinstance(value, str) and not pa.types.is_string(kind):
        if pa.types.is_integer(kind):
            raise BadValue(_UNREADABLE)
        parse = {True: date.fromisoformat, False: datetime.fromisoformat}[pa.types.is_date(kind)]
        value = Decimal(value) if pa.types.is_decimal(kind) else parse(value)
    elif isinstance(value, int) and pa.types.is_decimal(kind):
        value = Decimal(value)
    return pc.cast(pa.scalar(value), kind).as_py()
