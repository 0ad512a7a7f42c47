"""Optional packages, which only an extra of this project installs; the error if one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from sources.errors import InputError

MODULES = {
    "avro": "fastavro",
    "databricks": "databricks.sdk",
    "hdfs": "hdfs_native",
    "lake": "pyiceberg",
    "lineage": "openlineage.client",
    "mariadb": "pymysql",
    "metrics": "prometheus_client",
    "msk": "aws_msk_iam_sasl_signer",
    "plots": "matplotlib",
    "postgres": "psycopg",
    "redis": "redis",
    "registry": "confluent_kafka.schema_registry",
}
"""What each extra of ``pyproject.toml`` makes importable."""


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Turn a failed import in the body of ``with`` into an error that says what to install.

    Args:
        extra: Name of the extra (optional dependencies in ``pyproject.toml``) that installs the
            package.
        what: Which part of a pipeline or command needs the package; begins the error's sentence.

    Raises:
        InputError: The body raised an ImportError; names the extra.
    """
    try:
        yield
    except ImportError as error:
        message = f"{what} needs a Python package that can't be imported here: {error}."
        hint = f"Install it where this command ran: `pip install 'hybrid-backfill[{extra}]'`."
        raise InputError(message, hint, extra=extra) from None


def require_extra(extra: str, what: str) -> None:
    """Refuse a part of a pipeline whose optional Python package can't be imported.

    Imports the package, so that a later use fails neither.

    Args:
        extra: Name of the extra that installs the package, such as ``avro``: one of
            :data:`MODULES`.
        what: Which part of a pipeline or command needs the package; begins the error's sentence.

    Raises:
        InputError: The package can't be imported; names the extra.
    """
    with needs_extra(extra, what):
        import_module(MODULES[extra])
