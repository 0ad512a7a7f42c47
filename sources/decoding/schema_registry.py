"""Confluent's schema registry: how it is reached, and the frame around the values that name it.

The frame (Confluent's wire format) is a byte 0, the schema's id as four bytes, and, before a
Protobuf message, the path of its type in the schema's file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from pydantic import SecretStr, model_validator

from sources.common.fields import Declared
from sources.common.optional import needs_extra
from sources.common.security import locate_files
from sources.decoding.batch_cursor import Batch, Places
from sources.decoding.conversion import BadValue
from sources.errors import InputError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

FRAME_BYTES = 5
TIMEOUT_S = 10.0
_NOT_FOUND = 404


class Registry(Declared):
    """A schema registry.

    Attributes:
        url: Where it answers.
        username: Who signs in.
        password: Of that user; from the environment.
        ca: PEM file of the authorities to trust. Relative to the pipeline's file, as are the
            other two.
        certificate: PEM file of this client's certificate.
        key: PEM file of the certificate's key.

    """

    url: str
    username: str | None = None
    password: SecretStr | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    # Not a validator of the field: its error would carry the value.
    @model_validator(mode="after")
    def _is_whole_and_keeps_its_secret(self) -> Registry:
        parts = urlsplit(self.url)
        if parts.username is not None or parts.password is not None:
            message = "`url` holds a login: write `username`, and `password: ${REGISTRY_PASSWORD}`"
            raise ValueError(message)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            message = f"`url: {self.url}` is no address: write http://… or https://…"
            raise ValueError(message)
        if (self.username is None) != (self.password is None):
            message = "`username` and `password` go together"
            raise ValueError(message)
        if self.key is not None and self.certificate is None:
            message = "`key` has no meaning without `certificate`"
            raise ValueError(message)
        return self

    def located(self, locate: Callable[[str], str]) -> Registry:
        """The same with its files' paths made absolute."""
        return locate_files(self, locate)


def read_ids(batch: Batch) -> Places:
    """The schema's id of each value, which is passed over; a value without a frame is odd."""
    every = batch.every()
    batch.require(batch.fixed(1, every) == 0, every)
    # The first byte is the highest one.
    return (batch.fixed(FRAME_BYTES - 1, every).byteswap() >> 32).astype(np.int64)


def unframe(value: bytes) -> tuple[int, bytes]:
    """The schema's id, and what follows it.

    Raises:
        BadValue: The frame is not there.
    """
    if len(value) < FRAME_BYTES or value[0] != 0:
        reason = f"no schema's id is in front of it: it starts with {value[:5].hex() or 'nothing'}"
        raise BadValue(reason)
    return int.from_bytes(value[1:5]), value[5:]


def unframe_message(value: bytes) -> tuple[list[int], bytes]:
    """The path of a message's type in its schema's file, and the message.

    Raises:
        BadValue: The frame is not there.
    """
    _, rest = unframe(value)
    count, at = _zigzag(rest, 0)
    # One byte 0 stands for the first message of the file.
    if count == 0:
        return [0], rest[at:]
    if not 0 < count <= len(rest):
        reason = f"a message's path has {count} parts"
        raise BadValue(reason)
    path = []
    for _ in range(count):
        index, at = _zigzag(rest, at)
        path.append(index)
    return path, rest[at:]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    """A signed integer of variable length, and the place after it."""
    number, shift = 0, 0
    while shift < 64:
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    reason = "a message's path is cut off"
    raise BadValue(reason)


@cache
def _client(registry: Registry) -> SchemaRegistryClient:
    with needs_extra("registry", "A schema registry"):
        # Half a second.
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415

    settings: dict[str, Any] = {
        "url": registry.url,
        "ssl.ca.location": registry.ca,
        "ssl.certificate.location": registry.certificate,
        "ssl.key.location": registry.key,
        "timeout": TIMEOUT_S,
    }
    if registry.username is not None and registry.password is not None:
        login = f"{registry.username}:{registry.password.get_secret_value()}"
        settings["basic.auth.user.info"] = login
    return SchemaRegistryClient({name: value for name, value in settings.items() if value})


@cache
def schema_texts(registry: Registry, schema_id: int) -> list[str]:
    """The text of an Avro schema, after those that it refers to; kept by this process.

    Raises:
        BadValue: The registry has no such schema, or it is no Avro schema.
        InputError: The registry can't be reached, or refuses.
    """
    client = _client(registry)
    found = _ask(registry, schema_id, partial(client.get_schema, schema_id))
    if found.schema_type != "AVRO":
        reason = f"schema {schema_id} of the registry is of type {found.schema_type}"
        raise BadValue(reason)
    texts: dict[str, str] = {}

    def collect(schema: Any) -> None:
        for part in schema.references or []:
            if part.name not in texts:
                question = partial(client.get_version, part.subject, part.version)
                named = _ask(registry, schema_id, question)
                collect(named.schema)
                texts[part.name] = named.schema.schema_str

    collect(found)
    return [*texts.values(), found.schema_str]


def _ask(registry: Registry, schema_id: int, question: Callable[[], Any]) -> Any:
    from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: PLC0415

    try:
        return question()
    except SchemaRegistryError as error:
        if error.http_status_code == _NOT_FOUND:
            reason = f"the registry has no schema {schema_id}"
            raise BadValue(reason) from None
        message = f"The schema registry {registry.url} refuses: {error.error_message}."
        raise InputError(message, "Correct `registry`, or the permissions.") from None
    # Its client passes on whatever the HTTP library raises.
    except Exception as error:
        message = f"The schema registry {registry.url} can't be reached: {type(error).__name__}."
        raise InputError(message, "Start it, or correct `registry`.") from None
