"""State document of the table watch: alterations that no change event reports stop a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from sources.common.positions import Offsets
from sources.common.state_document import Part, Record
from sources.common.table_definition import TableDefinition
from sources.common.times import iso
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
    """Record that a captured table was altered in a way that no change event reports.

    Attributes:
        table: The table, ``schema.table`` or ``database.table``.
        what: What was found, as a sentence.
        way: What to do about it, as sentences.
        statement: The SQL statement, as the database's log has it; None if it is not known.
        since_ms: When it was executed, in Unix milliseconds; None if that is not known.
        found_ms: When it was found, in Unix milliseconds.
    """

    table: str
    what: str
    way: str
    statement: str | None = None
    since_ms: int | None = None
    found_ms: int

    def error(self) -> InputError:
        """Return the error to raise to stop a run of this table: what was altered, the way on.

        It is not raised here.
        """
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
    """Make the record that a table was altered; writes nothing.

    Args:
        table: The table.
        predicate: What was done, such as ``is a different table now``.
        found_ms: Now, in Unix milliseconds.
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
    """Make the record that a table was altered so that a new snapshot of it would be refused.

    Writes nothing.

    Args:
        table: The table.
        refused: The error with which a snapshot is refused.
        found_ms: Now, in Unix milliseconds.
    """
    return AlteredTable(
        table=table,
        what=refused.message.rstrip("."),
        way=f"{refused.hint} {_ANEW}",
        found_ms=found_ms,
    )


class RequiredColumn(Part):
    """A captured column that became NOT NULL, so that nulls in it may have got other values.

    Attributes:
        table: The table, ``database.table``.
        column: Its name in the ``schema``.
        statement: The SQL statement; None if it is not known.
        since_ms: When it was executed, or first seen, in Unix milliseconds.
        ends: Log end of the topic of changes by which all earlier changes are in it; None if not
            known yet.
    """

    table: str
    column: str
    statement: str | None = None
    since_ms: int
    ends: Offsets | None = None


class NarrowedColumn(Part):
    """A column whose type no longer holds all values, which is ignored by declaration.

    Attributes:
        column: Its name in the ``schema``.
        before: The type that it had in the database.
        after: Its type since then, each value of which the one before holds.
        since_ms: When it was narrowed, or that was first seen, in ms since 1970.
    """

    column: str
    before: str
    after: str
    since_ms: int

    def __str__(self) -> str:
        """Return what was done, and what to do about rows, as sentences."""
        return (
            f"column `{self.column}` was narrowed from {self.before} to {self.after} in the "
            f"database ({iso(self.since_ms)}), which is ignored: rows that the statement altered "
            "keep their values in the target until they change. `hybrid compare P` finds them, and "
            "`hybrid repair P` writes them"
        )


class TableWatch(Record):
    """State document of a generation: result of the last inspection of the captured table.

    Attributes:
        looked_ms: When that was, in Unix milliseconds.
        definition: The table in the catalog; None if it was never seen.
        stated: The table after the last statement that the connector has reported; None if none was
            read, and for PostgreSQL.
        statements: Offsets up to which the connector's topic of SQL statements is read.
        required: Columns that became NOT NULL, while the target has nulls in them.
        narrowed: Columns that were narrowed, which is ignored; until a comparison finds no row
            that differs.
        prefix: Prefix of the connector's topics, as the connector reports it; None if unknown.
        gap: Why statements may never be known, as sentences; None if they are.
        unknown: Why the last inspection saw nothing; None if it did.
        altered: What was done to the table that no change reports; it stays once found. None if
            nothing.
        long_files: Files of the binary log that are longer than positions in it can say, but since
            which a comparison has found no differing row.
    """

    looked_ms: int
    definition: TableDefinition | None = None
    stated: TableDefinition | None = None
    statements: Offsets = Field(default_factory=dict)
    required: list[RequiredColumn] = Field(default_factory=list)
    narrowed: list[NarrowedColumn] = Field(default_factory=list)
    prefix: str | None = None
    gap: str | None = None
    unknown: str | None = None
    altered: AlteredTable | None = None
    long_files: list[str] = Field(default_factory=list)

    def with_narrowed(self, narrowed: Sequence[NarrowedColumn]) -> TableWatch:
        """Return the same with columns that were narrowed since, or once more.

        Of a column that is there already, the new record counts.
        """
        names = {each.column for each in narrowed}
        kept = [each for each in self.narrowed if each.column not in names]
        return self.model_copy(update={"narrowed": [*kept, *narrowed]})

    @property
    def doubt(self) -> str | None:
        """Reason why an alteration can't be ruled out; None if it can.

        Why the last inspection saw nothing, or else why statements may never be known.
        """
        return self.unknown or self.gap


def read_table_watch(generation: Generation) -> TableWatch | None:
    """Read the result of the last inspection of a captured table; None if there was none.

    Raises:
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(_NAME, TableWatch)


def keep_table_watch(generation: Generation, watch: TableWatch) -> None:
    """Write the result of an inspection to the state, unless an alteration is recorded there.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    before = read_table_watch(generation)
    if before != watch and (before is None or before.altered is None):
        generation.replace(_NAME, watch)


def withdraw_alteration(generation: Generation, watch: TableWatch) -> None:
    """Replace a recorded alteration by a new inspection; runs may then continue.

    Call it only once a comparison has found target and database equal. The inspection itself may
    record another alteration.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_NAME, watch)


def require_unaltered(generation: Generation) -> None:
    """Refuse to run a captured table of which the state records an alteration.

    Asks the state only, not the database.

    Raises:
        InputError: Says what was done to the table, and what to do.
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
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
        """Return each captured column's present name in the database, by its name in ``schema``.

        Columns that the database does not have are left out. Of several names that the database
        has, the latest one counts.

        Args:
            columns: The table's columns in the database, by name.
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
        """Return the two names of each captured column that a table has at two times.

        Args:
            before: The table's columns by name, at the earlier time.
            after: The table's columns by name, at the later time.

        Returns:
            Names before and after, by the name in ``schema``; without columns that the table lacks
            at one of the times.
        """
        were, are = self.found_in(before), self.found_in(after)
        return {name: (old, are[name]) for name, old in were.items() if name in are}

    def narrowed(
        self, both: Mapping[str, tuple[str, str]], is_narrowed: Callable[[str, str], bool]
    ) -> set[str]:
        """Return the columns that were narrowed, by their names in the ``schema``.

        Empty if the declaration does not ignore that (``narrowed: ignore``).

        Args:
            both: What :meth:`in_both` returned.
            is_narrowed: Returns whether a column was narrowed, of its names before and after.
        """
        if self.table.policies.narrowed != "ignore":
            return set()
        return {name for name, (old, new) in both.items() if is_narrowed(old, new)}
