"""Client of a Confluent schema registry: login, TLS, 10 s, what a 404 or 401 means; cached."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from sources.common.conversion import BadValue
from sources.common.optional import needs_extra
from sources.decoding.schema_registry import Registry
from sources.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

TIMEOUT_S = 10.0
_NOT_LET_IN = (401, 403)
_NOT_FOUND, _TOO_MANY_REQUESTS, _SERVER_ERRORS = 404, 429, 500


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
    own = f"schema {schema_id}"
    root = _request(registry, own, partial(client.get_schema, schema_id))
    if root.schema_type != "AVRO":
        reason = f"schema {schema_id} of the registry is of type {root.schema_type}, not AVRO"
        raise BadValue(reason)
    texts: dict[str, str] = {}

    def collect(schema: Any) -> None:
        for reference in schema.references or []:
            if reference.name not in texts:
                request = partial(client.get_version, reference.subject, reference.version)
                version = f"version {reference.version} of subject `{reference.subject}`"
                referenced = _request(registry, f"{version}, which {own} refers to", request)
                collect(referenced.schema)
                texts[reference.name] = referenced.schema.schema_str

    collect(root)
    return [*texts.values(), root.schema_str]


def _request(registry: Registry, what: str, send: Callable[[], Any]) -> Any:
    """Send a request to a schema registry and translate its client's errors.

    Args:
        registry: The registry.
        what: What is asked for, as the errors call it.
        send: Sends the request.

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
            reason = f"the registry has no {what} ({url})"
            raise BadValue(reason) from None
        if status >= _SERVER_ERRORS or status == _TOO_MANY_REQUESTS:
            message = (
                f"The schema registry {url} reports a failure: {error.error_message} (HTTP "
                f"{status}), when asked for {what}."
            )
            hint = (
                "Wait until the registry works again, or repair it, then run the same step again."
            )
            raise UnavailableError(message, hint, server=url) from None
        message = (
            f"The schema registry {url} refuses the request: {error.error_message} (HTTP "
            f"{status}), when asked for {what}."
        )
        hint = (
            "Correct `registry.username` and `registry.password`, or grant this user the "
            "permission to read schemas."
            if status in _NOT_LET_IN
            else "Correct `registry.url`, if it is not that of a schema registry; else ask whoever "
            "runs it."
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
