"""Decoding of record values to rows, for the formats that Spark's JSON parser does not read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sources.common.conversion import BadValue, converter
from sources.decoding.base import FieldReader
from sources.decoding.open_positions import with_offsets
from sources.decoding.tombstones import Tombstones

NO_VALUE = "the record has no value"
"""Why a record without a value is bad where such records delete no rows."""
NO_ROW = "the record has no value, and its key does not tell which row it deletes"
"""Why a record without a value is bad where such records delete rows."""
NO_TEXT_HEADER = "the name of a header is no UTF-8 text"
"""Why a record is bad whose headers fill a column."""
REFUSED_TOMBSTONE = "the record has a key and no value, which elsewhere deletes the row of that key"
"""Why a tombstone is refused unless it is declared what it means (``on_tombstone``)."""
DECLARE_TOMBSTONE = (
    "Declare for this source what such a record means. With `on_tombstone: ignore` it is left out; "
    "then run the pipeline again: `hybrid run P`. With `on_tombstone: delete` it removes the row "
    "from a target that merges; begin a new generation then: `hybrid generation new P`."
)
"""What to do about such a record."""


class RowDecoder:
    """Decoder of record values into rows of the declared columns; used in Spark's tasks.

    Args:
        reader: Decodes values into fields.
        columns: Columns of a row, matched with fields by name; a column without a field is null, a
            field without a column is ignored.
        tombstones: Makes the rows that tombstones (records without a value) delete; None if they
            delete none.
        positions: Columns with the log positions of changes, which :meth:`placed` completes.
    """

    def __init__(
        self,
        reader: FieldReader,
        columns: pa.Schema,
        tombstones: Tombstones | None = None,
        positions: Collection[str] = (),
    ) -> None:
        self._reader = reader
        self._positions = frozenset(positions)
        self._tombstones = tombstones
        self._schema = columns
        self._columns = [(field.name, converter(field.type)) for field in columns]

    def rows(self, values: pa.BinaryArray) -> pa.StructArray:
        """Decode many values at once into structs of the row's columns.

        A null one has to be decoded by :meth:`decode`.

        Raises nothing: what is bad becomes null, too.

        Returns:
            An array of structs, as long as the values; all null if these columns can't be decoded
            in batches.
        """
        # Spark passes large binaries with `spark.sql.execution.arrow.useLargeVarTypes`.
        rows = self._reader.rows(values.cast(pa.binary()), self._schema)
        return pa.nulls(len(values), pa.struct(self._schema)) if rows is None else rows

    def placed(self, columns: Sequence[pa.Array], offsets: pa.Int64Array) -> list[pa.Array]:
        """Append the record's offset to positions in a MySQL log, and return all columns.

        Changes of one MySQL transaction share a position, so that the offset decides their order.
        Other columns are returned as they are.

        Args:
            columns: All columns of some records, in their order.
            offsets: The records' offsets.
        """
        return [
            with_offsets(column, offsets) if name in self._positions else column
            for (name, _), column in zip(self._columns, columns, strict=True)
        ]

    def decode(self, value: bytes | None) -> list[Any]:
        """Decode one value into a row: a list with one value for each column.

        For ``to_arrow_array``; a missing field is None.

        Args:
            value: The record's value; None for a record without one (a tombstone), which is
                refused.

        Raises:
            BadValue: There is no value, it can't be decoded, or a field does not fit its column.
            InputError: A schema registry refuses the login or the request; or the table that
                Debezium captures was truncated, or has other columns than those declared.
            UnavailableError: A schema registry does not answer.
        """
        if value is None:
            raise BadValue(NO_VALUE)
        return self._row(self._reader.fields(value))

    def deleted(self, key: bytes | None, timestamp_ms: int) -> list[Any]:
        """Return the row that a tombstone (a record without a value) deletes, by its key.

        One value for each column, in order; None for columns that the key does not fill.

        Args:
            key: The record's key.
            timestamp_ms: The record's timestamp, in Unix milliseconds.

        Raises:
            BadValue: Tombstones delete no rows here, or the key does not identify a row.
            InputError: The schema registry refuses the login or the request.
            UnavailableError: The schema registry does not answer.
        """
        if self._tombstones is None:
            raise BadValue(NO_VALUE)
        return self._row(self._tombstones.fields(key, timestamp_ms))

    def _row(self, fields: Mapping[str, Any]) -> list[Any]:
        row = []
        for name, convert in self._columns:
            try:
                row.append(convert(fields.get(name)))
            except BadValue as error:
                reason = f"`{name}`: {error}"
                raise BadValue(reason) from None
        return row
