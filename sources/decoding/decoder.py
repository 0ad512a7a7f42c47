"""Decoding of record values to rows, for the formats that Spark's JSON parser does not read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from sources.decoding.base import BaseReader, FieldReader
from sources.decoding.conversion import BadValue, converter
from sources.decoding.value_format import RAW_COLUMN, ValueFormat

NO_VALUE = "the record has no value"
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}


class RawReader(BaseReader):
    """Reader of format ``raw``: the value as it is, in one column."""

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """Return the bytes of a record's value, unchanged, as the single field ``value``."""
        return {RAW_COLUMN: value}


class JsonReader(BaseReader):
    """Reader of single JSON objects, for samples only: Spark and Arrow parse whole batches."""

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """Parse a JSON object into its members.

        Raises:
            BadValue: The value is not JSON, or not an object.
        """
        try:
            members = json.loads(value)
        except ValueError as error:
            reason = f"the value is not JSON: {error}"
            raise BadValue(reason) from None
        if not isinstance(members, dict):
            reason = "the value is not a JSON object"
            raise BadValue(reason)
        return members

    def misfit(self, value: Any, kind: pa.DataType) -> str | None:
        """Describe a JSON member's value that does not fit a column type.

        Returns:
            Its JSON type and the first 40 characters, such as ``number, as in 1.5``; None if the
            value is null or fits.
        """
        if value is None or _fits_json(value, kind):
            return None
        return f"{_JSON_TYPES.get(type(value), 'object')}, as in {json.dumps(value)[:40]}"


def field_reader(source: ValueFormat) -> FieldReader:
    """Build the decoder of the values of a topic, by the declared ``format``.

    For ``json`` it decodes samples only: Spark and Arrow parse the records of a run.

    Raises:
        InputError: The file of an Avro schema or of a Protobuf descriptor can't be read or used; or
            a library of the format is not installed.
    """
    if source.format == "avro":
        from sources.decoding.avro import AvroReader  # noqa: PLC0415 - few need it

        return AvroReader.of(source)
    if source.format == "protobuf":
        from sources.decoding.protobuf import ProtobufReader  # noqa: PLC0415

        return ProtobufReader.of(source)
    if source.format == "debezium":
        from sources.decoding.changes.reader import DebeziumReader  # noqa: PLC0415

        return DebeziumReader(source)
    return RawReader() if source.format == "raw" else JsonReader()


class RowDecoder:
    """Decoder of record values into rows of the declared columns.

    Args:
        reader: Decodes values into fields.
        columns: Columns of a row, matched with fields by name; a column without a field is null, a
            field without a column is ignored.
    """

    def __init__(self, reader: FieldReader, columns: pa.Schema) -> None:
        self._reader = reader
        self._schema = columns
        self._columns = [(field.name, converter(field.type)) for field in columns]

    def rows(self, values: pa.BinaryArray) -> pa.StructArray:
        """Decode many values at once; a null row is undecided: call :meth:`decode` for its value.

        No value is refused here; what is bad becomes a null row.

        Returns:
            An array of structs, as long as the values; all null if these columns can't be decoded
            in batches.
        """
        # Spark passes large binaries with `spark.sql.execution.arrow.useLargeVarTypes`.
        rows = self._reader.rows(values.cast(pa.binary()), self._schema)
        return pa.nulls(len(values), pa.struct(self._schema)) if rows is None else rows

    def decode(self, value: bytes | None) -> list[Any]:
        """Decode one value into a row: the values of all columns, for ``to_arrow_array``.

        Args:
            value: The record's value; None for a record without one (a tombstone).

        Returns:
            One value for each column, in the order of the columns; None for a missing field.

        Raises:
            BadValue: There is no value, it can't be decoded, or a field does not fit its column.
            InputError: A schema registry refuses the login or the request; or the table that
                Debezium captures was truncated, or has other columns than those declared.
            UnavailableError: A schema registry does not answer.
        """
        if value is None:
            raise BadValue(NO_VALUE)
        fields = self._reader.fields(value)
        row = []
        for name, convert in self._columns:
            try:
                row.append(convert(fields.get(name)))
            except BadValue as error:
                reason = f"`{name}`: {error}"
                raise BadValue(reason) from None
        return row


def _fits_json(value: Any, kind: pa.DataType) -> bool:
    """Return whether Spark's ``from_json`` would read a member's Python value as a column type."""
    if pa.types.is_boolean(kind):
        return isinstance(value, bool)
    if pa.types.is_integer(kind):
        return isinstance(value, int) and not isinstance(value, bool)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_timestamp(kind):
        return isinstance(value, str) and _parses(datetime.fromisoformat, value)
    if pa.types.is_date(kind):
        return isinstance(value, str) and _parses(date.fromisoformat, value)
    if pa.types.is_list(kind):
        return isinstance(value, list)
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return isinstance(value, dict)
    return isinstance(value, str)


def _parses(parse: Any, text: str) -> bool:
    """Return whether a function parses a text without a ``ValueError``."""
    try:
        parse(text)
    except ValueError:
        return False
    return True
