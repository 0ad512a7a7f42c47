"""Comparison of a repair: the order in which both sides are read, and what ends it (TRUNCATE)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import duckdb
from deltalake import DeltaTable

from hybrid_extensions.cdc.compared.key_range import KeyRange
from hybrid_extensions.cdc.databases.kinds import access_to
from hybrid_extensions.comparison.duckdb_database import MEMORY_LIMIT, open_database
from hybrid_extensions.repair.asked_keys import ASKED, read_asked
from hybrid_extensions.repair.compared_rows import (
    load_source,
    log_end,
    range_condition,
    read_deletes,
    read_positions,
    read_source,
    read_target,
)
from hybrid_extensions.repair.differences import Asked, Differences, find_differences, summed
from hybrid_extensions.repair.positions import log_end_of, repair_version
from hybrid_extensions.repair.repairable_table import RepairedTable
from hybrid_extensions.repair.wait_for_live_run import wait_for_run
from sources.errors import StateError
from sources.storage.tables.delta import delta_table
from spark_jobs.run_state.truncate_position import read_truncated


class Limits(NamedTuple):
    """Rows that a repair is limited to; all by default.

    Attributes:
        where: SQL condition on the target's columns.
        keys: Keys, as :func:`~hybrid_extensions.repair.asked_keys.read_asked` reads them.
    """

    where: str | None = None
    keys: str | None = None


class Compared(NamedTuple):
    """Both sides, and what differs.

    Attributes:
        connection: DuckDB, with the rows to repair.
        opened: The version of the target that was compared.
        version: Position of the rows that are written.
        log_end: End of the log after the target was read, as a text.
        found: The differences.
    """

    connection: duckdb.DuckDBPyConnection
    opened: DeltaTable
    version: str
    log_end: str
    found: Differences


@contextmanager
def compare_sides(
    table: RepairedTable,
    within: timedelta,
    limits: Limits,
    say: Callable[[str], None],
) -> Iterator[Compared]:
    """Compare the target with a snapshot of the database, range by range of the key.

    Args:
        table: The table.
        within: How long to wait for transactions in flight, and for the live run.
        limits: Rows that the comparison is limited to.
        say: Called with a line of text for each step.

    Yields:
        Both sides, and the rows to repair in DuckDB, which is gone after the block.

    Raises:
        StateError: Transactions in flight have not ended in time, or a TRUNCATE came in between.
        RunError: The live run ended, or has not caught up in time.
        InputError: One of the two tables can't be read, or a limit is not valid.
        UnavailableError: The database, the broker or the store does not answer.
    """
    where, keys = limits
    options = table.captured.options
    say("Waiting for transactions in flight.")
    settled = access_to(options.dsn).settle_log(options, within.total_seconds())
    with (
        TemporaryDirectory(prefix="hybrid-repair-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        if keys is not None:
            read_asked(connection, table, keys)
        asked = Asked(where, keys is not None)

        def is_wanted(range_: KeyRange) -> bool:
            """Return whether a key that is asked for may be in a range."""
            if keys is None or range_.column not in table.key:
                return True
            in_range = f"SELECT 1 FROM {ASKED} WHERE {range_condition(range_)} LIMIT 1"
            found = connection.sql(in_range)
            return bool(found.fetchall())

        say(f"Reading `{table.captured.name}` of the database.")
        snapshot, ranges = read_source(connection, table, Path(scratch), is_wanted)
        wait_for_run(table, within, say)
        say("Reading the target.")
        opened = delta_table(table.target)
        read_deletes(connection, table)
        end = log_end(table)
        positions = read_positions(connection, table, opened)
        version = repair_version(connection, snapshot, settled, positions)
        require_no_truncate(table, version)
        found = []
        for each in ranges:
            condition = range_condition(each.within)
            load_source(connection, table, each.file)
            read_target(connection, table, opened, condition)
            differing = find_differences(connection, table, version, end, asked, condition)
            found.append(differing)
        yield Compared(connection, opened, version, log_end_of(end), summed(found))


def require_no_truncate(table: RepairedTable, version: str) -> None:
    """Refuse to continue after a TRUNCATE that the repair's snapshot may lack.

    Args:
        table: The table.
        version: Log position of the rows that the repair writes.

    Raises:
        StateError: The live run has met a TRUNCATE behind that position (transient), or the state
            is damaged.
        UnavailableError: The state's store does not answer.
    """
    truncated = read_truncated(table.context.generation)
    if truncated is not None and truncated.position > version:
        message = (
            f"`{table.captured.name}` was truncated while it was compared. Nothing was written."
        )
        hint = "Compare again: `hybrid repair P`."
        raise StateError(message, hint, transient=True, table=table.captured.name)
