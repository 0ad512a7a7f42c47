"""Tombstones: records with a key and no value, and the rows that they delete, found by the key.

For topics whose records are rows, under ``on_tombstone: delete``
(:attr:`sources.decoding.record_rows.RecordRows.on_tombstone`). Debezium's tombstones never come
here: the change before them has deleted the row, so they are left out where records are decoded,
as formats of changes have ``has_tombstones`` (:mod:`sources.decoding.value_formats.base`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from sources.common.conversion import BadValue, converter, short_repr
from sources.common.times import EPOCH
from sources.decoding.key_document import key_document
from sources.decoding.registered_values import registered_values
from sources.decoding.schema_registry import Registry

_FRAME = b"\0"


class RowOfKey(NamedTuple):
    """Columns of a row that a tombstone deletes: those that its key and timestamp fill.

    Attributes:
        key: Columns that identify a row, which the record's key fills.
        event_time: Event-time column, which the record's timestamp fills.
    """

    key: tuple[str, ...]
    event_time: str


class Tombstones:
    """Reader of tombstones (a key, no value): makes the row that each of them deletes.

    Of the row, the columns of its key are filled from the record's key, and its event time, if
    values have that column, from the record's timestamp; the others stay null. A key that does not
    tell them makes a bad value. Built on the driver, and pickled to tasks.

    Args:
        row: Columns that are filled: those of the key, and the event time.
        columns: Columns that are decoded from values, with their types.
        registry: Schema registry of the ids in front of keys in Avro; None if keys have none.

    Raises:
        InputError: There is a registry, and no installed extension decodes its values.
    """

    def __init__(self, row: RowOfKey, columns: pa.Schema, registry: Registry | None) -> None:
        self._kinds = {name: columns.field(name).type for name in row.key}
        self._event_time = row.event_time if row.event_time in columns.names else None
        # What decodes keys with a schema id in front; tasks ask no extension.
        self._framed = None if registry is None else registered_values().values(registry)

    def fields(self, key: bytes | None, timestamp_ms: int) -> dict[str, Any]:
        """Return the columns of a deleted row that key and timestamp fill, by name.

        The event time is among them only if values have it.

        Args:
            key: The record's key: a JSON object with the columns of the row's key; or, if there is
                one column, its value as text or JSON; or either in Avro, with a schema id in front.
            timestamp_ms: The record's timestamp, in Unix milliseconds.

        Raises:
            BadValue: The key does not identify a row, or the timestamp is needed for the event time
                and is not in the years that a row can have.
            InputError: The schema registry refuses the login or the request.
            UnavailableError: The schema registry does not answer.
        """
        try:
            found = self._of_key(key)
            fields = {
                name: converter(kind)(_parsed(found[name], kind))
                for name, kind in self._kinds.items()
            }
        except (ValueError, ArithmeticError, KeyError) as error:
            told = f"it lacks `{error.args[0]}`" if isinstance(error, KeyError) else str(error)
            if isinstance(error, ArithmeticError):
                told = "a value of it is no number"
            reason = (
                f"the record has no value, and its key {short_repr(key)} does not tell which row "
                f"it deletes: {told}"
            )
            raise BadValue(reason) from None
        if self._event_time is not None:
            fields[self._event_time] = _moment(timestamp_ms)
        return fields

    def as_json(self, key: bytes | None, timestamp_ms: int) -> bytes:
        """Return the columns of the row that a tombstone deletes, as a JSON object for Spark.

        Args:
            key: The record's key.
            timestamp_ms: The record's timestamp, in Unix milliseconds.

        Raises:
            BadValue: The key does not identify a row, or the timestamp is needed for the event time
                and is not in the years that a row can have.
            InputError: The schema registry refuses the login or the request.
            UnavailableError: The schema registry does not answer.
        """
        fields = self.fields(key, timestamp_ms)
        return orjson.dumps(fields, default=str, option=orjson.OPT_UTC_Z)

    def _of_key(self, key: bytes | None) -> Mapping[str, Any]:
        """Return the values of the row's key by name, as they are written.

        Raises:
            ValueError: There is no key, it is null or no JSON object though it begins as one, or it
                is one value although the row's key has more columns.
        """
        if key is None:
            reason = "it is missing"
            raise BadValue(reason)
        if self._framed is not None and key.startswith(_FRAME):
            document = self._framed(key)
        else:
            document = self._of_text(key)
        if isinstance(document, dict):
            return document
        if len(self._kinds) > 1:
            names = ", ".join(self._kinds)
            reason = f"it is one value, and `sink.key` has {len(self._kinds)} columns ({names})"
            raise BadValue(reason)
        if document is None:
            reason = "it is null"
            raise BadValue(reason)
        return dict.fromkeys(self._kinds, document)

    def _of_text(self, key: bytes) -> Any:
        """Return what a text holds: JSON, or one value as it is."""
        text = key.decode()
        try:
            # Of a number with a fraction, a double may have other digits.
            document = key_document(key, partial(json.loads, parse_float=Decimal))
        except ValueError:
            if text.lstrip().startswith("{"):
                raise
            return text
        is_text = [*self._kinds.values()] == [pa.string()]
        # A number may be a text, too.
        return text if is_text and not isinstance(document, dict | str) else document


def _moment(timestamp_ms: int) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        reason = (
            f"the record has no value, and its timestamp {timestamp_ms} ms lies outside of the "
            "years that a row can have"
        )
        raise BadValue(reason) from None


def _parsed(value: Any, kind: pa.DataType) -> Any:
    """Return a value that JSON can only write as text as what it is."""
    if value is None:
        reason = "a column of it is null"
        raise BadValue(reason)
    if isinstance(value, Decimal) and not pa.types.is_decimal(kind):
        return float(value)
    if not isinstance(value, str):
        return value
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    return datetime.fromisoformat(value) if pa.types.is_timestamp(kind) else value
