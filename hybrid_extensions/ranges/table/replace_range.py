"""Replacement of the rows in a range of event times of a Delta table, in one commit.

Rows outside the range that are in the same files are rewritten into new files; then one commit
removes the old files, and adds these and the files of the new rows. Where rows of the live run are
in the range, too, files with live rows are not touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from hybrid_extensions.generations.files.file_rows import FileReader, remove_action
from hybrid_extensions.generations.files.linked_files import add_action, link_files
from hybrid_extensions.ranges.table.event_range import Range
from hybrid_extensions.ranges.table.key_match import without_keys
from sources.common.counting import counted
from sources.errors import InputError, StateError
from sources.storage.folder import Folder
from sources.storage.tables.delta import is_delta_table
from spark_jobs.table.delta_table import commit_files, open_table
from spark_jobs.table.history_files import RANGE_FILE, HistoryFiles

_TRIES = 10
_PAUSE_S = 0.2
Turn = Callable[[], AbstractContextManager[object]]
"""Returns a context manager that keeps other writers of the table out while it is entered."""


class Replaced(NamedTuple):
    """Row counts of one replacement.

    Attributes:
        removed: Rows in the range that were removed: those of history, or all.
        written: Recomputed rows that were written.
        kept_live: Recomputed rows that were not written, since a row of the live run with the same
            key is in the range, or a newer version of the row is in the table; that row stays.
    """

    removed: int
    written: int
    kept_live: int


Rewritten = tuple[list[AddAction], list[dict[str, Any]], Replaced]
"""Files to be added, but for those in the scratch folder; files to be removed; numbers of rows."""


@dataclass(frozen=True)
class Replacement:
    """Replacement of the rows in a range of event times by recomputed ones.

    Attributes:
        table: Folder of the Delta table.
        side: Folder of a Delta table with the recomputed rows of the range, and those without an
            event time, which are not written; None if there are no such rows.
        where: The range of event times.
        history: Files of the table that hold history, or did so until an earlier replacement or a
            compaction removed them: only their rows are replaced, and rows that the live stream has
            written stay as they are. None: all rows of the range are replaced.
        key: Names of the columns that identify a row, by which live rows are found.
        transaction: Delta application id of the commit: the same replacement is done only once.
        scratch: Folder for rewritten rows; it is created, and the caller removes it.
        turn: Returns a context that keeps other writers out, entered around each commit, and from
            the third attempt on around all of the attempt.
        has_others: Whether ``side`` may have rows of other times, too, such as parts of windows,
            which are not written; else such a row is refused.
    """

    table: Folder
    side: Folder | None
    where: Range
    history: HistoryFiles | None
    key: Sequence[str]
    transaction: str
    scratch: Folder
    turn: Turn = nullcontext
    has_others: bool = False

    # The first attempt (from 0) that keeps other writers out.
    _UNHINDERED: ClassVar[int] = 2

    def run(self, before_commit: Callable[[list[str]], None]) -> Replaced | None:
        """Replace the range in one commit; try up to 10 times if other writers commit first.

        Args:
            before_commit: Called before each attempt to commit, with the paths of the files that it
                removes, so that the caller can record them.

        Returns:
            Numbers of rows; None if this replacement was committed before. Nothing is committed
            where neither side has rows in the range.

        Raises:
            InputError: A table can't be read, or has no such event-time column.
            StateError: Files of history were compacted, maybe with live rows, which can't be told
                apart any more; a recomputed row is of another time; a file to be linked is missing;
                or other writers changed the same files at each attempt. The table is unchanged
                then.
            UnavailableError: A store does not answer.
        """
        for number in range(_TRIES):
            is_alone = number >= self._UNHINDERED
            with self.turn() if is_alone else nullcontext():
                opened = open_table(self.table)
                if opened.transaction_version(self.transaction) is not None:
                    return None
                scratch = self.scratch.folder(str(number))
                # A process that was killed may have left rewritten rows there.
                scratch.delete_all()
                turn = nullcontext if is_alone else self.turn
                try:
                    return self._run(opened, scratch, before_commit, turn)
                except CommitFailedError:
                    # Another writer has changed one of these files first.
                    pass
            time.sleep(_PAUSE_S)
        message = (
            f"The range can't be replaced in {self.table}: other writers changed the same files "
            f"{_TRIES} times in a row. Nothing was replaced."
        )
        hint = (
            "Recompute the range again; if it fails again, stop the live run for its duration "
            "(`hybrid pause P`, then `hybrid resume P`), and any other job that writes or compacts "
            "the table."
        )
        raise StateError(message, hint, transient=True, table=self.table.url)

    def _run(
        self,
        opened: DeltaTable,
        scratch: Folder,
        before_commit: Callable[[list[str]], None],
        turn: Turn,
    ) -> Replaced:
        kinds = {field.name: field.type for field in opened.schema().fields}
        kind = kinds.get(self.where.column)
        if kind is None or (self.where.field is None and kind != PrimitiveType("timestamp")):
            is_time = self.where.field is None
            message = (
                f"The table {self.table} has no column `{self.where.column}`"
                f"{' of type timestamp' if is_time else ''}, by "
                "which the range of event times is selected. Nothing was replaced."
            )
            hint = (
                f"Let the function or query of `transform` return `{self.where.column}`"
                f"{' as a timestamp' if is_time else ''}, begin a new "
                "generation (`hybrid generation new P`), and recompute ranges of its table; or "
                "recompute the whole table: `hybrid rerun P`."
            )
            raise InputError(message, hint, table=self.table.url, column=self.where.column)
        adds, touched, counts = self._rewrite(opened, scratch)
        if is_delta_table(scratch):
            rewritten = pa.table(open_table(scratch).get_add_actions()).to_pylist()
            adds += [self._bring(scratch, row) for row in rewritten]
        if not adds and not touched:
            # Readers who wait for versions get none that changes nothing.
            return counts
        before_commit([row["path"] for row in touched])
        once = CommitProperties(
            app_transactions=[Transaction(self.transaction, 1)],
            # Who follows the table recomputes what was made of the range, and reads on.
            custom_metadata=self.where.replaced.as_metadata(),
        )
        with turn():
            commit_files(opened, [*adds, *map(remove_action, touched)], once)
        return counts

    def _rewrite(self, opened: DeltaTable, scratch: Folder) -> Rewritten:
        """Write the rows that stay in files that are removed, and the recomputed ones."""
        rows = pa.table(opened.get_add_actions()).to_pylist()
        old, live = self._concerned(rows)
        read = FileReader(opened)
        live_keys = self._live_keys(read, live)
        removed = written = kept_live = 0
        touched = []
        for row in old:
            held = read.rows(row)
            inside = self.where.holds(held)
            if not pc.any(inside).as_py():
                continue
            touched.append(row)
            removed += pc.sum(inside).as_py()
            self._write(opened, scratch, held.filter(pc.invert(inside)))
        adds: list[AddAction] = []
        if self.side is not None:
            side = open_table(self.side)
            recomputed = FileReader(side)
            for row in pa.table(side.get_add_actions()).to_pylist():
                is_whole = live_keys is None and not self.has_others
                if is_whole and self.where.holds_all(row):
                    written += row["num_records"]
                    adds.append(self._bring(self.side, row))
                    continue
                made = new = self._of_range(recomputed.rows(row))
                if live_keys is not None:
                    new = without_keys(made, live_keys)
                written += new.num_rows
                kept_live += made.num_rows - new.num_rows
                self._write(opened, scratch, new)
        return adds, touched, Replaced(removed, written, kept_live)

    def _of_range(self, made: pa.Table) -> pa.Table:
        """Return the recomputed rows of the range; refuse those of another time, if any.

        A row without an event time is read with each range that its file has rows of. It is in the
        table already, and stays.
        """
        inside = self.where.holds(made)
        times = made.filter(pc.invert(inside))[self.where.column].drop_null()
        if not self.has_others and len(times):
            raise self._moved(times)
        return made.filter(inside)

    def _moved(self, times: pa.ChunkedArray) -> StateError:
        column = self.where.column
        message = (
            f"The transform gives rows another `{column}` than the files: of rows of the files "
            f"from {self.where.since.isoformat()} until {self.where.until.isoformat()} it has made "
            f"at least {counted(len(times), 'row')} of other times, such as "
            f"{times[0].as_py().isoformat()}. "
            "So which rows of the table are made of the range is not known. Nothing was replaced."
        )
        return StateError(
            message,
            "Recompute the whole table as a new generation: `hybrid rerun P`.",
            table=self.table.url,
            column=column,
        )

    def _concerned(
        self, rows: list[dict[str, Any]]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the files whose rows of the range are replaced, and those of the live run."""
        concerned = [row for row in rows if self.where.may_be_in(row)]
        if self.history is None:
            return concerned, []
        names = {row["path"] for row in rows}
        if lacking := self.history.paths - self.history.gone - names:
            message = (
                f"{counted(len(lacking), 'file of history is', 'files of history are')} no longer "
                f"in {self.table}, such as {min(lacking)}. They were compacted or "
                "rewritten, possibly together with live rows, so history's "
                "rows can't be distinguished from live ones. Nothing was replaced."
            )
            hint = (
                "Recompute the whole table: `hybrid rerun P`. To recompute ranges later, compact "
                "its files with `hybrid compact P`, not with OPTIMIZE."
            )
            raise StateError(message, hint, table=self.table.url, file=min(lacking))
        of_history = self.history.of(names)
        return (
            [row for row in concerned if row["path"] in of_history],
            [row for row in concerned if row["path"] not in of_history],
        )

    def keys_in(self, read: FileReader, files: Sequence[dict[str, Any]]) -> list[pa.Table]:
        """Return the keys of the rows in the range of each file, by its row in the add actions.

        Args:
            read: Reader of the files' table.
            files: Their rows in ``DeltaTable.get_add_actions``.
        """
        tables = (read.rows(row, {*self.key, self.where.column}) for row in files)
        return [rows.filter(self.where.holds(rows)).select(list(self.key)) for rows in tables]

    def _live_keys(self, read: FileReader, live: list[dict[str, Any]]) -> pa.Table | None:
        found = self.keys_in(read, live)
        keys = pa.concat_tables(found) if found else None
        return keys if keys is not None and keys.num_rows else None

    def _write(self, opened: DeltaTable, scratch: Folder, rows: pa.Table) -> None:
        """Add rows to the rewritten files."""
        if rows.num_rows:
            partitions = opened.metadata().partition_columns or None
            write_deltalake(
                scratch.url,
                rows,
                mode="append",
                partition_by=partitions,
                storage_options=scratch.documents.delta_options,
            )

    def _bring(self, source: Folder, row: dict[str, Any]) -> AddAction:
        """Link a file into the table's folder, under a name that marks it as history."""
        path = Path(unquote(row["path"]))
        name = str(path.with_name(f"{RANGE_FILE}{path.name}"))
        link_files(source, self.table, {str(path): name})
        return add_action(row, name)
