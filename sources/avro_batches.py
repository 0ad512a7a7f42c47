"""Avro values read in whole batches: each field of all values at once, by NumPy.

That is some ten times as fast as value by value, and for plain schemas only: no arrays, no maps, no
logical types but dates and timestamps. Whatever is odd about a value is left to who reads it alone.

The encoding: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.schema import expand_schema

from sources.batches import Bytes, Mask, Places
from sources.schema import TIMESTAMP

_Words = npt.NDArray[np.uint64]

_WORD_BYTES = 8
# Of eight bytes: where the last one of a number has its top bit off, and groups of 7, 14, 28 bits.
_LAST = np.uint64(0x8080808080808080)
_GROUPS = [
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
]
_ONE, _BYTE_BITS = np.uint64(1), np.uint64(3)
# What Python's times hold, which is how such a value is read alone: the years 1 to 9999.
_FIRST_MICROS, _LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_MICROS = {
    f"{local}timestamp-{unit}": micros
    for local in ("", "local-")
    for unit, micros in (("millis", 1_000), ("micros", 1))
}


class Batch:
    """Values that are read side by side, and how far each was read.

    Args:
        data: The bytes that all values are in, in order.
        starts: First byte of each.
        ends: The one after the last.

    Attributes:
        is_sure: Whether nothing about a value was odd so far.
    """

    def __init__(self, data: Bytes, starts: Places, ends: Places) -> None:
        padded = np.concatenate([data, np.zeros(_WORD_BYTES, np.uint8)])
        self._data = pa.py_buffer(padded)
        shape = len(padded) - _WORD_BYTES + 1
        # The eight bytes from each byte on.
        self._words: _Words = np.ndarray(shape, "<u8", padded, strides=(1,))
        self._at = starts
        self._ends = ends
        self.is_sure: Mask = np.ones(len(starts), np.bool_)

    def __len__(self) -> int:
        """Number of values."""
        return len(self._at)

    def fixed(self, count: int, where: Mask) -> _Words:
        """The next one to eight bytes of each value, as a little-endian number."""
        found = self._words[self._at]
        self._pass(np.int64(count), where)
        return found & np.uint64((1 << 8 * count) - 1)

    def number(self, where: Mask) -> Places:
        """The next number of each value, of up to eight bytes; longer ones are odd."""
        words = self._words[self._at]
        last = ~words & _LAST
        within = last ^ (last - _ONE)
        found = words & within & ~_LAST
        for low, high, shift in _GROUPS:
            found = (found & low) | ((found & high) >> shift)
        self.require(last != 0, where)
        self._pass((np.bitwise_count(within) >> _BYTE_BITS).astype(np.int64), where)
        return (found >> _ONE).astype(np.int64) ^ -(found & _ONE).astype(np.int64)

    def texts(self, lengths: Places | np.int64, where: Mask) -> pa.BinaryArray:
        """The next bytes of each value, so many; empty elsewhere."""
        before = self._at
        self._pass(lengths, where)
        # Between the texts lies the rest of each value: all of it are texts, in order.
        offsets = np.empty(2 * len(self), np.int32)
        offsets[0::2], offsets[1::2] = before, self._at
        everything = pa.Array.from_buffers(
            pa.binary(), max(len(offsets) - 1, 0), [None, pa.py_buffer(offsets), self._data]
        )
        return everything.take(pa.array(np.arange(0, len(offsets), 2)))

    def require(self, holds: Mask, where: Mask) -> None:
        """A value is odd where this does not hold."""
        self.is_sure &= holds | ~where

    def finish(self) -> None:
        """A value is odd that was not read to its end."""
        self.is_sure &= self._at == self._ends

    def _pass(self, count: Places | np.int64, where: Mask) -> None:
        after = self._at + count
        fits = (count >= 0) & (after <= self._ends)
        self.require(fits, where)
        self._at = np.where(where & fits & self.is_sure, after, self._at)


class Type(ABC):
    """A type of a writer's schema, and what becomes of its values."""

    @abstractmethod
    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """The next value of each; null, or anything, elsewhere. None if nobody wants it."""


@dataclass(frozen=True)
class _Null(Type):
    kind: pa.DataType | None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        return None if self.kind is None else pa.nulls(len(batch), self.kind)


@dataclass(frozen=True)
class _Integer(Type):
    """Values between two bounds, multiplied."""

    kind: pa.DataType | None
    low: int = np.iinfo(np.int64).min
    high: int = np.iinfo(np.int64).max
    factor: int = 1

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = batch.number(where)
        batch.require((found >= self.low) & (found <= self.high), where)
        if self.kind is None:
            return None
        if self.kind == pa.float64():
            return pa.array(found.astype(np.float64))
        sure = np.where(where & batch.is_sure, found, 0) * self.factor
        return pa.array(sure, pa.int64()).cast(_integer_of(self.kind)).view(self.kind)


def _integer_of(kind: pa.DataType) -> pa.DataType:
    widths = {pa.date32(): pa.int32(), TIMESTAMP: pa.int64()}
    return widths.get(kind, kind)


@dataclass(frozen=True)
class _Float(Type):
    kind: pa.DataType | None
    width: int

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = batch.fixed(self.width, where)
        if self.kind is None:
            return None
        exact = found.view(np.float64) if self.width == 8 else found.astype("<u4").view(np.float32)
        return pa.array(exact).cast(self.kind)


@dataclass(frozen=True)
class _Boolean(Type):
    kind: pa.DataType | None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = batch.fixed(1, where)
        batch.require(found <= _ONE, where)
        return None if self.kind is None else pa.array(found == _ONE)


@dataclass(frozen=True)
class _Bytes(Type):
    """Text if it is UTF-8, bytes, or as many bytes as each value has."""

    kind: pa.DataType | None
    is_text: bool
    size: int | None = None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        length = batch.number(where) if self.size is None else np.int64(self.size)
        found = batch.texts(length, where)
        if self.is_text:
            try:
                found = found.cast(pa.string())
            except pa.ArrowInvalid:
                batch.require(np.zeros(len(batch), np.bool_), where)
                found = pa.nulls(len(batch), pa.string())
        return None if self.kind is None else found


@dataclass(frozen=True)
class _Enumeration(Type):
    kind: pa.DataType | None
    symbols: Sequence[str]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = batch.number(where)
        is_known = (found >= 0) & (found < len(self.symbols))
        batch.require(is_known, where)
        if self.kind is None:
            return None
        known = pa.array(np.where(is_known, found, 0))
        return pa.array(self.symbols, pa.string()).take(known)


@dataclass(frozen=True)
class _Union(Type):
    kind: pa.DataType | None
    branches: Sequence[Type]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        index = batch.number(where)
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
    """A record, of which nobody wants the whole.

    Attributes:
        fields: Names and types, in order.
    """

    fields: Sequence[tuple[str, Type]]

    def read(self, batch: Batch, where: Mask) -> None:
        """Read all fields."""
        for _, each in self.fields:
            each.read(batch, where)

    def rows(self, batch: Batch, columns: pa.Schema) -> pa.StructArray:
        """The columns of each value; null where anything is odd."""
        where = np.ones(len(batch), np.bool_)
        found = {name: each.read(batch, where) for name, each in self.fields}
        batch.finish()
        arrays = [
            pa.nulls(len(batch), field.type) if found.get(field.name) is None else found[field.name]
            for field in columns
        ]
        mask = pa.array(~batch.is_sure)
        return pa.StructArray.from_arrays(arrays, fields=list(columns), mask=mask)


def batch_reader(schema: Any, columns: pa.Schema) -> Record | None:
    """What reads values of a schema in batches; None if some of it only fits value by value.

    Args:
        schema: The writer's, a record's, as :mod:`fastavro` has parsed it.
        columns: Taken from fields of the same name.
    """
    wanted = dict(zip(columns.names, columns.types, strict=True))
    try:
        return Record(
            [
                (field["name"], _type(field["type"], wanted.get(field["name"])))
                for field in expand_schema(schema)["fields"]
            ]
        )
    except _NotInBatches:
        return None


class _NotInBatches(Exception):  # noqa: N818 - no error: the other way is taken
    """A type that is read value by value."""


def _type(schema: Any, kind: pa.DataType | None) -> Type:
    """The reader of a type whose values become those of a column, or of none."""
    if isinstance(schema, list):
        return _Union(kind, [_type(each, kind) for each in schema])
    name, logical = schema, None
    if isinstance(schema, dict):
        name, logical = schema["type"], schema.get("logicalType")
    made = _time(name, logical, kind) if logical is not None else _plain(name, schema, kind)
    if made is None:
        raise _NotInBatches
    return made


def _time(name: Any, logical: str, kind: pa.DataType | None) -> Type | None:
    if (name, logical) == ("int", "date") and kind in (None, pa.date32()):
        return _Integer(kind, _FIRST_DAY, _LAST_DAY)
    if name == "long" and logical in _MICROS and kind in (None, TIMESTAMP):
        factor = _MICROS[logical]
        return _Integer(kind, _FIRST_MICROS // factor, _LAST_MICROS // factor, factor)
    return None


def _plain(name: Any, schema: Any, kind: pa.DataType | None) -> Type | None:
    text, binary = kind in (None, pa.string()), kind in (None, pa.binary())
    wide = kind in (None, pa.float64())
    match name:
        case "null":
            return _Null(kind)
        case "int" | "long" if kind is not None and pa.types.is_integer(kind):
            bits = kind.bit_width - 1
            return _Integer(kind, -(2**bits), 2**bits - 1)
        case "int" | "long" if wide:
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
        case "enum" if text:
            return _Enumeration(kind, schema["symbols"])
        case "record" if kind is None:
            fields = [(field["name"], _type(field["type"], None)) for field in schema["fields"]]
            return Record(fields)
    return None
