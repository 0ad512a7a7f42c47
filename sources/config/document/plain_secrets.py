"""Refusal of secrets that are written in plain text in a pipeline's file.

What else keeps secrets out of files, logs and messages:

- :class:`~sources.config.source.kafka_options.KafkaProperties` refuses client settings that carry
  one.
- :class:`sources.common.fields.Declared` hides inputs in Pydantic's errors, and
  :mod:`sources.config.document.declaration_errors` shows none that may hold a password.
- :mod:`sources.common.login.security` has them as ``SecretStr``;
  :mod:`spark_jobs.launch.submission.spark_properties` lets Spark hide them in query plans.
- :func:`sources.state.generation.digests`: the state has digests of the declaration, no values.
- ``hybrid_extensions.report.redaction`` removes them from reports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sources.config.database_kind import kind_of
from sources.config.document.variables_in_texts import VARIABLE
from sources.errors import InputError

_SECRETS = {
    "client_secret": "KAFKA_CLIENT_SECRET",
    "password": "KAFKA_PASSWORD",
    "key_password": "KAFKA_KEY_PASSWORD",
    "webhook": "SUPERVISION_WEBHOOK",
}
"""Fields that hold a secret, and the environment variable that messages propose for each."""
# `scheme://user:password@host`, where the password is no reference.
_LOGIN = re.compile(r"://[^/?#\s:@]*:(?!\$\{)[^/?#\s@]+@")
# A field with a check of its own, which names the variable that its password belongs in.
_DSN = "dsn"
# A password may have slashes, although it should not in a URL.
_IN_DSN = re.compile(r"password\s*=|://[^?#\s@]*:[^?#\s]*@", re.IGNORECASE)
# Inside of these fields, keys are names of columns.
_COLUMNS = {"schema", "columns"}


def check_secrets_come_from_environment(raw_document: object) -> None:
    """Refuse secrets that are written in plain text in a pipeline's file.

    The first one found is refused. Not looked into are ``schema`` and ``columns``, whose keys are
    names of columns, and ``dsn``, which :func:`without_password` checks.

    Args:
        raw_document: The YAML document, before ``${NAME}`` is replaced.

    Raises:
        InputError: A ``password``, ``key_password``, ``client_secret`` or ``webhook`` has a value
            without ``${NAME}``, or a ``${NAME:-default}`` whose default is not empty; or a URL has
            a password in it. Names the field, never the value.
    """
    _check_secrets(raw_document, "")


def without_password(dsn: str) -> str:
    """Return a connection string unchanged; refuse one that contains a password.

    Raises:
        ValueError: It contains a password.
        InputError: It does, and no installed extension captures tables of such databases.
    """
    if _IN_DSN.search(dsn):
        message = (
            "`dsn` contains a password, which must not be in the file. Remove the password from "
            f"`dsn`, and set the environment variable {kind_of(dsn).password}."
        )
        raise ValueError(message)
    return dsn


def _check_secrets(value: object, where: str) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in _COLUMNS:
                continue
            place = f"{where}.{key}" if where else str(key)
            if key in _SECRETS and item is not None and _is_written_out(item):
                message = f"`{place}` is written in plain text in the file."
                hint = (
                    f"Replace the value by `${{{_SECRETS[key]}}}`, and set that variable in the "
                    "environment; change the secret if others can read the file."
                )
                raise InputError(message, hint, field=place)
            if key not in (*_SECRETS, _DSN):
                _check_secrets(item, place)
    elif isinstance(value, str):
        _check_login(value, where)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_secrets(item, f"{where}[{number}]")


def _check_login(url: str, where: str) -> None:
    """Refuse a URL with a password: it would be in messages, command lines and metadata."""
    if _LOGIN.search(url) is None:
        return
    message = f"`{where}` is a URL with a password in it."
    hint = (
        "Remove `user:password@` from the URL. Logins have fields or environment variables of "
        "their own, which `docs/security.md` lists; change the password if others can read the "
        "file."
    )
    raise InputError(message, hint, field=where)


def _is_written_out(value: object) -> bool:
    if not isinstance(value, str):
        return True
    references = list(VARIABLE.finditer(value))
    return not references or any(reference[2] for reference in references)
