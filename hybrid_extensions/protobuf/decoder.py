"""Decoder of Protobuf values by a ``FileDescriptorSet``: null or default, wrappers, enums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from hybrid_extensions.protobuf.batches import TIME, WRAPPERS, NotInBatches, PlainMessage
from sources.common.conversion import BadValue
from sources.common.counting import counted
from sources.common.times import EPOCH
from sources.decoding.base import BaseReader
from sources.decoding.batch_cursor import Batch, zigzag
from sources.decoding.schema_registry import read_ids, unframe
from sources.errors import InputError


class ProtobufReader(BaseReader):
    """Decoder that reads each value as one Protobuf message of a declared type.

    A field with presence is None where it was not set; any other then has its default. Wrappers
    become the values that they wrap, ``Timestamp`` a datetime, enum numbers their names; a number
    without a name stays one. https://protobuf.dev/programming-guides/field_presence/

    Args:
        descriptors: A serialized ``FileDescriptorSet``, imports included.
        message: Full name of the message type.
        framed: Whether values are in Confluent's wire format: a schema id and message indexes in
            front.
    """

    def __init__(self, descriptors: bytes, message: str, *, framed: bool) -> None:
        self._descriptors = descriptors
        self._message = message
        self._framed = framed

    @classmethod
    def of_file(cls, path: str, name: str, *, framed: bool) -> ProtobufReader:
        """Return the decoder of messages of a type that a ``FileDescriptorSet`` describes.

        Args:
            path: File of the ``FileDescriptorSet``.
            name: Full name of the message type.
            framed: Whether values are in Confluent's wire format.

        Raises:
            InputError: The file can't be read, is not a ``FileDescriptorSet`` with all imports, or
                does not have the message type.
        """
        try:
            data = Path(path).read_bytes()
            _message(data, name)
        except (OSError, DecodeError, TypeError) as error:
            reason = str(getattr(error, "strerror", None) or error).rstrip(".")
            message = (
                f"`descriptor: {path}` can't be read as a Protobuf FileDescriptorSet with its "
                f"imports: {reason}."
            )
            hint = (
                "Write the file with `protoc --include_imports --descriptor_set_out="
                f"{Path(path).name} <file>.proto`, or correct `descriptor`."
            )
            raise InputError(message, hint, field="descriptor", file=path) from None
        except KeyError:
            message = f"`message: {name}` is not in {path}."
            hint = (
                "Write the full name of the message with its package, such as `shop.Order`, or "
                "write the file again with `protoc`, from the .proto file that defines it."
            )
            raise InputError(message, hint, field="message", value=name, file=path) from None
        return cls(data, name, framed=framed)

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """Decode one value into the fields of its message, by name, as Python values.

        Raises:
            BadValue: The bytes are not a valid message of the type, or, in Confluent's wire format,
                have no schema id in front or the message indexes of another type.
        """
        kind, path, read = _message(self._descriptors, self._message)
        if self._framed:
            indexes, value = _unframe_message(value)
            if indexes != path:
                reason = (
                    f"its message indexes are {indexes}, but those of `{self._message}` are {path}"
                    ": the value is of another message type"
                )
                raise BadValue(reason)
        try:
            message: Any = kind.FromString(value)
            # Of proto2; Python's parser alone does not look.
            if lacking := message.FindInitializationErrors():
                error = f"it lacks the required field `{lacking[0]}`"
                raise DecodeError(error)
            fields: Mapping[str, Any] = read(message)
        except (DecodeError, OverflowError) as error:
            reason = f"the value is not a valid `{self._message}`: {error}"
            raise BadValue(reason) from None
        return fields

    def rows(self, values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray | None:
        """Decode many values at once; a value that needs the per-record decoder becomes null.

        Bad values are null, too: the per-record decoder says why.

        Args:
            values: The values.
            columns: Columns of the structs, filled from the fields of the same name.

        Returns:
            Structs with one field per column, as long as the values; None if a column's field is of
            a type that only the per-record decoder reads.
        """
        message = _plain(self._descriptors, self._message, columns)
        if message is None:
            return None
        batch = Batch(values)
        if self._framed:
            _, path, _ = _message(self._descriptors, self._message)
            read_ids(batch)
            every = batch.every()
            for part in [0] if path == [0] else [len(path), *path]:
                batch.require(zigzag(batch.number(every)) == part, every)
        return message.rows(batch, columns)


_Read = Callable[[Any], Any]


@cache
def _message(descriptors: bytes, name: str) -> tuple[type[Message], list[int], _Read]:
    """Return a message type's class, its message indexes in its file, and its converter to Python.

    Cached: each process builds the descriptor pool once.

    Raises:
        DecodeError: The bytes are not a ``FileDescriptorSet``.
        KeyError: It does not have the message type.
        TypeError: It lacks an imported file.
    """
    pool = descriptor_pool.DescriptorPool()
    # A pool needs imports first, and a set may hold them in any order: this call sorts them.
    message_factory.GetMessages(descriptor_pb2.FileDescriptorSet.FromString(descriptors).file, pool)
    descriptor = pool.FindMessageTypeByName(name)
    return message_factory.GetMessageClass(descriptor), _path(descriptor), _reader(descriptor, {})


@cache
def _plain(descriptors: bytes, name: str, columns: pa.Schema) -> PlainMessage | None:
    """Return the batch decoder of a message type; None if a column needs the per-record decoder."""
    kind, _, _ = _message(descriptors, name)
    kinds = dict(zip(columns.names, columns.types, strict=True))
    try:
        return PlainMessage(cast("Descriptor", kind.DESCRIPTOR), kinds)
    except NotInBatches:
        return None


def _path(kind: Descriptor) -> list[int]:
    """Return a Protobuf type's message indexes: its path in its file, outermost type first."""
    outer = kind.containing_type
    if outer is None:
        return [list(kind.file.message_types_by_name).index(kind.name)]
    return [*_path(outer), [each.name for each in outer.nested_types].index(kind.name)]


def _reader(kind: Descriptor, known: dict[str, _Read]) -> _Read:
    """Return the function that converts a message of a type to a dictionary or a plain value.

    Timestamps become datetimes and wrappers the values that they wrap.

    Args:
        kind: The message type.
        known: Functions built so far, by full name: a message type may contain itself.
    """
    if kind.full_name == TIME:
        return lambda time: EPOCH + timedelta(seconds=time.seconds, microseconds=time.nanos // 1000)
    if kind.full_name in WRAPPERS:
        return lambda wrapper: wrapper.value
    # A message type may contain itself.
    if kind.full_name in known:
        return known[kind.full_name]
    getters: dict[str, _Read] = {}

    def read(message: Any) -> dict[str, Any]:
        return {name: get(message) for name, get in getters.items()}

    known[kind.full_name] = read
    for field in kind.fields:
        getters[field.name] = _getter(field, known)
    return read


def _getter(field: FieldDescriptor, known: dict[str, _Read]) -> _Read:
    """Return the function that reads a field of a message: single, repeated or a map."""
    name = field.name
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        of_value = _single(kind.fields_by_name["value"], known)
        # Each process has the entries in an order of its own.
        return lambda message: {
            key: of_value(value) for key, value in sorted(getattr(message, name).items())
        }
    single = _single(field, known)
    if field.is_repeated:
        return lambda message: [single(value) for value in getattr(message, name)]
    if field.has_presence:
        return lambda message: single(getattr(message, name)) if message.HasField(name) else None
    return lambda message: single(getattr(message, name))


def _single(field: FieldDescriptor, known: dict[str, _Read]) -> _Read:
    """Return the function that converts one value of a field, a list's item for a repeated one."""
    if field.message_type is not None:
        return _reader(field.message_type, known)
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        # A number that was added after the descriptor was written has no name in it.
        return lambda number: names[number].name if number in names else number
    return lambda value: value


def _unframe_message(value: bytes) -> tuple[list[int], bytes]:
    """Split a value in Confluent's wire format into a Protobuf message's indexes and its bytes.

    Returns:
        The path of the message's type in the schema's file (``[1, 0]`` is the first type inside
        the second one), and the encoded message.

    Raises:
        BadValue: The value has no schema id or no message indexes in front.
    """
    _, rest = unframe(value)
    count, cursor = _read_zigzag(rest, 0)
    # A single byte 0 is short for the first message of the file.
    if count == 0:
        return [0], rest[cursor:]
    if not 0 < count <= len(rest):
        reason = (
            f"the number of message indexes in front of the value is {count}, but "
            f"{counted(len(rest), 'byte follows', 'bytes follow')} the schema id"
        )
        raise BadValue(reason)
    path = []
    for _ in range(count):
        index, cursor = _read_zigzag(rest, cursor)
        path.append(index)
    return path, rest[cursor:]


def _read_zigzag(data: bytes, start: int) -> tuple[int, int]:
    """Decode the zigzag varint at an offset; return it and the offset after it.

    Raises:
        BadValue: It is cut off, or longer than 64 bits.
    """
    number, shift, cursor = 0, 0, start
    while shift < 64:
        if cursor >= len(data):
            break
        byte = data[cursor]
        cursor += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), cursor
        shift += 7
    reason = "the message indexes are cut off"
    if shift >= 64:
        reason = "a message index has more than 64 bits"
    raise BadValue(reason)
