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
    """Batch decoder of the fields of a Protobuf message type."""

    def fields(self, batch: Batch) -> dict[str, pa.Array]:
        """Decode all messages of a batch into one array for each field with a column, by name.

        Each array is as long as the batch; messages that can't be decoded become undecided in it.
        """


@dataclass(frozen=True)
class Type(ABC):
    """Batch decoder of the values of a Protobuf field into a column.

    Attributes:
        kind: Arrow type of the column; None if the field is only skipped.
    """

    kind: pa.DataType | None

    @property
    @abstractmethod
    def wire(self) -> int:
        """Number of the field's wire type, such as :data:`VARINT` or :data:`LENGTH`."""

    @property
    def default(self) -> Any:
        """Protobuf's default of the type, for a field without presence that was not set.

        None if the type has no default that a column can hold.
        """
        return None

    @abstractmethod
    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the field's next value in each selected message, moving the cursors past it.

        Messages with a value that can't be decoded become undecided in the batch, for the
        per-record decoder; nothing is raised.

        Args:
            batch: The messages, with a cursor each.
            where: Mask of the messages that have the field next, with the wire type :attr:`wire`.

        Returns:
            An array as long as the batch, in which only the selected messages count; None if the
            field is only skipped.
        """


@dataclass(frozen=True)
class Integer(Type):
    """Batch decoder of a Protobuf integer field: varint, zigzag or of fixed width.

    Attributes:
        type: Type of the field, a constant of Protobuf's ``FieldDescriptor``.
    """

    type: int
    default = 0

    @property
    def wire(self) -> int:
        """Number of the field's wire type."""
        return INTEGERS[self.type][0]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next varint, or 4 or 8 bytes; None if only skipped (:meth:`Type.read`)."""
        wire, bounds = INTEGERS[self.type]
        found = batch.number(where) if wire == VARINT else batch.fixed(BYTES[wire], where)
        signed = zigzag(found) if self.type in _ZIGZAG else found.view(np.int64)
        if self.type == FieldDescriptor.TYPE_SFIXED32:
            signed = found.astype("<u4").view("<i4").astype(np.int64)
        return batch.integers(signed, bounds, self.kind, where)


@dataclass(frozen=True)
class Float(Type):
    """Batch decoder of a Protobuf float or double field.

    Attributes:
        type: Type of the field, a constant of Protobuf's ``FieldDescriptor``.
    """

    type: int
    default = 0.0

    @property
    def wire(self) -> int:
        """Number of the field's wire type."""
        return FLOATS[self.type]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next 4 or 8 bytes; None if only skipped (:meth:`Type.read`)."""
        width = BYTES[self.wire]
        found = batch.fixed(width, where)
        return None if self.kind is None else floats(found, width).cast(self.kind)


@dataclass(frozen=True)
class Boolean(Type):
    """Batch decoder of a Protobuf bool field; other numbers than 0 and 1 stay undecided."""

    wire = VARINT
    default = False

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next number; None if only skipped (:meth:`Type.read`)."""
        found = batch.number(where)
        batch.require(found <= 1, where)
        return None if self.kind is None else pa.array(found == 1)


@dataclass(frozen=True)
class Bytes(Type):
    """Batch decoder of a Protobuf string or bytes field.

    Attributes:
        is_text: Whether it is a string, whose bytes have to be UTF-8.
    """

    is_text: bool
    wire = LENGTH

    @property
    def default(self) -> Any:
        """Protobuf's default: an empty text, or no bytes."""
        return "" if self.is_text else b""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next length and that many bytes; None if only skipped (:meth:`Type.read`)."""
        found = batch.texts(batch.number(where).view(np.int64), where)
        if self.is_text:
            found = batch.utf8(found, where)
        return None if self.kind is None else found


@dataclass(frozen=True)
class Enumeration(Type):
    """Batch decoder of a Protobuf enum field into names; unknown numbers stay undecided.

    Attributes:
        names: Names of the enum's values, by number.
    """

    names: Mapping[int, str]
    wire = VARINT

    @property
    def default(self) -> Any:
        """Name of number 0, Protobuf's default; None if it has none."""
        return self.names.get(0)

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next number into its name; None if only skipped (:meth:`Type.read`)."""
        found = batch.number(where).view(np.int64)
        if self.kind is None:
            return None
        numbers = pa.array([*self.names], pa.int64())
        at = pc.index_in(pa.array(found), numbers)
        batch.require(as_mask(at.is_valid()), where)
        return pa.array(self.names.values(), pa.string()).take(at)


@dataclass(frozen=True)
class Inner(Type):
    """Batch decoder of a Protobuf field whose value is an embedded message.

    Attributes:
        message: Batch decoder of the embedded message.
    """

    message: Message
    wire = LENGTH

    def fields(self, batch: Batch, where: Mask) -> dict[str, pa.Array]:
        """Decode the next embedded message of each selected message into its fields, by name.

        The cursors move past it. Where none is selected the fields are those of an empty message.
        """
        inside = batch.part(*batch.skip(batch.number(where).view(np.int64), where))
        found = self.message.fields(inside)
        batch.require(inside.is_sure, where)
        return found


@dataclass(frozen=True)
class Time(Inner):
    """Batch decoder of a ``google.protobuf.Timestamp`` field."""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next timestamp, into microseconds since 1970; as :meth:`Type.read`."""
        found = self.fields(batch, where)
        seconds, nanos = (found[name].to_numpy() for name in ("seconds", "nanos"))
        # Nanoseconds may exceed a second: checked again, as they can lead beyond the year 9999.
        micros = batch.micros(seconds, 1_000_000, where) + nanos // 1_000
        return batch.integers(micros, MICROS, self.kind, where)


@dataclass(frozen=True)
class Wrapper(Inner):
    """Batch decoder of a wrapper field, such as ``google.protobuf.StringValue``, into its value."""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next message, and return its value; as :meth:`Type.read`."""
        return self.fields(batch, where).get("value")


@dataclass(frozen=True)
class Struct(Inner):
    """Batch decoder of a Protobuf message field into a struct; map entries are only skipped."""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next message into a struct; as :meth:`Type.read`."""
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
        """Number of the wire type of an item that is not packed."""
        return self.item.wire

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        """Decode the next item of each selected message, where items are not packed.

        The decoder of a message calls it each time it meets the field with the item's wire type;
        :meth:`read_packed` is for packed items. The cursors move past the item; an item that can't
        be decoded makes its message undecided, and raises nothing.

        Returns:
            An array of items as long as the batch, in which only the selected messages count; None
            if the field is only skipped.
        """
        return self.item.read(batch, where)

    def read_packed(self, batch: Batch, where: Mask) -> Items:
        """Decode all packed items behind the next length, in each selected message.

        Returns:
            Rounds, each a mask of the messages that have another item, and an array of these items
            (None if the field is only skipped). Messages with more than 64 items become undecided.
        """
        inside = batch.part(*batch.skip(batch.number(where).view(np.int64), where))
        items: Items = []
        while (left := inside.is_left()).any() and len(items) < MOST_ITEMS:
            items.append((left, self.item.read(inside, left)))
        inside.finish()
        batch.require(inside.is_sure, where)
        return items
