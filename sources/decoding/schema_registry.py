"""Address of a Confluent schema registry, and the wire format of values that refer to its schemas.

Confluent's wire format puts in front of a value: a byte 0, the schema id as four bytes (big
endian), and, before a Protobuf message, the message indexes: the path of its type in the schema.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import numpy as np
from pydantic import SecretStr, model_validator

from sources.common.conversion import BadValue
from sources.common.fields import Declared
from sources.common.login.security import locate_files
from sources.decoding.batch_cursor import Batch, Int64Array

FRAME_BYTES = 5
"""Bytes in front of a value: the byte 0, and the schema id."""


class Registry(Declared):
    """Address and login of a Confluent schema registry.

    Attributes:
        url: Its address, ``http://…`` or ``https://…``, without a login.
        username: User name of the login, if one is needed.
        password: Password of the login; from the environment.
        ca: PEM file of the certificate authorities to trust. Relative to the pipeline's file, as
            are ``certificate`` and ``key``.
        certificate: PEM file of this client's certificate.
        key: PEM file of the certificate's private key.

    """

    url: str
    username: str | None = None
    password: SecretStr | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    # Not a validator of the field: its error would show the value.
    @model_validator(mode="after")
    def _is_complete_and_url_holds_no_login(self) -> Registry:
        parts = urlsplit(self.url)
        if parts.username is not None or parts.password is not None:
            message = (
                "`url` holds a login, which would be shown in messages. Remove it there, and "
                "declare `username` and `password: ${REGISTRY_PASSWORD}`."
            )
            raise ValueError(message)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            message = (
                f"`url: {self.url}` is not an address with a scheme and a host. Write "
                "http://host:port or https://host:port."
            )
            raise ValueError(message)
        if (self.username is None) != (self.password is None):
            missing = "username" if self.username is None else "password"
            message = (
                f"`username` and `password` have to be given together; `{missing}` is missing. "
                "Declare both, or neither."
            )
            raise ValueError(message)
        if self.key is not None and self.certificate is None:
            message = (
                "`key` has no meaning without `certificate`. Declare this client's `certificate`, "
                "or remove `key`."
            )
            raise ValueError(message)
        return self

    @property
    def extras(self) -> list[tuple[str, str]]:
        """Extras of this project that asking it needs, each with what needs it, for messages.

        A registry is asked about Avro alone.
        """
        return [("registry", "`registry`"), ("avro", "`registry`")]

    def located(self, locate: Callable[[str], str]) -> Registry:
        """Return a copy in which the paths of ``ca``, ``certificate`` and ``key`` are absolute.

        Args:
            locate: Makes a path absolute that is relative to the pipeline's file.
        """
        return locate_files(self, locate)


def read_ids(batch: Batch) -> Int64Array:
    """Read the schema id in front of each value of a batch, and move the cursors past it.

    Values without a schema id become undecided, so that the per-record decoder refuses them.

    Returns:
        One id for each value of the batch; the ids of undecided values mean nothing.
    """
    every = batch.every()
    batch.require(batch.fixed(1, every) == 0, every)
    # The id is big endian, and the cursor reads little endian.
    return (batch.fixed(FRAME_BYTES - 1, every).byteswap() >> 32).astype(np.int64)


def unframe(value: bytes) -> tuple[int, bytes]:
    """Split a value in Confluent's wire format into its schema id and the bytes after it.

    Raises:
        BadValue: The value does not begin with a byte 0 and an id.
    """
    if len(value) < FRAME_BYTES or value[0] != 0:
        start = f"starts with {value[:5].hex()} (hexadecimal)" if value else "is empty"
        reason = (
            f"there is no schema id in front of the value: it {start}, and does not begin with a "
            "byte 00 and four bytes of the id"
        )
        raise BadValue(reason)
    return int.from_bytes(value[1:5]), value[5:]
