"""Columns that are gone from a change of a MariaDB or MySQL table: dropped or renamed.

The statements between the snapshot and the change decide: the connector reports them with their
positions in the log, so that the names of that moment are known.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hybrid_extensions.cdc.databases.captured_table import GoneColumns, UnknownDefault
from hybrid_extensions.mariadb.log.gtid import parse_gtids
from hybrid_extensions.mariadb.log.schema_changes import SchemaChange, read_schema_changes
from hybrid_extensions.mariadb.log.statements import Alteration
from sources.common.database_snapshot import BinlogSnapshot, file_position, gtid_position

# The statement is written to another topic than the change, which may be read first.
_ARRIVES_S = 10.0
_POLL_S = 0.5


def find_gone_columns(asked: GoneColumns) -> dict[str, str | None]:
    """Return the new name of each column that a change lacks; None for one that was dropped.

    The connector's topic of statements decides; a statement that is not there yet is waited for up
    to 10 s.

    Args:
        asked: The columns, their table, and how its database is reached.

    Raises:
        UnknownDefault: What became of a column can't be known; says why.
        InputError: There is no topic of statements, or the broker or the schema registry refuses.
        UnavailableError: The broker or the schema registry does not answer.
    """
    snapshot, position = asked.new.snapshot, asked.position
    if not isinstance(snapshot, BinlogSnapshot) or position is None:
        reason = "the position of the snapshot or of the change is not known"
        raise UnknownDefault(reason)
    deadline = time.monotonic() + _ARRIVES_S
    while True:
        changes = read_schema_changes(asked.new.source, asked.new.connector)
        names = names_at(changes, snapshot, position)
        seen = {name for name in names.values() if name is not None}
        if seen >= {*asked.present.values()} and not seen & {*asked.gone.values()}:
            return _found(names, asked)
        if time.monotonic() > deadline:
            reason = (
                f"the statements in topic `{asked.new.connector}` do not lead to the columns of "
                "the change: the connector reports them with `include.schema.changes=true`"
            )
            raise UnknownDefault(reason)
        time.sleep(_POLL_S)


def _found(names: dict[str, str | None], asked: GoneColumns) -> dict[str, str | None]:
    """Return the present names of the columns that a change lacks, by those in the ``schema``.

    None stands for a dropped column. Raises UnknownDefault if the change contradicts ``names``.
    """
    for name, now in asked.present.items():
        if names.get(name, now) != now:
            reason = f"column `{now}`, which the change has, is another one than before"
            raise UnknownDefault(reason)
    found = {}
    for name in asked.gone:
        if name not in names:
            reason = f"`{name}` is no column of the table at its snapshot"
            raise UnknownDefault(reason)
        found[name] = names[name]
        if names[name] is not None and names[name] not in asked.new.names:
            reason = f"`{name}` is `{names[name]}` by the statements, which the change lacks"
            raise UnknownDefault(reason)
    return found


def names_at(
    changes: Sequence[SchemaChange], snapshot: BinlogSnapshot, position: str
) -> dict[str, str | None]:
    """Return the name that each column of a table has at a position of the log.

    Args:
        changes: All definitions of the table, and the statements that changed it.
        snapshot: The snapshot.
        position: The position, as that of a change.

    Returns:
        By the first name of the column, at the snapshot or as it was added; None if it was dropped.

    Raises:
        UnknownDefault: A statement is not understood, or the first definition is not known.
    """
    before = [change for change in changes if change.is_in(snapshot)]
    if not before:
        reason = (
            "the topic of statements has no definition of the table from before the snapshot: its "
            "older records were deleted, or the connector did not report statements then"
        )
        raise UnknownDefault(reason)
    names: dict[str, str | None] = {name: name for name in before[-1].columns}
    for change in changes:
        if not change.is_in(snapshot) and (change.is_read or _is_before(change, position)):
            names = _after(change, names)
    return names


def _is_before(change: SchemaChange, position: str) -> bool:
    """Return whether a statement was executed before a change of a row."""
    if not position.startswith("g"):
        return file_position(change.file, change.offset) < position
    for each in parse_gtids(change.gtid):
        begin = gtid_position(each.domain, each.sequence, 0, 0)
        # The number of the domain comes first.
        if begin[:11] == position[:11]:
            return begin < position
    reason = f"the place of the statement `{change.statement}` in the log is not known"
    raise UnknownDefault(reason)


def _after(change: SchemaChange, names: dict[str, str | None]) -> dict[str, str | None]:
    """Return the names of a table's columns after a statement."""
    there = {name for name in names.values() if name is not None}
    if there == {*change.columns} and change.is_read:
        return names
    alteration = Alteration(change.statement)
    if change.is_read or change.kind != "ALTER":
        reason = "the statement that changed the table's columns is not known"
        raise UnknownDefault(reason)
    if alteration.is_known is False and (there != {*change.columns} or alteration.may_rename):
        reason = f"the statement `{change.statement}` is not sure to be understood"
        raise UnknownDefault(reason)
    renames, own = alteration.renames(), {name.lower(): name for name in change.columns}
    again = {name for name, each in alteration.added().items() if not each.args.get("exists")}
    made: dict[str, str | None] = {}
    for first, name in names.items():
        if name is None:
            made[first] = None
        elif (new := renames.get(name.lower())) is not None:
            made[first] = own.get(new)
        else:
            made[first] = name if name in change.columns and name.lower() not in again else None
    for name in {*change.columns} - {*made.values()}:
        if name in made:
            reason = f"a column `{name}` was dropped or renamed before this one was added"
            raise UnknownDefault(reason)
        made[name] = name
    return made
