"""Alterations of a captured table that no change event reports, and their records in the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pydantic import Field

from sources.common.positions import Offsets, Part, Record, iso
from sources.common.table_definition import TableDefinition
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.changes.renamed_columns import all_names
from sources.errors import InputError
from sources.state.generation import Generation

_NAME = "run/table-watch.json"
_ANEW = (
    "Take a new snapshot into another folder, and begin a new generation with it: write another "
    "`path` for the snapshot's files (in a file with `tables`: `snapshot` below "
    "`overrides` of the table); then run `hybrid rerun P`. Readers see the old table until then. "
    "Or, if no row has changed: once `hybrid compare P` finds no difference, run "
    "`hybrid resume P`."
)
_REDEFINED = (
    "First correct `schema` and `sink.key` (in a file with `tables`: remove the table's own file, "
    "and run `hybrid tables P`)."
)


class AlteredTable(Part):
    """Finding, kept in the state: a captured table was altered in a way that no change reports.

    Attributes:
        table: The table, ``schema.table`` or ``database.table``.
        what: What was found, as a sentence.
        way: What to do about it, as sentences.
        statement: The statement, as the database's log has it; None if it is not known.
        since_ms: When it was executed, in ms since 1970; None if that is not known.
        found_ms: When it was found.
    """

    table: str
    what: str
    way: str
    statement: str | None = None
    since_ms: int | None = None
    found_ms: int

    def error(self) -> InputError:
        """Return the error to raise for a run of this table."""
        since = f"found at {iso(self.found_ms)}" if self.since_ms is None else iso(self.since_ms)
        by = "" if self.statement is None else f" Statement: `{self.statement}`."
        message = (
            f"{self.what} ({since}).{by} No change event reports this, so the target may differ "
            "from the database since then, and the run of this table stops."
        )
        return InputError(message, self.way, table=self.table)


def alteration_of(
    table: str, predicate: str, found_ms: int, *, is_redefined: bool = False
) -> AlteredTable:
    """Return the finding that a table was altered.

    Args:
        table: The table.
        predicate: What was done, such as ``is a different table now``.
        found_ms: Now, in ms since 1970.
        is_redefined: Whether columns or key are no longer those that are declared.
    """
    way = f"{_REDEFINED} {_ANEW}" if is_redefined else _ANEW
    return AlteredTable(
        table=table,
        what=f"Table `{table}` of the database {predicate}",
        way=way,
        found_ms=found_ms,
    )


def alteration_by_refusal(table: str, refused: InputError, found_ms: int) -> AlteredTable:
    """Return the finding that a new snapshot of a table would be refused.

    Args:
        table: The table.
        refused: Why.
        found_ms: Now, in ms since 1970.
    """
    return AlteredTable(
        table=table,
        what=refused.message.rstrip("."),
        way=f"{refused.hint} {_ANEW}",
        found_ms=found_ms,
    )


class RequiredColumn(Part):
    """A column that became NOT NULL, so that rows may have got other values.

    Attributes:
        table: The table, ``database.table``.
        column: Its name in the ``schema``.
        statement: The statement; None if it is not known.
        since_ms: When it was executed, or first seen, in ms since 1970.
        ends: Up to where the topic of changes has those from before it; None if not known yet.
    """

    table: str
    column: str
    statement: str | None = None
    since_ms: int
    ends: Offsets | None = None


class TableWatch(Record):
    """State document of a generation: result of the last inspection of the captured table.

    Attributes:
        looked_ms: When that was, in ms since 1970.
        definition: The table in the catalog; None if it was never seen.
        stated: The table after the last statement that the connector has reported; None if none
            was read, and for PostgreSQL.
        statements: Up to where the topic of statements is read.
        required: Columns that became NOT NULL, while the target has nulls in them.
        prefix: Prefix of the connector's topics, as the connector told; None if it never did.
        gap: Why statements may never be known, as sentences; None if they are.
        unknown: Why the last look saw nothing; None if it did.
        altered: What was done to the table that no change reports; stays once it was found.
        long_files: Files of the binary log that are too long for the positions in them, and are
            known: a comparison has found no row that differs since.
    """

    looked_ms: int
    definition: TableDefinition | None = None
    stated: TableDefinition | None = None
    statements: Offsets = Field(default_factory=dict)
    required: list[RequiredColumn] = Field(default_factory=list)
    prefix: str | None = None
    gap: str | None = None
    unknown: str | None = None
    altered: AlteredTable | None = None
    long_files: list[str] = Field(default_factory=list)

    @property
    def doubt(self) -> str | None:
        """Reason why an alteration can't be ruled out; None if it can."""
        return self.unknown or self.gap


def read_table_watch(generation: Generation) -> TableWatch | None:
    """Return the result of the last inspection of a generation's captured table, or None.

    Raises:
        StateError: The document is damaged.
    """
    return generation.read(_NAME, TableWatch)


def keep_table_watch(generation: Generation, watch: TableWatch) -> None:
    """Write the result of an inspection, unless the state already records an alteration.

    Raises:
        StateError: The state can't be written.
    """
    before = read_table_watch(generation)
    if before != watch and (before is None or before.altered is None):
        generation.replace(_NAME, watch)


def withdraw_alteration(generation: Generation, watch: TableWatch) -> None:
    """Replace a recorded alteration by a new inspection, once the rows are known to be equal.

    Raises:
        StateError: The state can't be written.
    """
    generation.replace(_NAME, watch)


def require_unaltered(generation: Generation) -> None:
    """Refuse a captured table if an inspection has recorded an alteration of it.

    Raises:
        InputError: What it is, and what to do.
        StateError: The state can't be read.
    """
    watch = read_table_watch(generation)
    if watch is not None and watch.altered is not None:
        raise watch.altered.error()


class Names(NamedTuple):
    """Present and former names of a table's captured columns.

    Attributes:
        columns: Names in the ``schema``.
        table: The declaration, which knows other names of them, and columns that were added.
    """

    columns: Collection[str]
    table: DeclaredTable

    def found_in(self, columns: Mapping[str, object]) -> dict[str, str]:
        """Return each captured column's name in the table, by its name in the ``schema``.

        Those that the table does not have are left out.
        """
        found = {}
        for name in [*self.columns, *self.table.added_types]:
            names = [name, *all_names(self.table.renamed_columns.get(name, []))]
            present = next((each for each in reversed(names) if each in columns), None)
            if present is not None:
                found[name] = present
        return found

    def in_both(
        self, before: Mapping[str, object], after: Mapping[str, object]
    ) -> dict[str, tuple[str, str]]:
        """Return names before and after of the columns that a table has at both times.

        Args:
            before: The table's columns by name.
            after: The same later.

        Returns:
            Both names, by the name in the ``schema``.
        """
        were, are = self.found_in(before), self.found_in(after)
        return {name: (old, are[name]) for name, old in were.items() if name in are}
