"""Judgment of reported DDL statements: table dropped or altered, columns NOT NULL or narrowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hybrid_extensions.cdc.databases.altered_table import Names, NarrowedColumn, RequiredColumn
from hybrid_extensions.cdc.databases.captured_table import UnknownDefault
from hybrid_extensions.cdc.databases.kafka_connect import without_passwords
from hybrid_extensions.mariadb.catalog_definition import judge_definitions
from hybrid_extensions.mariadb.log.schema_changes import SchemaChange
from hybrid_extensions.mariadb.log.statement_effects import effect_on, formulas, reused_names
from sources.common.database_snapshot import BinlogSnapshot
from sources.common.table_definition import BinlogDefinition


class JudgedStatements(NamedTuple):
    """Combined effect of some statements on a table.

    Attributes:
        stated: Its definition after them; None if that is not known.
        altered: The first one that altered rows, with what it did, as a predicate; None if none.
        required: Columns that became NOT NULL.
        narrowed: Columns that were narrowed, which is ignored.
    """

    stated: BinlogDefinition | None
    altered: tuple[SchemaChange, str] | None
    required: list[RequiredColumn]
    narrowed: list[NarrowedColumn]


def judge(
    statements: Sequence[SchemaChange],
    table: str,
    names: Names,
    snapshot: BinlogSnapshot,
    stated: BinlogDefinition | None,
) -> JudgedStatements:
    """Judge what DDL statements did to a table, up to the first one that altered rows.

    A pure function. Statements that the snapshot contains only update the table's definition.

    Args:
        statements: The statements, in order.
        table: The table, ``database.table``.
        names: Names of its captured columns.
        snapshot: Position of its snapshot, which contains what earlier statements did.
        stated: Definition of the table before them; None if that is not known.
    """
    required, narrowed = [], list[NarrowedColumn]()
    for change in statements:
        if not is_in(change, snapshot):
            what = None if change.is_read else _effect(change, table, names, stated)
            if what is None and stated is not None and change.definition is not None:
                ignored, what = judge_definitions(stated, change.definition, names, change.at_ms)
                narrowed += ignored
            if what is not None:
                return JudgedStatements(change.definition, (change, what), [], narrowed)
            required += [
                RequiredColumn(
                    table=table,
                    column=name,
                    statement=without_passwords(change.statement) or None,
                    since_ms=change.at_ms,
                )
                for name in newly_required(stated, change.definition, names)
            ]
        stated = change.definition or stated
    return JudgedStatements(stated, None, required, narrowed)


def newly_required(
    before: BinlogDefinition | None, after: BinlogDefinition | None, names: Names
) -> list[str]:
    """Return the columns that became NOT NULL, by their names in the ``schema``; maybe none.

    Args:
        before: The table before; None, for no result, if it is not known.
        after: The table after; None, for no result, if it is not known.
        names: Names of the captured columns.
    """
    if before is None or after is None:
        return []
    return [
        name
        for name, (old, new) in names.in_both(before.columns, after.columns).items()
        if before.columns[old].is_nullable and not after.columns[new].is_nullable
    ]


def _effect(
    change: SchemaChange, table: str, names: Names, stated: BinlogDefinition | None
) -> str | None:
    """Return what a statement did to a table by its kind and its text."""
    if change.kind == "DROP":
        return "was dropped"
    if change.kind == "CREATE":
        return "is a different table now: it was created again"
    if (what := effect_on(table, change.statement, change.database)) is not None:
        return what
    if change.kind != "ALTER" or change.definition is None:
        return None
    there = {*change.definition.columns}
    came = set() if stated is None else there - {*stated.columns}
    reused = {name for name in there if name.casefold() in reused_names(change.statement)}
    for name in sorted((came | reused) & {*names.columns}):
        return f"has another column named `{name}`: it was dropped and added, or renamed"
    for name in sorted(there & {*names.columns}):
        if name.casefold() in formulas(change.statement):
            return f"has another formula for column `{name}`, so that rows have other values"
    return None


def is_in(change: SchemaChange, snapshot: BinlogSnapshot) -> bool:
    """Return whether a snapshot was taken after a statement, and so contains its effect.

    By GTIDs; by files and offsets of the log if the statement has none.
    """
    try:
        return change.is_in(snapshot)
    except UnknownDefault:
        return (change.file, change.offset) < (snapshot.file, snapshot.offset)
