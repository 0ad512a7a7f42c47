"""Batch decoders of Avro's types into columns of Arrow (:mod:`sources.decoding.batch_cursor`).

The encoding: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.decoding.batch_cursor import (
    MICROS,
    MOST_ITEMS,
    Batch,
    Items,
    Mask,
    floats,
    lists_of,
    structs_of,
    zigzag,
)


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
class Null(Type):
    """Batch decoder of Avro's null."""

    kind: pa.DataType | None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Return nulls without moving the cursors: a null takes no byte."""
        return None if self.kind is None else pa.nulls(len(batch), self.kind)


@dataclass(frozen=True)
class Integer(Type):
    """Batch decoder of Avro's int, long and date; only numbers within ``bounds`` are decoded."""

    kind: pa.DataType | None
    bounds: tuple[int, int] = (-(2**63), 2**63 - 1)

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next varint of each selected record."""
        return batch.integers(zigzag(batch.number(where)), self.bounds, self.kind, where)


@dataclass(frozen=True)
class Instant(Type):
    """Batch decoder of Avro's timestamps: numbers since 1970, of ``unit`` microseconds each."""

    kind: pa.DataType | None
    unit: int

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next timestamp; those outside the years 1 to 9999 become undecided."""
        found = batch.micros(zigzag(batch.number(where)), self.unit, where)
        return batch.integers(found, MICROS, self.kind, where)


@dataclass(frozen=True)
class Float(Type):
    """Batch decoder of Avro's float and double, of ``width`` bytes (4 or 8)."""

    kind: pa.DataType | None
    width: int

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next 4 or 8 bytes."""
        found = batch.fixed(self.width, where)
        if self.kind is None:
            return None
        return floats(found, self.width).cast(self.kind)


@dataclass(frozen=True)
class Boolean(Type):
    """Batch decoder of Avro's boolean; only the bytes 0 and 1 are decoded."""

    kind: pa.DataType | None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next byte."""
        found = batch.fixed(1, where)
        batch.require(found <= 1, where)
        return None if self.kind is None else pa.array(found == 1)


@dataclass(frozen=True)
class Bytes(Type):
    """Batch decoder of Avro's string (``is_text``), bytes, and fixed of ``size`` bytes."""

    kind: pa.DataType | None
    is_text: bool
    size: int | None = None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next length (unless it is fixed) and that many bytes."""
        length = zigzag(batch.number(where)) if self.size is None else np.int64(self.size)
        found = batch.texts(length, where)
        if self.is_text:
            found = batch.utf8(found, where)
        return None if self.kind is None else found


KEY = Bytes(None, is_text=True)
"""Batch decoder of the keys of a map."""


@dataclass(frozen=True)
class Enumeration(Type):
    """Batch decoder of an Avro enum into its symbols, which are in the schema's order."""

    kind: pa.DataType | None
    symbols: Sequence[str]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next index into the symbols."""
        found = zigzag(batch.number(where))
        is_known = (found >= 0) & (found < len(self.symbols))
        batch.require(is_known, where)
        if self.kind is None:
            return None
        known = pa.array(np.where(is_known, found, 0))
        return pa.array(self.symbols, pa.string()).take(known)


@dataclass(frozen=True)
class Union(Type):
    """Batch decoder of an Avro union, whose branches are in the schema's order."""

    kind: pa.DataType | None
    branches: Sequence[Type]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the index of the next branch, and the value with that branch's decoder."""
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
class Decimal(Type):
    """Batch decoder of Avro's decimal: the bytes of an integer, of ``digits`` digits at most."""

    kind: pa.DataType | None
    digits: int
    size: int | None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next length (unless it is fixed) and the unscaled number in those bytes."""
        length = zigzag(batch.number(where)) if self.size is None else np.int64(self.size)
        return batch.decimals(length, self.digits, self.kind, where)


@dataclass(frozen=True)
class Blocks(Type):
    """Batch decoder of an Avro array, or of a map that is only skipped.

    Items come in blocks: their number, which is negative if the bytes of the block follow it, then
    the items; a block without items is the end.
    """

    kind: pa.DataType | None
    item: Type
    has_keys: bool = False

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next items until the final empty block, one item of every array at a time."""
        left, in_block = where, np.zeros(len(batch), np.int64)
        items: Items = []
        while True:
            ends = left & (in_block == 0)
            if ends.any():
                count = zigzag(batch.number(ends))
                if (has_size := ends & (count < 0)).any():
                    batch.number(has_size)
                in_block = np.where(ends, np.abs(count), in_block)
            left = left & batch.is_sure & (in_block != 0)
            if not left.any():
                break
            if len(items) == MOST_ITEMS:
                batch.leave(left)
                break
            if self.has_keys:
                KEY.read(batch, left)
            items.append((left, self.item.read(batch, left)))
            in_block = in_block - left
        return None if self.kind is None else lists_of(len(batch), items, self.kind)


@dataclass(frozen=True)
class AvroRecord(Type):
    """Batch decoder of an Avro record's fields, one by one.

    Attributes:
        fields: Names and decoders of the fields, in the order of the writer's schema.
        kind: Type of the column, a struct; None if there is none, as for the value itself.
    """

    fields: Sequence[tuple[str, Type]]
    kind: pa.DataType | None = None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next Avro record of each selected value, as :meth:`Type.read` does."""
        found = {name: each.read(batch, where) for name, each in self.fields}
        return None if self.kind is None else structs_of(len(batch), found, self.kind)

    def rows(self, batch: Batch, columns: pa.Schema) -> pa.StructArray:
        """Decode all Avro records of a batch into structs.

        Returns:
            An array as long as the batch; null where the per-record decoder has to decide, as for
            values with bytes left over.
        """
        found = {name: each.read(batch, batch.every()) for name, each in self.fields}
        batch.finish()
        return batch.rows(found, columns)
