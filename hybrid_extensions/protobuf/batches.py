"""Batch decoding of Protobuf messages into Arrow columns, by the decoders of :mod:`.columns`.

Decodes fields of scalar types, enums, ``Timestamp``, wrappers and other messages, single and
repeated. A value is left to the per-record decoder if it contains a field twice that is not
repeated, more than 64 items, or a negative number in a ten-byte varint; all values are if a map has
a column, or a message with a column contains itself.

The encoding: https://protobuf.dev/programming-guides/encoding/

Not the library `ptars`, though it decodes two to four times as fast: a record of 1 MB that opens
one group within another ends its process, it returns rows for records that Protobuf refuses, and
of a time that comes in two parts it keeps one (docs/libraries.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from hybrid_extensions.protobuf.columns import (
    BYTES,
    FLOATS,
    INTEGERS,
    LENGTH,
    VARINT,
    Boolean,
    Bytes,
    Enumeration,
    Float,
    Integer,
    Repeated,
    Struct,
    Time,
    Type,
    Wrapper,
)
from sources.common.schema import TIMESTAMP
from sources.decoding.batch_cursor import MOST_ITEMS, Batch, Items, Mask, lists_of

TIME = "google.protobuf.Timestamp"
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}  # fmt: skip

_MOST_TAG, _TAG_BYTES = 2**32, 5
# A value with more unknown fields, and the rarer ones of more different tags at one place, are
# left to the per-record decoder, which is faster for them.
_MOST_UNKNOWN, _MOST_AT_ONCE = 16, 64


@dataclass(frozen=True)
class _Field:
    """A Protobuf field and its decoder; with presence, it is null where it was not set."""

    name: str
    type: Type
    has_presence: bool

    @property
    def is_repeated(self) -> bool:
        """Whether the field has many values."""
        return isinstance(self.type, Repeated)


class PlainMessage:
    """Batch decoder of a Protobuf message type: decodes many records at once.

    Args:
        descriptor: The message type.
        wanted: Arrow types of the columns, by field name; all other fields are skipped.
        around: Full names of the message types that it is a part of.

    Raises:
        NotInBatches: A field with a column can't be decoded in batches, a field is ``required``, or
            the type contains itself.
    """

    def __init__(
        self,
        descriptor: Descriptor,
        wanted: Mapping[str, pa.DataType],
        around: frozenset[str] = frozenset(),
    ) -> None:
        if descriptor.full_name in around:
            raise NotInBatches
        around |= {descriptor.full_name}
        self._fields: dict[int, _Field] = {}
        self._undecided: set[int] = set()
        for field in descriptor.fields:
            made = _type(field, wanted.get(field.name), around)
            if field.is_required or (made is None and field.name in wanted):
                raise NotInBatches
            if made is None:
                self._undecided.add(field.number)
            else:
                self._fields[field.number] = _Field(field.name, made, field.has_presence)

    def fields(self, batch: Batch) -> dict[str, pa.Array]:
        """Decode all messages of a batch into one array for each field with a column, by name.

        A field that was not set gets its default, or null if it has presence. Messages that need
        the per-record decoder, damaged ones among them, become undecided in the batch; nothing is
        raised.
        """
        found: dict[int, pa.Array] = {}
        items: dict[int, Items] = {
            number: [] for number, field in self._fields.items() if field.is_repeated
        }
        seen = {number: np.zeros(len(batch), np.bool_) for number in self._fields}
        for _ in range(len(self._fields) + _MOST_UNKNOWN + (MOST_ITEMS if items else 0)):
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
                if field is not None and isinstance(field.type, Repeated):
                    if wire == field.type.wire:
                        items[number].append((where, field.type.read(batch, where)))
                        continue
                    if wire == LENGTH and field.type.is_packable:
                        items[number] += field.type.read_packed(batch, where)
                        continue
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
            field.name: lists_of(len(batch), items[number], field.type.kind)
            if field.is_repeated
            else _with_default(found.get(number), seen[number], field)
            for number, field in self._fields.items()
            if field.type.kind is not None
        }

    def rows(self, batch: Batch, columns: pa.Schema) -> pa.StructArray:
        """Decode all messages of a batch into structs.

        Args:
            batch: The messages, with their cursors at the messages' begin.
            columns: Columns of the structs, filled from the fields of the same name.

        Returns:
            An array as long as the batch; null where the per-record decoder has to decide.
        """
        return batch.rows(self.fields(batch), columns)


class NotInBatches(Exception):  # noqa: N818 - a signal, not an error
    """Error: messages of a Protobuf type have to be decoded record by record."""


def _pass_unknown(batch: Batch, tag: int, where: Mask) -> None:
    """Skip a Protobuf field that the message type does not have.

    Messages with an invalid tag are left to the per-record decoder.

    Args:
        batch: The messages.
        tag: Field number and wire type; 0 to make the messages undecided.
        where: Messages that have the field next.
    """
    number, wire = tag >> 3, tag & 7
    if wire in BYTES:
        batch.fixed(BYTES[wire], where)
    elif wire == LENGTH:
        batch.skip(batch.number(where).view(np.int64), where)
    elif wire == VARINT:
        batch.number(where)
    is_known = wire in (*BYTES, LENGTH, VARINT)
    if not is_known or number == 0 or tag >= _MOST_TAG:
        batch.leave(where)


def _with_default(values: pa.Array | None, is_set: Mask, field: _Field) -> pa.Array:
    """Fill in a field's default, or null if it has presence, where it was not set."""
    kind = field.type.kind
    if values is None and field.has_presence:
        return pa.nulls(len(is_set), kind)
    default = pa.scalar(None if field.has_presence else field.type.default, kind)
    if values is None:
        return pa.repeat(default, len(is_set))
    return values if is_set.all() else pc.if_else(pa.array(is_set), values, default)


def _type(field: FieldDescriptor, kind: pa.DataType | None, around: frozenset[str]) -> Type | None:
    """Return the batch decoder of a Protobuf field; None if it needs the per-record decoder.

    Args:
        field: The field.
        kind: Type of the column; None if the field is only skipped.
        around: Full names of the message types that the field is a part of.
    """
    oneof = field.containing_oneof
    # A proto3 `optional` field is alone in a oneof that the compiler adds for it.
    if oneof is not None and len(oneof.fields) > 1:
        return None
    if not field.is_repeated:
        return _single(field, kind, around)
    # A map is a list of its entries, of which only the last one with a key counts.
    if kind is not None and not pa.types.is_list(kind):
        return None
    item = _single(field, None if kind is None else kind.value_type, around)
    return None if item is None else Repeated(kind, item, is_packable=item.wire != LENGTH)


def _single(
    field: FieldDescriptor, kind: pa.DataType | None, around: frozenset[str]
) -> Type | None:
    """Return the batch decoder of one value of a Protobuf field, as :func:`_type` does."""
    if field.type == FieldDescriptor.TYPE_GROUP:
        return None
    if field.type in INTEGERS and (kind in (None, pa.float64()) or pa.types.is_integer(kind)):
        return Integer(kind, field.type)
    if field.type in FLOATS:
        exact = {FieldDescriptor.TYPE_FLOAT: pa.float32()}.get(field.type)
        return Float(kind, field.type) if kind in (None, pa.float64(), exact) else None
    if field.message_type is not None:
        return _inner(field.message_type, kind, around)
    made: dict[int, Type] = {
        FieldDescriptor.TYPE_BOOL: Boolean(kind),
        FieldDescriptor.TYPE_STRING: Bytes(kind, is_text=True),
        FieldDescriptor.TYPE_BYTES: Bytes(kind, is_text=False),
    }
    if field.enum_type is not None:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}
        made[FieldDescriptor.TYPE_ENUM] = Enumeration(kind, names)
    natural = {FieldDescriptor.TYPE_BOOL: pa.bool_(), FieldDescriptor.TYPE_BYTES: pa.binary()}
    fits = kind in (None, natural.get(field.type, pa.string()))
    return made.get(field.type) if fits else None


def _inner(message: Descriptor, kind: pa.DataType | None, around: frozenset[str]) -> Type | None:
    """Return the batch decoder of a message's field, as :func:`_type` does.

    Args:
        message: Type of the field.
        kind: Type of the column; None if the field is only skipped.
        around: Full names of the message types that the field is a part of.
    """
    if message.full_name == TIME and kind in (None, TIMESTAMP):
        return Time(kind, PlainMessage(message, {"seconds": pa.int64(), "nanos": pa.int32()}))
    try:
        if message.full_name in WRAPPERS:
            return Wrapper(kind, PlainMessage(message, {} if kind is None else {"value": kind}))
        if message.full_name != TIME and (kind is None or pa.types.is_struct(kind)):
            wanted = {} if kind is None else {each.name: each.type for each in kind}
            return Struct(kind, PlainMessage(message, wanted, around))
    except NotInBatches:
        return None
    return None
