"""Avro's types decoded in batches to Arrow, and which values make their record undecided.

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
    """Batch decoder of one type of an Avro schema: decodes a field of many records at once.

    Subclasses have ``kind``, the Arrow type of the column; None if values are only skipped.
    """

    @abstractmethod
    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next value of each selected record, moving the batch's cursors past it.

        A value that is damaged or unusual makes its record undecided, for the per-record decoder;
        nothing is raised.

        Args:
            batch: Cursors over many records.
            where: Mask of the records to read from.

        Returns:
            An array as long as the batch, in which only the selected records count; None if
            ``kind`` is None.
        """


@dataclass(frozen=True)
class Null(Type):
    """Batch decoder of Avro's null."""

    kind: pa.DataType | None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Return nulls for all records without moving the cursors: Avro's null takes no byte.

        None if the column is only skipped.
        """
        return None if self.kind is None else pa.nulls(len(batch), self.kind)


@dataclass(frozen=True)
class Integer(Type):
    """Batch decoder of Avro's int, long and date; only numbers within ``bounds`` are decoded."""

    kind: pa.DataType | None
    bounds: tuple[int, int] = (-(2**63), 2**63 - 1)

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next integer of each selected record, moving the batch's cursors past it.

        Returns an array as long as the batch, in which only records selected by ``where`` count;
        None if values are skipped. Records with a number out of bounds become undecided.
        """
        return batch.integers(zigzag(batch.number(where)), self.bounds, self.kind, where)


@dataclass(frozen=True)
class Instant(Type):
    """Batch decoder of Avro's timestamps: numbers since 1970, of ``unit`` microseconds each."""

    kind: pa.DataType | None
    unit: int

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next timestamp of each selected record, moving the batch's cursors past it.

        Returns an array as long as the batch, in which only records selected by ``where`` count;
        None if values are skipped. Records with a time outside of the years 1 to 9999 become
        undecided.
        """
        found = batch.micros(zigzag(batch.number(where)), self.unit, where)
        return batch.integers(found, MICROS, self.kind, where)


@dataclass(frozen=True)
class Float(Type):
    """Batch decoder of Avro's float and double, of ``width`` bytes (4 or 8)."""

    kind: pa.DataType | None
    width: int

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next float or double of each selected record, moving the cursors past it.

        Returns an array as long as the batch, in which only records selected by ``where`` count;
        None if values are skipped. Records that end before become undecided.
        """
        found = batch.fixed(self.width, where)
        if self.kind is None:
            return None
        return floats(found, self.width).cast(self.kind)


@dataclass(frozen=True)
class Boolean(Type):
    """Batch decoder of Avro's boolean; only the bytes 0 and 1 are decoded."""

    kind: pa.DataType | None

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next boolean of each selected record, moving the batch's cursors past it.

        Returns an array as long as the batch, in which only records selected by ``where`` count;
        None if values are skipped. Records with another byte than 0 or 1 become undecided.
        """
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
        """Decode the next string or bytes of each selected record, moving the cursors past them.

        Returns an array as long as the batch, in which only records selected by ``where`` count;
        None if values are skipped. Records with a wrong length, or text that is not UTF-8, become
        undecided.
        """
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
        """Decode the next enum value of each selected record to its symbol, moving the cursors.

        Returns an array as long as the batch, in which only records selected by ``where`` count;
        None if values are skipped. Records with an index that no symbol has become undecided.
        """
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
        """Decode the next union of each selected record: the branch's index, then its value.

        Returns an array as long as the batch, in which only records selected by ``where`` count;
        None if values are skipped. Records with an index that no branch has become undecided.
        """
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
        """Decode the next decimal of each selected record, moving the batch's cursors past it.

        Returns an array as long as the batch, in which only records selected by ``where`` count;
        None if values are skipped. Records with too many digits or bytes become undecided.
        """
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
        """Decode the next array of each selected record, moving the batch's cursors past it.

        Returns lists as long as the batch, in which only records selected by ``where`` count; None
        if items are skipped. Records with more than 64 items become undecided.
        """
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
        """Decode the next record in each selected one, field by field, moving the cursors.

        Returns structs as long as the batch, in which only records selected by ``where`` count;
        None if the fields are skipped. What a field can't decode makes its record undecided.
        """
        found = {name: each.read(batch, where) for name, each in self.fields}
        return None if self.kind is None else structs_of(len(batch), found, self.kind)

    def rows(self, batch: Batch, columns: pa.Schema) -> pa.StructArray:
        """Decode all values of a batch, from their current positions to their ends, into structs.

        Returns:
            An array as long as the batch; null where the value is undecided, so that the per-record
            decoder has to decode it: damaged, unusual, or with bytes left over.
        """
        found = {name: each.read(batch, batch.every()) for name, each in self.fields}
        batch.finish()
        return batch.rows(found, columns)
