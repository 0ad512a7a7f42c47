"""Folder of a history table that is declared by its catalog name (`table`): only a Delta table."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hybrid_extensions.catalogs.spark.metastore import is_of_metastore
from sources.errors import HybridError, InputError, UnavailableError

_ABSENT = {"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"}
_DELTA = "delta"


def table_folder(spark: SparkSession, source: str, name: str) -> str:
    """Return the folder of a Delta table in Spark's catalog, as a path or URL to be declared.

    Only the catalog is asked: the table's store may need jars that are not there yet.

    Args:
        spark: Session whose catalog has the table.
        source: Name of the source, for messages.
        name: ``schema.table``.

    Raises:
        InputError: There is no such table, it is a view, or it is no Delta table.
        UnavailableError: The catalog does not answer.
    """
    schema, _, table = name.partition(".")
    session: Any = spark
    try:
        found = session._jsparkSession.sharedState().externalCatalog().getTable(schema, table)
    except PySparkException as error:
        raise refusal(source, name, error) from None
    kind = found.tableType().name()
    provider = found.provider().get() if found.provider().isDefined() else "Hive"
    if kind == "VIEW" or provider.lower() != _DELTA:
        what = "a view" if kind == "VIEW" else f"a table of format {provider}"
        message = (
            f"Source `{source}`: `table: {name}` is {what}; only a Delta table can be declared by "
            "name."
        )
        hint = "Name the Delta table itself, or declare the files by `path` and their `format`."
        raise InputError(message, hint, source=source, table=name)
    return declared_place(found.location().toString())


def refusal(source: str, name: str, error: PySparkException) -> HybridError:
    """Return the error to raise when the catalog failed: no such table, no answer, wrong settings.

    Args:
        source: Name of the source, for the message.
        name: ``schema.table``.
        error: What Spark raised.

    Returns:
        UnavailableError if the metastore does not answer; otherwise InputError.
    """
    reason = str(error).partition("\n")[0].rstrip(".; ")
    if error.getCondition() in _ABSENT:
        message = f"Source `{source}`: the catalog of Spark's session has no table {name}."
        hint = (
            "Correct `table`; or set the catalog under `spark.conf` "
            "(`spark.sql.catalogImplementation: hive` and `spark.hadoop.hive.metastore.uris`); or "
            "declare the table's folder as `path`."
        )
        return InputError(message, hint, source=source, table=name)
    message = f"Source `{source}`: the catalog can't be asked about {name}: {reason}."
    if is_of_metastore(reason):
        hint = (
            "Check that the metastore runs and can be reached "
            "(`spark.conf: spark.hadoop.hive.metastore.uris`), then plan again; or declare the "
            "table's folder as `path`, which needs no catalog."
        )
        return UnavailableError(message, hint, source=source, table=name, server="metastore")
    hint = "Correct the catalog's settings under `spark.conf`, or declare the folder as `path`."
    return InputError(message, hint, source=source, table=name)


def declared_place(location: str) -> str:
    """Convert a table's location in the catalog (a URI) to the form that a pipeline declares.

    ``file:`` becomes a plain path, and ``s3a:`` becomes ``s3:``.
    """
    plain = unquote(location).rstrip("/")
    scheme, _, rest = plain.partition(":")
    if scheme == "file":
        return f"/{rest.lstrip('/')}"
    return f"s3:{rest}" if scheme == "s3a" else plain
