"""Keys to which a repair is limited: a list in JSON, or a file in CSV or Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hybrid_extensions.comparison.duckdb_database import duckdb_type
from hybrid_extensions.repair.repairable_table import RepairedTable
from sources.common.conversion import short_repr
from sources.common.counting import counted
from sources.common.schema import parse_type
from sources.common.sql.sql_names import column_list, literal, quoted
from sources.errors import InputError

ASKED = "audit.asked"
"""DuckDB table of the keys, with the columns of the key."""


def read_asked(connection: duckdb.DuckDBPyConnection, table: RepairedTable, given: str) -> None:
    """Read the keys that a repair is limited to into :data:`ASKED`.

    A key that is there twice counts once; one that the table lacks is not refused.

    Args:
        connection: DuckDB.
        table: The table.
        given: Path of a CSV or Parquet file with the columns of the key, by name; or the keys as
            JSON, separated by commas: values, or lists of values if the key has several columns.

    Raises:
        InputError: They are no keys of the table.
    """
    types = {name: duckdb_type(parse_type(table.columns[name])) for name in table.key}
    casts = ", ".join(f"CAST({quoted(n)} AS {kind}) AS {quoted(n)}" for n, kind in types.items())
    try:
        if not _is_file(given):
            connection.register("_asked", _listed(table, given))
            rows = "_asked"
        elif given.endswith(".parquet"):
            rows = f"read_parquet({literal(given)})"
        else:
            rows = f"read_csv({literal(given)}, header = true, all_varchar = true)"
        connection.execute(f"CREATE TABLE {ASKED} AS SELECT DISTINCT {casts} FROM {rows}")
    except (duckdb.Error, ValueError) as error:
        names, why = ", ".join(table.key), str(error).rstrip(".")
        if isinstance(error, json.JSONDecodeError):
            why = (
                f"{short_repr(given)} is neither a file nor a list in JSON, in which a text is in "
                'double quotes (`"x"`)'
            )
        message = (
            f"`--keys` can't be read as keys of the table, which have {names}: {why}. Nothing was "
            "repaired."
        )
        example = "[1, 2], [1, 3]" if len(table.key) > 1 else "3, 5"
        hint = (
            f"Name a CSV or Parquet file that has the columns {column_list(table.key)}, or list "
            f"keys as JSON: `--keys '{example}'`."
        )
        raise InputError(message, hint, field="keys") from None


def _is_file(given: str) -> bool:
    try:
        return Path(given).is_file()
    except OSError:
        # A list of keys may be longer than a path.
        return False


def _listed(table: RepairedTable, given: str) -> pa.Table:
    """Return keys that are listed as JSON, as texts.

    Raises:
        ValueError: It is no JSON, or a key has another number of values.
    """
    read: list[Any] = json.loads(f"[{given}]", parse_int=str, parse_float=str)
    keys = [each if isinstance(each, list) else [each] for each in read]
    wrong = [each for each in keys if len(each) != len(table.key)]
    if wrong or not keys:
        found = f"one that is listed is {json.dumps(wrong[0])}" if wrong else "none is listed"
        message = f"a key has {counted(len(table.key), 'value')}, and {found}"
        raise ValueError(message)
    columns = zip(*keys, strict=True)
    arrays = [
        pa.array([None if value is None else str(value) for value in values], pa.string())
        for values in columns
    ]
    return pa.table(arrays, names=table.key)
