"""Batch decoders of Protobuf's types into columns of Arrow (:mod:`sources.decoding.batch_cursor`).

The encoding: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import FieldDescriptor

from sources.decoding.batch_cursor import (
    MICROS,
    MOST_ITEMS,
    Batch,
    Items,
    Mask,
    as_mask,
    floats,
    structs_of,
    zigzag,
)

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
_INT32, _INT64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_UINT32, _UINT64 = (0, 2**32 - 1), (0, 2**63 - 1)
# By field type: its wire type, and the lowest and highest number of a column that it fits.
INTEGERS = {
    FieldDescriptor.TYPE_INT32: (VARINT, _INT32),
    FieldDescriptor.TYPE_INT64: (VARINT, _INT64),
    FieldDescriptor.TYPE_UINT32: (VARINT, _UINT32),
    FieldDescriptor.TYPE_UINT64: (VARINT, _UINT64),
    FieldDescriptor.TYPE_SINT32: (VARINT, _INT32),
    FieldDescriptor.TYPE_SINT64: (VARINT, _INT64),
    FieldDescriptor.TYPE_FIXED32: (FOUR_BYTES, _UINT32),
    FieldDescriptor.TYPE_FIXED64: (EIGHT_BYTES, _UINT64),
    FieldDescriptor.TYPE_SFIXED32: (FOUR_BYTES, _INT32),
    FieldDescriptor.TYPE_SFIXED64: (EIGHT_BYTES, _INT64),
}
_ZIGZAG = (FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64)
FLOATS = {FieldDescriptor.TYPE_FLOAT: FOUR_BYTES, FieldDescriptor.TYPE_DOUBLE: EIGHT_BYTES}
BYTES = {FOUR_BYTES: 4, EIGHT_BYTES: 8}


class Message(Protocol):
    """Batch decoder of the fields of a message type."""

    def fields(self, batch: Batch) -> dict[str, pa.Array]:
        """Decode all messages of a batch into one array for each field with a column, by name."""


@dataclass(frozen=True)
class Type(ABC):
    """Batch decoder of the values of a Protobuf field into a column.

    Attributes:
        kind: Type of the column; None if the field is only skipped.
    """

    kind: pa.DataType | None

    @property
    @abstractmethod
    def wire(self) -> int:
        """Wire type of the field: varint, eight bytes, length-delimited or four bytes."""

    @property
    def default(self) -> Any:
        """Protobuf's default of the type, for a field without presence that was not set.

        A constant of the type; None if the type has no default that a column can hold.
        """
        return None

    @abstractmethod
    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the field's next value in each selected message, moving the cursors past it.

        Returns:
            An array as long as the batch, in which only the selected messages count; None if the
            field is only skipped.
        """


@dataclass(frozen=True)
class Integer(Type):
    """Batch decoder of a Protobuf integer field: varint, zigzag or of fixed width."""

    type: int
    default = 0

    @property
    def wire(self) -> int:
        """Wire type of the field."""
        return INTEGERS[self.type][0]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next varint, or the next bytes."""
        wire, bounds = INTEGERS[self.type]
        found = batch.number(where) if wire == VARINT else batch.fixed(BYTES[wire], where)
        signed = zigzag(found) if self.type in _ZIGZAG else found.view(np.int64)
        if self.type == FieldDescriptor.TYPE_SFIXED32:
            signed = found.astype("<u4").view("<i4").astype(np.int64)
        return batch.integers(signed, bounds, self.kind, where)


@dataclass(frozen=True)
class Float(Type):
    """Batch decoder of a Protobuf float or double field."""

    type: int
    default = 0.0

    @property
    def wire(self) -> int:
        """Wire type of the field."""
        return FLOATS[self.type]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next 4 or 8 bytes."""
        width = BYTES[self.wire]
        found = batch.fixed(width, where)
        return None if self.kind is None else floats(found, width).cast(self.kind)


@dataclass(frozen=True)
class Boolean(Type):
    """Batch decoder of a Protobuf bool field; only the numbers 0 and 1 are decoded."""

    wire = VARINT
    default = False

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next number."""
        found = batch.number(where)
        batch.require(found <= 1, where)
        return None if self.kind is None else pa.array(found == 1)


@dataclass(frozen=True)
class Bytes(Type):
    """Batch decoder of a Protobuf string (``is_text``) or bytes field."""

    is_text: bool
    wire = LENGTH

    @property
    def default(self) -> Any:
        """Protobuf's default."""
        return "" if self.is_text else b""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next length and that many bytes."""
        found = batch.texts(batch.number(where).view(np.int64), where)
        if self.is_text:
            found = batch.utf8(found, where)
        return None if self.kind is None else found


@dataclass(frozen=True)
class Enumeration(Type):
    """Batch decoder of a Protobuf enum field into names; only known numbers are decoded."""

    names: Mapping[int, str]
    wire = VARINT

    @property
    def default(self) -> Any:
        """Protobuf's default."""
        return self.names.get(0)

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next number into its name."""
        found = batch.number(where).view(np.int64)
        if self.kind is None:
            return None
        numbers = pa.array([*self.names], pa.int64())
        at = pc.index_in(pa.array(found), numbers)
        batch.require(as_mask(at.is_valid()), where)
        return pa.array(self.names.values(), pa.string()).take(at)


@dataclass(frozen=True)
class Inner(Type):
    """Batch decoder of a Protobuf field whose embedded message represents a single value."""

    message: Message
    wire = LENGTH

    def fields(self, batch: Batch, where: Mask) -> dict[str, pa.Array]:
        """Decode the fields of the inner messages; of an empty one where none is selected."""
        inside = batch.part(*batch.skip(batch.number(where).view(np.int64), where))
        found = self.message.fields(inside)
        batch.require(inside.is_sure, where)
        return found


@dataclass(frozen=True)
class Time(Inner):
    """Batch decoder of a ``google.protobuf.Timestamp`` field."""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next timestamp, in microseconds."""
        found = self.fields(batch, where)
        seconds, nanos = (found[name].to_numpy() for name in ("seconds", "nanos"))
        # Nanoseconds may exceed a second: checked again, as they can lead beyond the year 9999.
        micros = batch.micros(seconds, 1_000_000, where) + nanos // 1_000
        return batch.integers(micros, MICROS, self.kind, where)


@dataclass(frozen=True)
class Wrapper(Inner):
    """Batch decoder of a wrapper field, such as ``google.protobuf.StringValue``."""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the value of the next message."""
        return self.fields(batch, where).get("value")


@dataclass(frozen=True)
class Struct(Inner):
    """Batch decoder of a Protobuf message field into a struct; of an entry of a map, to skip it."""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next message."""
        found = self.fields(batch, where)
        return None if self.kind is None else structs_of(len(batch), found, self.kind)


@dataclass(frozen=True)
class Repeated(Type):
    """Batch decoder of a repeated Protobuf field, whose items come one by one, or packed.

    Attributes:
        item: Batch decoder of an item.
        is_packable: Whether items may be packed: many of them behind their length in bytes.
    """

    item: Type
    is_packable: bool

    @property
    def wire(self) -> int:
        """Wire type of an item that is not packed."""
        return self.item.wire

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next item that is not packed."""
        return self.item.read(batch, where)

    def read_packed(self, batch: Batch, where: Mask) -> Items:
        """Decode all packed items behind the next length, one of each message at a time.

        Returns:
            Which messages have an item, and the items; as often as one of them has more.
        """
        inside = batch.part(*batch.skip(batch.number(where).view(np.int64), where))
        items: Items = []
        while (left := inside.is_left()).any() and len(items) < MOST_ITEMS:
            items.append((left, self.item.read(inside, left)))
        inside.finish()
        batch.require(inside.is_sure, where)
        return items
