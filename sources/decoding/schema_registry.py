"""Client of a Confluent schema registry, and the wire format of values that refer to its schemas.

Confluent's wire format puts in front of a value: a byte 0, the schema id as four bytes (big
endian), and, before a Protobuf message, the message indexes: the path of its type in the schema.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from pydantic import SecretStr, model_validator

from sources.common.conversion import BadValue
from sources.common.fields import Declared
from sources.common.login.security import locate_files
from sources.common.optional import needs_extra
from sources.decoding.batch_cursor import Batch, Int64Array
from sources.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

FRAME_BYTES = 5
TIMEOUT_S = 10.0
_NOT_FOUND, _TOO_MANY_REQUESTS, _SERVER_ERRORS = 404, 429, 500


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
        start = value[:5].hex() or "nothing"
        reason = (
            f"there is no schema id in front of the value: it starts with {start} (hexadecimal), "
            "not with a byte 00 and four bytes of the id"
        )
        raise BadValue(reason)
    return int.from_bytes(value[1:5]), value[5:]


@cache
def _client(registry: Registry) -> SchemaRegistryClient:
    """Return this process's client of a schema registry."""
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
    """Fetch an Avro schema and those that it refers to, as JSON; the schema itself is the last.

    Cached for the life of the process: a registry never changes the schema of an id.

    Raises:
        BadValue: The registry has no such schema, or it is not an Avro schema.
        InputError: The registry refuses the login or the request, or its client is not
            installed.
        UnavailableError: The registry does not answer.
    """
    client = _client(registry)
    root = _request(registry, schema_id, partial(client.get_schema, schema_id))
    if root.schema_type != "AVRO":
        reason = f"schema {schema_id} of the registry is of type {root.schema_type}, not AVRO"
        raise BadValue(reason)
    texts: dict[str, str] = {}

    def collect(schema: Any) -> None:
        for reference in schema.references or []:
            if reference.name not in texts:
                request = partial(client.get_version, reference.subject, reference.version)
                referenced = _request(registry, schema_id, request)
                collect(referenced.schema)
                texts[reference.name] = referenced.schema.schema_str

    collect(root)
    return [*texts.values(), root.schema_str]


def _request(registry: Registry, schema_id: int, send: Callable[[], Any]) -> Any:
    """Send a request to a schema registry and translate its client's errors.

    Raises:
        BadValue: The registry does not have what is asked for (404).
        InputError: It refuses (any other 4xx).
        UnavailableError: It does not answer, or reports a failure of its own (5xx, 429).
    """
    from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: PLC0415

    url = registry.url
    try:
        return send()
    except SchemaRegistryError as error:
        status = error.http_status_code
        if status == _NOT_FOUND:
            reason = f"the registry has no schema {schema_id} ({url})"
            raise BadValue(reason) from None
        if status >= _SERVER_ERRORS or status == _TOO_MANY_REQUESTS:
            message = (
                f"The schema registry {url} reports a failure: {error.error_message} (HTTP "
                f"{status}), when asked for schema {schema_id}."
            )
            hint = (
                "Wait until the registry works again, or repair it, then run the same step again."
            )
            raise UnavailableError(message, hint, server=url) from None
        message = (
            f"The schema registry {url} refuses the request: {error.error_message} (HTTP "
            f"{status}), when asked for schema {schema_id}."
        )
        hint = (
            "Correct `registry.username` and `registry.password`, or grant this user the "
            "permission to read schemas."
        )
        raise InputError(message, hint, server=url, field="registry") from None
    # The client passes on whatever its HTTP library raises.
    except Exception as error:
        message = f"The schema registry {url} can't be reached: {type(error).__name__}."
        hint = (
            "Start the registry, or correct `registry.url`; with TLS also `registry.ca`, "
            "`certificate` and `key`."
        )
        raise UnavailableError(message, hint, server=url, field="registry.url") from None
