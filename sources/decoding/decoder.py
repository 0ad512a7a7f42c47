"""Decoding of record values to rows, for the formats that Spark's JSON parser does not read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sources.decoding.base import FieldReader
from sources.decoding.conversion import BadValue, converter

NO_VALUE = "the record has no value"


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
