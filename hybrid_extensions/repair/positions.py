"""Position of a repair in the database's log, which decides what is newer than it.

A row of the target has the position of its change. Rows that a repair writes have one, too: it is
higher than those of all changes that the repair's snapshot contains for sure, and lower than those
of all others, so any of these wins, whenever it arrives.
"""

from __future__ import annotations

import duckdb

from sources.common.database_snapshot import BinlogSnapshot, DatabaseSnapshot

_HALF = 16
"""Hexadecimal digits of each half of PostgreSQL's positions."""
_BEHIND = ":"
"""What lets a repair's position sort right behind that of a change, and be that of none."""


def repair_version(
    connection: duckdb.DuckDBPyConnection, snapshot: DatabaseSnapshot, settled: int, positions: str
) -> str:
    """Return the log position of the rows that a repair writes, as text that sorts.

    It sorts behind all changes that the snapshot contains for sure, and before all others. No
    change has it itself.

    MariaDB and MySQL: the first position behind the snapshot. PostgreSQL: a snapshot is no
    position. It contains all changes that were written before ``settled``; a change's position is
    the end of the transaction that was committed before its own, then its place. A change that was
    written later is of a transaction whose predecessor ended at the last commit before ``settled``,
    or later. Of that commit only what the table's own rows tell is known: an earlier one does as
    well, as each position of the table then lies before it, too.

    Args:
        connection: DuckDB, which runs ``positions``.
        snapshot: The database snapshot whose rows were read.
        settled: PostgreSQL: LSN whose writers had all ended before the snapshot; else without
            effect.
        positions: SQL query of all positions of the table, as the column ``p``.
    """
    if isinstance(snapshot, BinlogSnapshot):
        return snapshot.beyond
    low = f"{settled:0{_HALF}x}"
    ends = f"SELECT substr(p, 1, {_HALF}) AS e FROM ({positions})"
    last = f"SELECT max(e) FROM ({ends}) WHERE e <= '{low}'"
    [(end,)] = connection.execute(last).fetchall()
    return f"{end or '0' * _HALF}{settled - 1:0{_HALF}x}{_BEHIND}"


def is_newer(position: str, version: str) -> str:
    """Return an SQL condition, never null, that a row or delete is newer than a repair.

    Args:
        position: SQL of the log position of the row; null, for a row of the snapshot, is older.
        version: Log position of the repair.
    """
    return f"coalesce({position} > '{version}', false)"


def is_impossible(position: str, log_end: DatabaseSnapshot) -> str:
    """Return an SQL condition, never null, that a position lies behind the end of the log.

    No change has such a position, and the row would win over all changes to come.

    Args:
        position: SQL of the position.
        log_end: A snapshot that was taken after the positions were read.
    """
    if isinstance(log_end, BinlogSnapshot):
        return is_newer(position, log_end.beyond)
    end = f"{log_end.lsn:0{_HALF}x}"
    own = f"substr({position}, {_HALF + 1})"
    return f"coalesce({position} >= '{end}' OR {own} >= '{end}', false)"


def log_end_of(log_end: DatabaseSnapshot) -> str:
    """Return the end of the database's log, by a snapshot of it, as text that sorts.

    It compares with the positions of changes in the target.
    """
    return log_end.beyond if isinstance(log_end, BinlogSnapshot) else f"{log_end.lsn:0{_HALF}x}"
