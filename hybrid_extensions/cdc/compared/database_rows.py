"""Interface of readers of a database's rows for comparisons, one for each kind of database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

AWAY_HINT = (
    "Start the server if it is down, or correct host and port in `snapshot.dsn`; then try again."
)
"""What to do about a database that does not answer, or ends the connection."""


class DatabaseRows(Protocol):
    """Interface for reading rows of a kind of database with its own tool, for comparisons.

    One implementation for each kind of database, from its extension.
    """

    def quote(self, name: str) -> str:
        """Return a name quoted for the database's SQL. Never fails."""

    def write_rows(
        self, dsn: str, table: str, columns: Mapping[str, str], file: Path, where: str
    ) -> str:
        """Write rows of a table to a new local file, and return a DuckDB query that reads it.

        The format of the file is the implementation's choice; the query returns the columns by
        their names, in the DuckDB types that Spark's have.

        Args:
            dsn: Connection string of the database.
            table: Name of the table, ``schema.table``.
            columns: Columns by their names in the database, and their Spark SQL types.
            file: Path of the file to write.
            where: Condition in the database's SQL; ``true`` for all rows.

        Raises:
            InputError: The table can't be read, as without permission.
            UnavailableError: The database does not answer, or ends the connection.
        """

    def bound_after(self, dsn: str, table: str, column: str, where: str, rows: int) -> str | None:
        """Return a column's value, as text, a number of rows further on; None at the table's end.

        Args:
            dsn: Connection string of the database.
            table: Name of the table, ``schema.table``.
            column: The column, by its name in the database.
            where: Condition in the database's SQL of the rows that are counted, in ascending order
                of the column.
            rows: Number of rows to skip; 0 for the lowest value.

        Raises:
            InputError: The table can't be read, as without permission.
            UnavailableError: The database does not answer, or ends the connection.
        """
