"""Rows of a Delta table for a comparison: which generation's they are, and comparable types."""

from __future__ import annotations

import re
from dataclasses import replace

import duckdb
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hybrid_extensions.comparison.copied_rows import copy_rows
from hybrid_extensions.comparison.duckdb_database import FLOATING, INTEGERS
from sources.common.sql.sql_names import column_list
from sources.config.loader import KeptDefinition, LoadedPipeline
from sources.errors import StateError
from sources.serving import declared_generation, read_serving
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table, is_delta_table, unreadable_table

_NUMBERS = {*FLOATING, *INTEGERS, "DECIMAL"}


def open_target(table: Folder) -> DeltaTable | None:
    """Open the Delta table of a folder with delta-rs, without Spark.

    Returns:
        None if there is no Delta table.

    Raises:
        UnavailableError: The store does not answer, so it is not known whether there is a table.
        InputError: There is a Delta table, but its Delta log can't be read, or it uses a feature
            that delta-rs does not know; or the store refuses.
    """
    try:
        return delta_table(table) if is_delta_table(table) else None
    except (DeltaError, OSError) as error:
        repair = "Restore the files of its `_delta_log` from a backup, then try again."
        what = f"The target table {table} can't be read"
        raise unreadable_table(what, table, error, repair) from None


def of_one_generation(loaded: LoadedPipeline) -> LoadedPipeline:
    """Return a declaration as that of the generation that it is about now.

    A pipeline's own file is about the newest one: another one may be begun while tables are read.
    Unchanged if nothing was planned, or it is of a generation already.
    """
    name = declared_generation(loaded)
    if loaded.kept is not None or name is None:
        return loaded
    return replace(loaded, kept=KeptDefinition(generation=name, home=str(loaded.folder)))


def require_own_rows(loaded: LoadedPipeline) -> None:
    """Refuse to look at rows of a generation that another one has replaced in the target.

    Those of the other one would be taken for its own.

    Args:
        loaded: The pipeline, by the declaration of the generation.

    Raises:
        StateError: Another generation serves in its place; or the state is damaged.
        UnavailableError: The state's store does not answer.
    """
    name, serving = declared_generation(loaded), read_serving(loaded)
    if name is None or serving.served(name) is None:
        return
    message = (
        f"Generation {name} of pipeline `{loaded.pipeline.name}` served before: the table has the "
        f"rows of {serving.generation} by now, which say nothing about those of {name}."
    )
    hint = f"Leave out `--generation {name}` for the rows of {serving.generation}."
    if serving.before[-1].generation == name:
        hint = f"{hint} Or let readers see those of {name} again: `hybrid generation rollback P`."
    raise StateError(message, hint, pipeline=loaded.pipeline.name, generation=name)


def create_target_rows(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    target: DeltaTable,
    columns: list[str],
    most: int | None = None,
) -> None:
    """Copy some columns of the rows of a Delta table into the DuckDB table ``audit.<name>``.

    Args:
        connection: The audit's database.
        name: Name of the new table in the schema ``audit``.
        target: The Delta table.
        columns: Names of the columns.
        most: Largest number of rows; None for all of them.

    Raises:
        InputError: A file of the Delta table is missing or can't be read, or a map of it has a key
            twice.
        UnavailableError: The login to the store has expired.
    """
    # delta-rs's Arrow dataset refuses deletion vectors, and reads mapped columns as nulls.
    limit = "" if most is None else f" LIMIT {most}"
    query = f"SELECT {column_list(columns)} FROM target{limit}"
    copy_rows(connection, f"audit.{name}", target, query)


def comparable_as(kind: str) -> str:
    """Return the name of a group of DuckDB types that can be compared with each other.

    ``number``, ``timestamp`` and ``list`` are groups; any other type is a group by its own name.
    """
    if kind.endswith("]"):
        return "list"
    head = re.split("[( ]", kind, maxsplit=1)[0]
    if head in _NUMBERS:
        return "number"
    return "timestamp" if head.startswith("TIMESTAMP") else head
