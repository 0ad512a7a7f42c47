"""Added columns of a MariaDB or MySQL table: their types, and their values in older rows.

The server forgets what rows got when a column was added. The statement that added it is in the
binary log, and the connector reports it in the topic of statements.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from hybrid_extensions.cdc.databases.captured_table import NewColumns, UnknownDefault, added_column
from hybrid_extensions.mariadb.log.schema_changes import SchemaChange, read_schema_changes
from hybrid_extensions.mariadb.log.statements import Alteration
from hybrid_extensions.mariadb.server import (
    connect,
    is_lost,
    parse_address,
    text_of,
)
from hybrid_extensions.mariadb.tables import describe_columns, describe_table
from sources.common.database_snapshot import BinlogSnapshot
from sources.common.optional import needs_extra
from sources.config.source.snapshot import SnapshotOptions
from sources.decoding.changes.added_columns import AddedColumn
from sources.errors import InputError, UnavailableError

with needs_extra("mariadb", "`on_schema_change` with MariaDB or MySQL"):
    from pymysql import Connection, MySQLError
    from pymysql.cursors import Cursor

# The statement is written to another topic than the change, which may be read first.
_ARRIVES_S = 10.0
_POLL_S = 0.5


def find_added_columns(new: NewColumns) -> dict[str, AddedColumn]:
    """Return type and default of columns that a table got after its snapshot, by name.

    The default is exact or refused: it is a constant of the statement that added the column, which
    the connector's topic of statements has to have; it is waited for up to 10 s.

    Args:
        new: The columns, their table, and how its database is reached.

    Raises:
        UnknownDefault: The value in older rows, or the column's type, can't be known; says why.
        InputError: The database, the broker or the schema registry refuses.
        UnavailableError: One of them does not answer.
    """
    statements = _statements(new)
    with asking(new.options, new.table) as connection:
        described = describe_table(connection, new.table)
        columns = describe_columns(connection, new.table)
    found = {}
    for name in new.names:
        kind = described.type_of(name)
        default = Alteration(statements[name].statement).value_of(columns[name])
        found[name] = added_column(name, kind, default)
    return found


def find_types(options: SnapshotOptions, table: str) -> dict[str, str]:
    """Return the present Spark SQL types of a table's columns, by name.

    Columns that can't be captured are left out.

    Args:
        options: How the database is reached.
        table: The table, ``database.table``.

    Raises:
        InputError: The database refuses, or has no such table.
        UnavailableError: The database does not answer.
    """
    with asking(options, table) as connection:
        return describe_table(connection, table).columns


def _statements(new: NewColumns) -> dict[str, SchemaChange]:
    """Return the statement that added each column, once the topic has it."""
    if not isinstance(new.snapshot, BinlogSnapshot):
        reason = "the position of the snapshot is not known"
        raise UnknownDefault(reason)
    deadline = time.monotonic() + _ARRIVES_S
    while True:
        changes = read_schema_changes(new.source, new.connector)
        found = statements_of(changes, new.snapshot, new)
        missing = [name for name in new.names if name not in found]
        if not missing:
            return found
        if time.monotonic() > deadline:
            reason = (
                f"topic `{new.connector}` has no statement that added `{missing[0]}`: the "
                "connector reports statements with `include.schema.changes=true`"
            )
            raise UnknownDefault(reason)
        time.sleep(_POLL_S)


def statements_of(
    changes: Sequence[SchemaChange],
    snapshot: BinlogSnapshot,
    new: NewColumns,
) -> dict[str, SchemaChange]:
    """Return the statement that added each column after a snapshot, by name of the column.

    Columns without a known statement are left out.

    Args:
        changes: All definitions of the table, and the statements that changed it, in order.
        snapshot: The snapshot.
        new: The columns.

    Raises:
        UnknownDefault: What older rows hold in a column can't be known.
    """
    before = [change for change in changes if change.is_in(snapshot)]
    if not before:
        reason = (
            "the topic of statements has no definition of the table from before the snapshot: its "
            "older records were deleted (create the topic with `retention.ms=-1`), or the "
            "connector did not report statements then"
        )
        raise UnknownDefault(reason)
    there, found = {*before[-1].columns}, dict[str, SchemaChange]()
    for change in (each for each in changes if not each.is_in(snapshot)):
        came = {*change.columns} - there
        _require_followed(change, came, there, {*new.names, *new.known} - {*new.renamed})
        for name in came:
            if name in found or name in before[-1].columns:
                _refuse_other(name, new)
            found[name] = change
        there = {*change.columns}
    for name in new.names:
        if name in before[-1].columns:
            reason = f"`{name}` was not added later: the table had it at the snapshot"
            raise UnknownDefault(reason)
    return {name: found[name] for name in new.names if name in found}


def _require_followed(
    change: SchemaChange, came: Collection[str], there: Collection[str], names: Collection[str]
) -> None:
    """Refuse a statement after which a column may hold what another one held before."""
    alteration = Alteration(change.statement)
    if change.is_read and came:
        reason = (
            "the connector read the table's definition from the server once more, so that the "
            "statement that changed it is not known"
        )
        raise UnknownDefault(reason)
    if change.is_read:
        return
    renamed, lower = {*alteration.renames().values()}, {name.lower() for name in names}
    # A column that is dropped and added by one statement; IF NOT EXISTS does nothing then.
    again = {
        name
        for name, column in alteration.added().items()
        if name in {each.lower() for each in there} and not column.args.get("exists")
    }
    if alteration.may_rename or (renamed | again) & lower:
        reason = (
            f"after the statement `{change.statement}` a column may hold what another one held "
            "under its name"
        )
        raise UnknownDefault(reason)


def _refuse_other(name: str, new: NewColumns) -> None:
    if name in new.names or name in new.known:
        reason = (
            f"a column `{name}` was dropped or renamed before this one was added, so that changes "
            "may hold another column's values under the same name"
        )
        raise UnknownDefault(reason)


@contextmanager
def asking(options: SnapshotOptions, table: str) -> Iterator[Connection[Cursor]]:
    """Connect to a database to ask for one table's columns, in the body of ``with``.

    Args:
        options: How the database is reached.
        table: The table, ``database.table``.

    Yields:
        The open connection, which ends with the block.

    Raises:
        InputError: The database refuses the login or a query of the body.
        UnavailableError: The database does not answer, or the connection is lost in the body.
    """
    address = parse_address(options.dsn)
    with connect(address, "snapshot") as connection:
        try:
            yield connection
        except MySQLError as error:
            message = (
                f"The database {address.server} could not be asked for the columns of table "
                f"`{table}`, as `on_schema_change: follow` needs: {text_of(error)}."
            )
            if is_lost(error):
                hint = (
                    "Start the database. The run has stopped before the change; if nothing starts "
                    "it again, run `hybrid resume P`."
                )
                raise UnavailableError(message, hint, server=address.server) from None
            hint = (
                f"Grant SELECT on `{table}` to the user that `snapshot.dsn` names. Then run "
                "`hybrid resume P`."
            )
            raise InputError(message, hint, server=address.server, table=table) from None
