"""Packages that only an extra of this project installs, and the error where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from sources.errors import InputError

_MODULES = {
    "avro": "fastavro",
    "hdfs": "hdfs_native",
    "plots": "matplotlib",
    "postgres": "psycopg",
    "registry": "confluent_kafka.schema_registry",
}
"""What each extra of ``pyproject.toml`` makes importable."""


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Turn a failed import into an error that names the extra; goes around the import.

    Args:
        extra: Of ``pyproject.toml``: installs the package.
        what: Which part of a pipeline or command needs the package; begins the error's sentence.

    Raises:
        InputError: The import failed.
    """
    try:
        yield
    except ImportError as error:
        message = f"{what} needs a Python package that can't be imported here: {error}."
        hint = f"Install it: `pip install 'hybrid-backfill[{extra}]'`."
        raise InputError(message, hint) from None


def require_extra(extra: str, what: str) -> None:
    """Refuse what needs an extra that is not installed.

    Args:
        extra: A key of ``_MODULES``.
        what: As for :func:`needs_extra`.

    Raises:
        InputError: Its package can't be imported.
    """
    with needs_extra(extra, what):
        import_module(_MODULES[extra])
