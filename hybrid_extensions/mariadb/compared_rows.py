"""Rows of a MariaDB or MySQL table for comparisons, by its client program; zero dates are null."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from hybrid_extensions.cdc.compared.database_rows import AWAY_HINT
from hybrid_extensions.comparison.duckdb_database import duckdb_type, exact_cast
from hybrid_extensions.mariadb.server import (
    LOST,
    PASSWORD_VARIABLE,
    SILENCE_S,
    VERIFY_CA,
    Address,
    answers,
    parse_address,
)
from sources.common.environment import variable
from sources.common.schema import parse_type
from sources.common.sql.sql_names import in_backticks, literal, quoted
from sources.errors import InputError, UnavailableError

_CLIENTS = ("mariadb", "mysql")
_NUMBER = re.compile(r"^ERROR (\d+) ", re.MULTILINE)
_SILENT = "has sent nothing for"
_SETTINGS = "SET time_zone = '+00:00', sql_mode = ''"


def quote(name: str) -> str:
    """Return a name quoted for the database's SQL, in backticks."""
    return in_backticks(name)


def bound_after(dsn: str, table: str, column: str, where: str, rows: int) -> str | None:
    """Return a column's value a number of rows further on, as text; None at the table's end.

    Implements :meth:`hybrid_extensions.cdc.compared.database_rows.DatabaseRows.bound_after`.

    Args:
        dsn: Connection string of the database; the password is in MYSQL_PWD.
        table: Name of the table, ``database.table``.
        column: The column, by its name in the database.
        where: SQL condition of the rows that are counted, in ascending order of the column.
        rows: Number of rows to skip; 0 for the lowest value.

    Raises:
        InputError: The table can't be read, or there is no client program of the database.
        UnavailableError: The database does not answer, or ends the connection.
    """
    schema, _, name = table.partition(".")
    query = (
        f"SELECT {quote(column)} FROM {quote(schema)}.{quote(name)} WHERE {where} "
        f"ORDER BY {quote(column)} LIMIT {rows}, 1"
    )
    with TemporaryDirectory(prefix="hybrid-compare-") as scratch:
        file = Path(scratch) / "bound"
        _run(parse_address(dsn), table, query, file)
        return file.read_text().strip() or None


def write_rows(
    dsn: str, table: str, columns: Mapping[str, str], file: Path, where: str = "true"
) -> str:
    """Write rows of a table to a file with tabs; texts and bytes are hexadecimal.

    Implements :meth:`hybrid_extensions.cdc.compared.database_rows.DatabaseRows.write_rows`. Rows
    come in any order; zero dates are null, as Debezium reports them.

    Args:
        dsn: Connection string of the database; the password is in MYSQL_PWD.
        table: Name of the table, ``database.table``.
        columns: Columns to write and their Spark SQL types.
        file: Path of the file to write; an existing one is replaced.
        where: SQL condition of the rows.

    Returns:
        DuckDB's query of these rows, as values of their types.

    Raises:
        InputError: The table can't be read, or there is no client program of the database.
        UnavailableError: The database does not answer, or ends the connection.
    """
    address = parse_address(dsn)
    schema, _, name = table.partition(".")
    kinds = _kinds(address, table, file)
    expressions = [_written(column, kinds.get(column, "")) for column in columns]
    query = f"SELECT {', '.join(expressions)} FROM {quote(schema)}.{quote(name)} WHERE {where}"
    _run(address, table, query, file)
    values = [
        f"{_parsed(quoted(n), parse_type(kind), kinds.get(n, ''))} AS {quoted(n)}"
        for n, kind in columns.items()
    ]
    texts = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    return (
        f"SELECT {', '.join(values)} FROM read_csv({literal(str(file))}, header=false, "
        "auto_detect=false, delim='\t', quote='', escape='', nullstr='NULL', "
        f"max_line_size=67108864, columns={{{texts}}})"
    )


def _kinds(address: Address, table: str, file: Path) -> dict[str, str]:
    """Return the database's type of each column of a table."""
    schema, _, name = table.partition(".")
    query = (
        "SELECT HEX(column_name), data_type FROM information_schema.columns "
        f"WHERE table_schema = x'{schema.encode().hex()}' AND table_name = x'{name.encode().hex()}'"
    )
    _run(address, table, query, file)
    rows = [line.split("\t") for line in file.read_text().splitlines()]
    return {bytes.fromhex(column).decode(): kind.lower() for column, kind in rows}


def _written(column: str, kind: str) -> str:
    """Return SQL for a column in the form in which the client prints it."""
    name = quote(column)
    if kind in ("float", "double"):
        # Enough digits for each value to be itself again.
        return f"CAST({name} AS DOUBLE)"
    if kind in ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"):
        return name
    if kind in ("date", "datetime", "timestamp"):
        # A zero date is null to Debezium.
        return f"IF(MONTH({name}) = 0 OR DAYOFMONTH({name}) = 0, NULL, {name})"
    if kind == "time":
        return name
    if kind == "bit":
        return f"CAST({name} AS UNSIGNED)"
    if kind in ("geometry", "point", "linestring", "polygon") or kind.startswith(("multi", "geom")):
        # MySQL alone reads the comment: Debezium's longitude comes first in each reference system.
        return f"HEX(ST_AsWKB({name} /*!80000 , 'axis-order=long-lat' */))"
    if kind in ("binary", "varbinary") or kind.endswith("blob"):
        return f"HEX({name})"
    return f"HEX(CONVERT({name} USING utf8mb4))"


def _parsed(name: str, declared: pa.DataType, kind: str) -> str:
    """Return DuckDB's SQL that converts a column of the file to its declared type."""
    if pa.types.is_binary(declared):
        return f"unhex({name})"
    if kind == "json":
        return f"canonical_json(decode(unhex({name})))"
    if pa.types.is_string(declared) and kind != "decimal":
        return f"decode(unhex({name}))"
    if kind == "time":
        sign = f"CASE WHEN {name} LIKE '-%' THEN -1 ELSE 1 END"
        parts = f"string_split(ltrim({name}, '-'), ':')"
        seconds = f"CAST({parts}[3] AS DECIMAL(18,6))"
        whole = f"(CAST({parts}[1] AS BIGINT) * 3600 + CAST({parts}[2] AS BIGINT) * 60)"
        return f"CAST({sign} * ({whole} + {seconds}) * 1000000 AS {duckdb_type(declared)})"
    return exact_cast(name, declared)


def _run(address: Address, table: str, query: str, file: Path) -> None:
    """Let the database's client write the rows of a query to a file."""
    program = next((found for name in _CLIENTS if (found := shutil.which(name))), None)
    if program is None:
        message = (
            f"Comparing with `{table}` needs the program `mariadb` or `mysql`, and none is on the "
            "PATH."
        )
        hint = "Install MariaDB's or MySQL's client: the package mariadb-client of Debian."
        raise InputError(message, hint, table=table)
    command = [
        *(program, "--no-defaults", "--batch", "--quick", "--skip-column-names", "--raw"),
        *("--default-character-set=utf8mb4", f"--init-command={_SETTINGS}"),
        *("--protocol=TCP", f"--host={address.host}", f"--port={address.port}"),
        *(f"--user={address.user}", f"--execute={query}"),
        *_tls(address, Path(program).name),
    ]
    with (
        file.open("wb") as out,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            # The password is in MYSQL_PWD, never on the command line.
            env={**os.environ, PASSWORD_VARIABLE: variable(PASSWORD_VARIABLE) or ""},
        ) as client,
    ):
        try:
            text = _said(client, address, file)
        except BaseException:
            client.kill()
            raise
    if client.returncode:
        said = " ".join(text.split()).rstrip(".")
        message = f"Table `{table}` of the database {address.server} can't be read: {said}."
        if _is_away(text):
            raise UnavailableError(message, AWAY_HINT, table=table, server=address.server)
        hint = (
            "Correct `snapshot.dsn` or the topic's `table`, set MYSQL_PWD to the user's password, "
            "or grant SELECT on the table to the user."
        )
        raise InputError(message, hint, table=table, field="snapshot.dsn")


def _said(client: subprocess.Popen[bytes], address: Address, file: Path) -> str:
    """Return what a client has printed about errors, once it has ended.

    A query may take long, and the client itself knows no limit: after each two minutes without a
    row the server is asked on another connection whether it is there. If not, the client is killed.
    """
    written = 0
    while True:
        try:
            return client.communicate(timeout=SILENCE_S)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            before, written = written, file.stat().st_size
        if written == before and not answers(address):
            client.kill()
            return f"it {_SILENT} {SILENCE_S:g} s, nor does it answer another connection"


def _is_away(text: str) -> bool:
    """Return whether what a client has printed means that the server is gone, or was never there.

    A client prints the numbers that the driver has, too:
    https://mariadb.com/kb/en/mariadb-error-codes/.
    """
    found = _NUMBER.search(text)
    return _SILENT in text or (found is not None and int(found[1]) in LOST)


def _tls(address: Address, program: str) -> list[str]:
    """Return the options of a client program by which it checks the server's certificate alike."""
    if not address.tls:
        return []
    files = [f"--{name.replace('_', '-')}={path}" for name, path in address.tls.items()]
    if program == "mysql":
        return [*files, f"--ssl-mode={'VERIFY_IDENTITY' if address.checks_name else VERIFY_CA}"]
    return [*files, f"--{'' if address.checks_name else 'disable-'}ssl-verify-server-cert"]
