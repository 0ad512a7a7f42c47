"""Batch decoding of Avro records into Arrow columns (:mod:`sources.decoding.batch_cursor`).

Decodes all types but arrays and maps; of the logical types dates and timestamps. Values of other
schemas are left to the per-record decoder.

The encoding: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding

Not the library `pyruhvro`, though it decodes up to twice as fast: it returns rows of values with
bytes left over, and others than were written where an `int` has more than 32 bits. Spark's
`from_avro` knows one schema rather than that of each record, and is no faster (docs/libraries.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.common.schema import TIMESTAMP
from sources.decoding.batch_cursor import DAYS, MICROS, Batch, Mask, floats, zigzag

_MICROS = {
    f"{local}timestamp-{unit}": micros
    for local in ("", "local-")
    for unit, micros in (("millis", 1_000), ("micros", 1))
}


class Type(ABC):
    """Batch decoder of one type of an Avro writer's schema.

    Subclasses have ``kind``, the type of the column; None if the values are only skipped.
    """

    @abstractmethod
    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next value of each selected record, moving the batch's cursors past it.

        Returns:
            An array as long as the batch, in which only the selected records count; None if the
            values are only skipped.
        """


@dataclass(frozen=True)
class _Null(Type):
    """Batch decoder of Avro's null."""

    kind: pa.DataType | None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        return None if self.kind is None else pa.nulls(len(batch), self.kind)


@dataclass(frozen=True)
class _Integer(Type):
    """Batch decoder of Avro's int, long and date; only numbers within ``bounds`` are decoded."""

    kind: pa.DataType | None
    bounds: tuple[int, int] = (-(2**63), 2**63 - 1)

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        return batch.integers(zigzag(batch.number(where)), self.bounds, self.kind, where)


@dataclass(frozen=True)
class _Instant(Type):
    """Batch decoder of Avro's timestamps: numbers since 1970, of ``unit`` microseconds each."""

    kind: pa.DataType | None
    unit: int

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = batch.micros(zigzag(batch.number(where)), self.unit, where)
        return batch.integers(found, MICROS, self.kind, where)


@dataclass(frozen=True)
class _Float(Type):
    """Batch decoder of Avro's float and double, of ``width`` bytes (4 or 8)."""

    kind: pa.DataType | None
    width: int

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = batch.fixed(self.width, where)
        if self.kind is None:
            return None
        return floats(found, self.width).cast(self.kind)


@dataclass(frozen=True)
class _Boolean(Type):
    """Batch decoder of Avro's boolean; only the bytes 0 and 1 are decoded."""

    kind: pa.DataType | None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = batch.fixed(1, where)
        batch.require(found <= 1, where)
        return None if self.kind is None else pa.array(found == 1)


@dataclass(frozen=True)
class _Bytes(Type):
    """Batch decoder of Avro's string (``is_text``), bytes, and fixed of ``size`` bytes."""

    kind: pa.DataType | None
    is_text: bool
    size: int | None = None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        length = zigzag(batch.number(where)) if self.size is None else np.int64(self.size)
        found = batch.texts(length, where)
        if self.is_text:
            found = batch.utf8(found, where)
        return None if self.kind is None else found


@dataclass(frozen=True)
class _Enumeration(Type):
    """Batch decoder of an Avro enum into its symbols, which are in the schema's order."""

    kind: pa.DataType | None
    symbols: Sequence[str]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = zigzag(batch.number(where))
        is_known = (found >= 0) & (found < len(self.symbols))
        batch.require(is_known, where)
        if self.kind is None:
            return None
        known = pa.array(np.where(is_known, found, 0))
        return pa.array(self.symbols, pa.string()).take(known)


@dataclass(frozen=True)
class _Union(Type):
    """Batch decoder of an Avro union, whose branches are in the schema's order."""

    kind: pa.DataType | None
    branches: Sequence[Type]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        index = zigzag(batch.number(where))
        batch.require((index >= 0) & (index < len(self.branches)), where)
        values = None if self.kind is None else pa.nulls(len(batch), self.kind)
        for at, branch in enumerate(self.branches):
            taken = where & (index == at)
            if not taken.any():
                continue
            found = branch.read(batch, taken)
            if values is not None:
                values = found if taken.all() else pc.if_else(pa.array(taken), found, values)
        return values


@dataclass(frozen=True)
class Record(Type):
    """Batch decoder of an Avro record's fields, one by one; the record itself is not a column.

    Attributes:
        fields: Names and decoders of the fields, in the order of the writer's schema.
    """

    fields: Sequence[tuple[str, Type]]

    def read(self, batch: Batch, where: Mask) -> None:
        """Move the cursor of each selected value past its next Avro record; returns nothing."""
        for _, each in self.fields:
            each.read(batch, where)

    def rows(self, batch: Batch, columns: pa.Schema) -> pa.StructArray:
        """Decode all Avro records of a batch into structs.

        Returns:
            An array as long as the batch; null where the per-record decoder has to decide, as for
            values with bytes left over.
        """
        found = {name: each.read(batch, batch.every()) for name, each in self.fields}
        batch.finish()
        return batch.rows(found, columns)


def batch_reader(schema: Any, columns: pa.Schema) -> Record | None:
    """Build the decoder that reads many records of one Avro schema at once.

    Args:
        schema: The writer's schema, a record's, as :mod:`fastavro` parses it.
        columns: Columns, filled from the fields of the same name.

    Returns:
        The decoder; None if only the per-record decoder reads the schema: it contains an array, a
        map or itself, or a field's type can't be converted to its column's in batches.
    """
    wanted = dict(zip(columns.names, columns.types, strict=True))
    try:
        return _record(schema, wanted, schema.get("__named_schemas", {}))
    except _NotInBatches:
        return None


class _NotInBatches(Exception):  # noqa: N818 - a signal, not an error
    """Signal that values of an Avro schema have to be decoded record by record."""


def _record(schema: Any, wanted: Mapping[str, pa.DataType], named: Mapping[str, Any]) -> Record:
    """Build the batch decoder of an Avro record type.

    A record that contains itself raises :class:`_NotInBatches`: its own name is unknown inside it.

    Args:
        schema: The record type.
        wanted: Column types by field name; all other fields are skipped.
        named: Types by full name.
    """
    inside = {name: each for name, each in named.items() if name != schema["name"]}
    return Record(
        [
            (field["name"], _type(field["type"], wanted.get(field["name"]), inside))
            for field in schema["fields"]
        ]
    )


def _type(schema: Any, kind: pa.DataType | None, named: Mapping[str, Any]) -> Type:
    """Build the batch decoder of an Avro type.

    Args:
        schema: The type, or the full name of one.
        kind: Type of the column; None if the values are only skipped.
        named: Types by full name.

    Raises:
        _NotInBatches: The type, or its conversion to the column's type, is not supported.
    """
    if isinstance(schema, list):
        return _Union(kind, [_type(each, kind, named) for each in schema])
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    if isinstance(schema, dict) and schema["type"] == "record" and kind is None:
        return _record(schema, {}, named)
    name, logical = schema, None
    if isinstance(schema, dict):
        name, logical = schema["type"], schema.get("logicalType")
    made = _time(name, logical, kind) if logical is not None else _plain(name, schema, kind)
    if made is None:
        raise _NotInBatches
    return made


def _time(name: Any, logical: str, kind: pa.DataType | None) -> Type | None:
    """Return the batch decoder of an Avro date or timestamp; None for other logical types."""
    if (name, logical) == ("int", "date") and kind in (None, pa.date32()):
        return _Integer(kind, DAYS)
    if name == "long" and logical in _MICROS and kind in (None, TIMESTAMP):
        return _Instant(kind, _MICROS[logical])
    return None


def _plain(name: Any, schema: Any, kind: pa.DataType | None) -> Type | None:
    """Return the batch decoder of an Avro type that is not logical; None if there is none."""
    text, binary = kind in (None, pa.string()), kind in (None, pa.binary())
    wide = kind in (None, pa.float64())
    match name:
        case "null":
            return _Null(kind)
        case "int" | "long" if wide or pa.types.is_integer(kind):
            return _Integer(kind)
        case "float" if wide or kind == pa.float32():
            return _Float(kind, 4)
        case "double" if wide:
            return _Float(kind, 8)
        case "boolean" if kind in (None, pa.bool_()):
            return _Boolean(kind)
        case "string" if text:
            return _Bytes(kind, is_text=True)
        case "bytes" if binary:
            return _Bytes(kind, is_text=False)
        case "fixed" if binary:
            return _Bytes(kind, is_text=False, size=schema["size"])
        case "enum" if text and schema["symbols"]:
            return _Enumeration(kind, schema["symbols"])
    return None
