"""Values in Protocol Buffers, described by a ``FileDescriptorSet``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from sources.decoding.base import Typed
from sources.decoding.batch_cursor import Batch, zigzag
from sources.decoding.conversion import BadValue
from sources.decoding.protobuf_batches import TIME, WRAPPERS, NotInBatches, PlainMessage
from sources.decoding.schema_registry import read_ids, unframe_message
from sources.decoding.value_format import Values
from sources.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ProtobufReader(Typed):
    """Reads each value as one message.

    A field that knows whether it was set is null where it was not; any other has its default.
    Wrappers are what they wrap, timestamps are times, enumerations are the names of their values.

    Args:
        descriptors: The bytes of the ``FileDescriptorSet``.
        message: Full name of the message.
        framed: Whether a registry's frame is in front of the values.
    """

    def __init__(self, descriptors: bytes, message: str, *, framed: bool) -> None:
        self._descriptors = descriptors
        self._message = message
        self._framed = framed

    @classmethod
    def of(cls, source: Values) -> ProtobufReader:
        """The reader that a source declares.

        Raises:
            InputError: The descriptor's file can't be read, or does not have the message.
        """
        assert source.descriptor is not None  # the declaration refuses it
        assert source.message is not None
        try:
            data = Path(source.descriptor).read_bytes()
            _message(data, source.message)
        except (OSError, DecodeError, TypeError) as error:
            message = f"`descriptor: {source.descriptor}` can't be read: {error}."
            hint = "Write it with `protoc --include_imports --descriptor_set_out`."
            raise InputError(message, hint) from None
        except KeyError:
            message = f"`message: {source.message}` is not in {source.descriptor}."
            raise InputError(message, "Write its full name, with the package.") from None
        return cls(data, source.message, framed=source.wire_format == "confluent")

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """The fields of the message.

        Raises:
            BadValue: The bytes are no such message.
        """
        kind, path, read = _message(self._descriptors, self._message)
        if self._framed:
            found, value = unframe_message(value)
            if found != path:
                reason = f"it is message {found} of its file, and `{self._message}` is {path}"
                raise BadValue(reason)
        try:
            fields: Mapping[str, Any] = read(kind.FromString(value))
        except (DecodeError, OverflowError) as error:
            reason = f"the value is no `{self._message}`: {error}"
            raise BadValue(reason) from None
        return fields

    def rows(self, values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray | None:
        """Columns of many values at once, of those that are plain; null are the others."""
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
    """The class of a message, its path in its file, and what turns one into Python's types.

    Raises:
        DecodeError: The bytes describe no files.
        KeyError: They have no such message.
        TypeError: An import is missing.
    """
    pool = descriptor_pool.DescriptorPool()
    # A pool wants imports first, and a set may hold them in any order: this sees to it.
    message_factory.GetMessages(descriptor_pb2.FileDescriptorSet.FromString(descriptors).file, pool)
    found = pool.FindMessageTypeByName(name)
    return message_factory.GetMessageClass(found), _path(found), _reader(found, {})


@cache
def _plain(descriptors: bytes, name: str, columns: pa.Schema) -> PlainMessage | None:
    kind, _, _ = _message(descriptors, name)
    wanted = dict(zip(columns.names, columns.types, strict=True))
    try:
        return PlainMessage(cast("Descriptor", kind.DESCRIPTOR), wanted)
    except NotInBatches:
        return None


def _path(kind: Descriptor) -> list[int]:
    outer = kind.containing_type
    if outer is None:
        return [list(kind.file.message_types_by_name).index(kind.name)]
    return [*_path(outer), [each.name for each in outer.nested_types].index(kind.name)]


def _reader(kind: Descriptor, known: dict[str, _Read]) -> _Read:
    """What turns a message into a dictionary, or into what a well-known type stands for."""
    if kind.full_name == TIME:
        return lambda at: _EPOCH + timedelta(seconds=at.seconds, microseconds=at.nanos // 1000)
    if kind.full_name in WRAPPERS:
        return lambda wrapper: wrapper.value
    # A message may hold itself.
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
    name = field.name
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        of_value = _single(kind.fields_by_name["value"], known)
        return lambda message: {
            key: of_value(value) for key, value in getattr(message, name).items()
        }
    single = _single(field, known)
    if field.is_repeated:
        return lambda message: [single(value) for value in getattr(message, name)]
    if field.has_presence:
        return lambda message: single(getattr(message, name)) if message.HasField(name) else None
    return lambda message: single(getattr(message, name))


def _single(field: FieldDescriptor, known: dict[str, _Read]) -> _Read:
    if field.message_type is not None:
        return _reader(field.message_type, known)
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        # A number that is newer than the descriptor has no name yet.
        return lambda number: names[number].name if number in names else number
    return lambda value: value
