"""Batch decoding of Protobuf messages into Arrow columns (:mod:`sources.decoding.batch_cursor`).

Decodes singular fields of scalar types, enums, ``Timestamp`` and wrappers. A value that contains
anything else that is read, a field twice, or a negative number in a ten-byte varint, is left to
the per-record decoder.

The encoding: https://protobuf.dev/programming-guides/encoding/

Not the library `ptars`, though it decodes two to four times as fast: a record of 1 MB that opens
one group within another ends its process, it returns rows for records that Protobuf refuses, and
of a time that comes in two parts it keeps one (docs/libraries.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sources.common.schema import TIMESTAMP
from sources.decoding.batch_cursor import MICROS, Batch, Mask, as_mask, floats, zigzag

TIME = "google.protobuf.Timestamp"
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}  # fmt: skip

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_MOST_TAG, _TAG_BYTES = 2**32, 5
# A value with more unknown fields, and the rarer ones of more different tags at one place, are
# left to the per-record decoder, which is faster for them.
_MOST_UNKNOWN, _MOST_AT_ONCE = 16, 64
_INT32, _INT64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_UINT32, _UINT64 = (0, 2**32 - 1), (0, 2**63 - 1)
# By field type: its wire type, and the lowest and highest number of a column that it fits.
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (_VARINT, _INT32),
    FieldDescriptor.TYPE_INT64: (_VARINT, _INT64),
    FieldDescriptor.TYPE_UINT32: (_VARINT, _UINT32),
    FieldDescriptor.TYPE_UINT64: (_VARINT, _UINT64),
    FieldDescriptor.TYPE_SINT32: (_VARINT, _INT32),
    FieldDescriptor.TYPE_SINT64: (_VARINT, _INT64),
    FieldDescriptor.TYPE_FIXED32: (_FOUR_BYTES, _UINT32),
    FieldDescriptor.TYPE_FIXED64: (_EIGHT_BYTES, _UINT64),
    FieldDescriptor.TYPE_SFIXED32: (_FOUR_BYTES, _INT32),
    FieldDescriptor.TYPE_SFIXED64: (_EIGHT_BYTES, _INT64),
}
_ZIGZAG = (FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64)
_FLOATS = {FieldDescriptor.TYPE_FLOAT: _FOUR_BYTES, FieldDescriptor.TYPE_DOUBLE: _EIGHT_BYTES}
_BYTES = {_FOUR_BYTES: 4, _EIGHT_BYTES: 8}


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
class _Integer(Type):
    """Batch decoder of a Protobuf integer field: varint, zigzag or of fixed width."""

    type: int
    default = 0

    @property
    def wire(self) -> int:
        return _INTEGERS[self.type][0]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        wire, bounds = _INTEGERS[self.type]
        found = batch.number(where) if wire == _VARINT else batch.fixed(_BYTES[wire], where)
        signed = zigzag(found) if self.type in _ZIGZAG else found.view(np.int64)
        if self.type == FieldDescriptor.TYPE_SFIXED32:
            signed = found.astype("<u4").view("<i4").astype(np.int64)
        return batch.integers(signed, bounds, self.kind, where)


@dataclass(frozen=True)
class _Float(Type):
    """Batch decoder of a Protobuf float or double field."""

    type: int
    default = 0.0

    @property
    def wire(self) -> int:
        return _FLOATS[self.type]

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        width = _BYTES[self.wire]
        found = batch.fixed(width, where)
        return None if self.kind is None else floats(found, width).cast(self.kind)


@dataclass(frozen=True)
class _Boolean(Type):
    """Batch decoder of a Protobuf bool field; only the numbers 0 and 1 are decoded."""

    wire = _VARINT
    default = False

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = batch.number(where)
        batch.require(found <= 1, where)
        return None if self.kind is None else pa.array(found == 1)


@dataclass(frozen=True)
class _Bytes(Type):
    """Batch decoder of a Protobuf string (``is_text``) or bytes field."""

    is_text: bool
    wire = _LENGTH

    @property
    def default(self) -> Any:
        return "" if self.is_text else b""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = batch.texts(batch.number(where).view(np.int64), where)
        if self.is_text:
            found = batch.utf8(found, where)
        return None if self.kind is None else found


@dataclass(frozen=True)
class _Enumeration(Type):
    """Batch decoder of a Protobuf enum field into names; only known numbers are decoded."""

    names: Mapping[int, str]
    wire = _VARINT

    @property
    def default(self) -> Any:
        return self.names.get(0)

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = batch.number(where).view(np.int64)
        if self.kind is None:
            return None
        numbers = pa.array([*self.names], pa.int64())
        at = pc.index_in(pa.array(found), numbers)
        batch.require(as_mask(at.is_valid()), where)
        return pa.array(self.names.values(), pa.string()).take(at)


@dataclass(frozen=True)
class _Inner(Type):
    """Batch decoder of a Protobuf field whose message stands for a single value."""

    message: PlainMessage
    wire = _LENGTH

    def fields(self, batch: Batch, where: Mask) -> dict[str, pa.Array]:
        """Decode the fields of the inner messages; of an empty one where none is selected."""
        inside = batch.part(*batch.skip(batch.number(where).view(np.int64), where))
        found = self.message.fields(inside)
        batch.require(inside.is_sure, where)
        return found


@dataclass(frozen=True)
class _Time(_Inner):
    """Batch decoder of a ``google.protobuf.Timestamp`` field."""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        found = self.fields(batch, where)
        seconds, nanos = (found[name].to_numpy() for name in ("seconds", "nanos"))
        # Nanoseconds may exceed a second: checked again, as they can lead beyond the year 9999.
        micros = batch.micros(seconds, 1_000_000, where) + nanos // 1_000
        return batch.integers(micros, MICROS, self.kind, where)


@dataclass(frozen=True)
class _Wrapper(_Inner):
    """Batch decoder of a wrapper field, such as ``google.protobuf.StringValue``."""

    def read(self, batch: Batch, where: Mask) -> pa.Array | None:
        return self.fields(batch, where).get("value")


@dataclass(frozen=True)
class _Field:
    """A Protobuf field and its decoder; with presence, it is null where it was not set."""

    name: str
    type: Type
    has_presence: bool


class PlainMessage:
    """Batch decoder of a Protobuf message type.

    Args:
        descriptor: The message type.
        wanted: Column types by field name; all other fields are skipped.

    Raises:
        NotInBatches: A field with a column can't be decoded in batches, or a field is ``required``.
    """

    def __init__(self, descriptor: Descriptor, wanted: Mapping[str, pa.DataType]) -> None:
        self._fields: dict[int, _Field] = {}
        self._undecided: set[int] = set()
        for field in descriptor.fields:
            made = _type(field, wanted.get(field.name))
            if field.is_required or (made is None and field.name in wanted):
                raise NotInBatches
            if made is None:
                self._undecided.add(field.number)
            else:
                self._fields[field.number] = _Field(field.name, made, field.has_presence)

    def fields(self, batch: Batch) -> dict[str, pa.Array]:
        """Decode all messages of a batch into one array for each field with a column, by name.

        A field that was not set gets its default, or null if it has presence. Messages that need
        the per-record decoder become undecided in the batch.
        """
        found: dict[int, pa.Array] = {}
        seen = {number: np.zeros(len(batch), np.bool_) for number in self._fields}
        for _ in range(len(self._fields) + _MOST_UNKNOWN):
            left = batch.is_left()
            if not left.any():
                break
            tags = batch.number(left, _TAG_BYTES)
            found_tags, counts = np.unique(tags[left], return_counts=True)
            common = found_tags[np.argsort(-counts)[:_MOST_AT_ONCE]]
            batch.require(np.isin(tags, common), left)
            for tag in common.tolist():
                where = left & (tags == tag)
                number, wire = tag >> 3, tag & 7
                field = self._fields.get(number)
                if field is None or field.type.wire != wire:
                    is_unknown = field is None and number not in self._undecided
                    _pass_unknown(batch, tag if is_unknown else 0, where)
                    continue
                batch.require(~seen[number], where)
                seen[number] |= where
                values = field.type.read(batch, where)
                if values is None:
                    continue
                if number in found and not where.all():
                    values = pc.if_else(pa.array(where), values, found[number])
                found[number] = values
        batch.finish()
        return {
            field.name: _with_default(found.get(number), seen[number], field)
            for number, field in self._fields.items()
            if field.type.kind is not None
        }

    def rows(self, batch: Batch, columns: pa.Schema) -> pa.StructArray:
        """Decode all messages of a batch into structs.

        Args:
            batch: The messages.
            columns: Columns of the structs, filled from the fields of the same name.

        Returns:
            An array as long as the batch; null where the per-record decoder has to decide.
        """
        return batch.rows(self.fields(batch), columns)


class NotInBatches(Exception):  # noqa: N818 - a signal, not an error
    """Signal that messages of a Protobuf type have to be decoded record by record."""


def _pass_unknown(batch: Batch, tag: int, where: Mask) -> None:
    """Skip a Protobuf field that the message type does not have.

    Messages with an invalid tag are left to the per-record decoder.

    Args:
        batch: The messages.
        tag: Field number and wire type; 0 to make the messages undecided.
        where: Messages that have the field next.
    """
    number, wire = tag >> 3, tag & 7
    if wire in _BYTES:
        batch.fixed(_BYTES[wire], where)
    elif wire == _LENGTH:
        batch.skip(batch.number(where).view(np.int64), where)
    elif wire == _VARINT:
        batch.number(where)
    is_known = wire in (*_BYTES, _LENGTH, _VARINT)
    if not is_known or number == 0 or tag >= _MOST_TAG:
        batch.leave(where)


def _with_default(values: pa.Array | None, is_set: Mask, field: _Field) -> pa.Array:
    """Fill in a field's default, or null if it has presence, where it was not set."""
    kind = field.type.kind
    default = pa.scalar(None if field.has_presence else field.type.default, kind)
    if values is None:
        return pa.repeat(default, len(is_set))
    return values if is_set.all() else pc.if_else(pa.array(is_set), values, default)


def _type(field: FieldDescriptor, kind: pa.DataType | None) -> Type | None:
    """Return the batch decoder of a Protobuf field; None if it needs the per-record decoder.

    Args:
        field: The field.
        kind: Type of the column; None if the field is only skipped.
    """
    oneof = field.containing_oneof
    # A proto3 `optional` field is alone in a oneof that the compiler adds for it.
    if field.is_repeated or (oneof is not None and len(oneof.fields) > 1):
        return None
    if field.type in _INTEGERS and (kind in (None, pa.float64()) or pa.types.is_integer(kind)):
        return _Integer(kind, field.type)
    if field.type in _FLOATS:
        exact = {FieldDescriptor.TYPE_FLOAT: pa.float32()}.get(field.type)
        return _Float(kind, field.type) if kind in (None, pa.float64(), exact) else None
    if field.message_type is not None:
        return _inner(field.message_type, kind)
    made: dict[int, Type] = {
        FieldDescriptor.TYPE_BOOL: _Boolean(kind),
        FieldDescriptor.TYPE_STRING: _Bytes(kind, is_text=True),
        FieldDescriptor.TYPE_BYTES: _Bytes(kind, is_text=False),
    }
    if field.enum_type is not None:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}
        made[FieldDescriptor.TYPE_ENUM] = _Enumeration(kind, names)
    natural = {FieldDescriptor.TYPE_BOOL: pa.bool_(), FieldDescriptor.TYPE_BYTES: pa.binary()}
    fits = kind in (None, natural.get(field.type, pa.string()))
    return made.get(field.type) if fits else None


def _inner(message: Descriptor, kind: pa.DataType | None) -> Type | None:
    """Return the batch decoder of a timestamp or wrapper field; None for other messages.

    Args:
        message: Type of the field.
        kind: Type of the column; None if the field is only skipped.
    """
    if message.full_name == TIME and kind in (None, TIMESTAMP):
        return _Time(kind, PlainMessage(message, {"seconds": pa.int64(), "nanos": pa.int32()}))
    if message.full_name in WRAPPERS:
        try:
            wanted = {} if kind is None else {"value": kind}
            return _Wrapper(kind, PlainMessage(message, wanted))
        except NotInBatches:
            return None
    return None
