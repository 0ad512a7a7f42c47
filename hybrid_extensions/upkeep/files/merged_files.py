"""Merging of Parquet files into one, with rows unchanged and in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_ROW_GROUP = 64 * 2**20  # bytes in memory
_INT96 = "INT96"
_UNREAD = {b"org.apache.spark.version", b"org.apache.spark.sql.parquet.row.metadata"}
"""Entries of a file's metadata that do not say how its values are to be read: the columns are those
of the table. Only files that Spark itself wrote have them."""


class MergedFile:
    """Parquet file in memory with the concatenated rows of files that have the same columns.

    Args:
        first: The first of these files, for columns and compression; its rows are not added here.
    """

    def __init__(self, first: ParquetPart) -> None:
        self._out = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._out, first.schema, compression=first.compression, store_schema=False
        )
        # Which the writer takes from the schema only if it stores Arrow's own as well.
        self._writer.add_key_value_metadata(first.schema.metadata or {})
        self._held: list[pa.Table] = []

    def add(self, part: ParquetPart) -> None:
        """Append the rows of a file.

        Args:
            part: The file, with the same :attr:`ParquetPart.layout` as the first one.

        Raises:
            ArrowInvalid: The file can't be read.
        """
        self._held.append(part.rows())
        # A row group for each small file would make the new file as slow as they are.
        if sum(each.nbytes for each in self._held) >= _ROW_GROUP:
            self._write()

    def close(self) -> bytes:
        """Return the content of the file; nothing can be added any more."""
        self._write()
        self._writer.close()
        return bytes(self._out.getvalue().to_pybytes())

    def _write(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held))
        self._held = []


class ParquetPart:
    """A Parquet file whose rows become part of another one.

    Args:
        data: Content of the file.

    Attributes:
        schema: Its columns, in the types in which they are written again.
        count: Number of its rows.

    Raises:
        ArrowInvalid: The content is no Parquet file.
    """

    def __init__(self, data: bytes) -> None:
        # Nanoseconds, the default, can't hold all times that Spark writes so.
        self._file = pq.ParquetFile(pa.BufferReader(data), coerce_int96_timestamp_unit="us")
        self.schema = self._columns()
        self.count: int = self._file.metadata.num_rows

    @property
    def layout(self) -> bytes:
        """Key that is equal for files that may become one: same columns, types and metadata."""
        given = self.schema.metadata or {}
        metadata = {key: value for key, value in given.items() if key not in _UNREAD}
        return bytes(self.schema.with_metadata(metadata).serialize().to_pybytes())

    @property
    def compression(self) -> str:
        """Name of the compression of its first column; ``SNAPPY`` if it has no rows."""
        if not self._file.metadata.num_row_groups or not self._file.metadata.num_columns:
            return "SNAPPY"
        return str(self._file.metadata.row_group(0).column(0).compression)

    def rows(self) -> pa.Table:
        """Return its rows, in the types of :attr:`schema`.

        Raises:
            ArrowInvalid: The file can't be read.
        """
        return self._file.read().cast(self.schema)

    def _columns(self) -> pa.Schema:
        """Return the columns; INT96, by which Spark means a point in time, as one in UTC."""
        stored, given = self._file.schema, self._file.schema_arrow
        kinds = iter([stored.column(n).physical_type for n in range(len(stored.names))])
        return pa.schema([_in_utc(each, kinds) for each in given], given.metadata)


def _in_utc(field: pa.Field, kinds: Iterator[str]) -> pa.Field:
    """Return a field whose values of type INT96 are points in time.

    Args:
        field: The field.
        kinds: Physical types of the file's columns without parts, from this field's first one on.
    """
    kind: Any = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_in_utc(each, kinds) for each in kind]))
    if pa.types.is_map(kind):
        key = _in_utc(kind.key_field, kinds)
        return field.with_type(pa.map_(key, _in_utc(kind.item_field, kinds)))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_in_utc(kind.value_field, kinds)))
    if pa.types.is_large_list(kind):
        return field.with_type(pa.large_list(_in_utc(kind.value_field, kinds)))
    return field.with_type(pa.timestamp("us", "UTC")) if next(kinds) == _INT96 else field
