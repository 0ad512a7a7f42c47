"""What reads the values of a topic's records outside Spark's own JSON parser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from sources.decoding.base import FieldReader, Typed
from sources.decoding.conversion import BadValue, fitter
from sources.decoding.value_format import RAW_COLUMN, Values

NO_VALUE = "the record has no value"
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}


class RawReader(Typed):
    """The value as it is."""

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """One field."""
        return {RAW_COLUMN: value}


class JsonReader(Typed):
    """JSON objects; for samples only, as Arrow and Spark parse them in whole batches."""

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """The members of the object."""
        try:
            found = json.loads(value)
        except ValueError as error:
            reason = f"the value is not JSON: {error}"
            raise BadValue(reason) from None
        if not isinstance(found, dict):
            reason = "the value is no JSON object"
            raise BadValue(reason)
        return found

    def misfit(self, found: Any, kind: pa.DataType) -> str | None:
        """What a member holds instead, in words, if it does not fit a column's type."""
        if found is None or _fits_json(found, kind):
            return None
        return f"{_JSON_TYPES.get(type(found), 'object')}, as in {json.dumps(found)[:40]}"


def field_reader(source: Values) -> FieldReader:
    """The reader of a topic's values.

    Raises:
        InputError: A schema's file can't be read; names it.
    """
    if source.format == "avro":
        from sources.decoding.avro import AvroReader  # noqa: PLC0415 - few need it

        return AvroReader.of(source)
    if source.format == "protobuf":
        from sources.decoding.protobuf import ProtobufReader  # noqa: PLC0415

        return ProtobufReader.of(source)
    if source.format == "debezium":
        from sources.decoding.debezium import DebeziumReader  # noqa: PLC0415

        return DebeziumReader(source)
    return RawReader() if source.format == "raw" else JsonReader()


class RowDecoder:
    """Turns values into rows.

    Args:
        reader: Takes them apart.
        columns: Of the row; a field that is missing is null, one that is no column is passed over.
    """

    def __init__(self, reader: FieldReader, columns: pa.Schema) -> None:
        self._reader = reader
        self._schema = columns
        self._columns = [(field.name, fitter(field.type)) for field in columns]

    def rows(self, values: pa.BinaryArray) -> pa.StructArray:
        """The rows of many values at once; null where :meth:`decode` has to be asked.

        Raises:
            InputError: What is needed to read them can't be had.
        """
        # Spark may be told to use other types of Arrow.
        found = self._reader.rows(values.cast(pa.binary()), self._schema)
        return pa.nulls(len(values), pa.struct(self._schema)) if found is None else found

    def decode(self, value: bytes | None) -> list[Any]:
        """The columns' values, as ``pyarrow.array`` takes them.

        Raises:
            BadValue: The value can't be read, or a field does not fit its column.
            InputError: What is needed to read it can't be had.
        """
        if value is None:
            raise BadValue(NO_VALUE)
        fields = self._reader.fields(value)
        row = []
        for name, fit in self._columns:
            try:
                row.append(fit(fields.get(name)))
            except BadValue as error:
                reason = f"`{name}`: {error}"
                raise BadValue(reason) from None
        return row


def _fits_json(value: Any, kind: pa.DataType) -> bool:
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
    try:
        parse(text)
    except ValueError:
        return False
    return True
