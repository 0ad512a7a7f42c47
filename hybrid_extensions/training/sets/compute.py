"""Computation of the ranges of a training set that are not up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from hybrid_extensions.comparison.copied_rows import copy_rows
from hybrid_extensions.comparison.duckdb_database import MEMORY_LIMIT, open_database
from hybrid_extensions.training.sets.declare import LABEL_RANGE, DeclaredSet
from hybrid_extensions.training.sets.label_ranges import begin_of
from hybrid_extensions.training.sets.opened_labels import (
    LABELS,
    fingerprints,
    in_ranges,
    require_unique,
)
from hybrid_extensions.training.sets.range_states import RangeState, SetLook, look_at
from hybrid_extensions.training.sets.set_record import ComputedFrom, RangeRecord, write_ranges
from hybrid_extensions.training.sets.sweep import Sweep
from sources.common.counting import counted
from sources.common.sql.sql_names import column_list
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, StateError, leaving
from sources.storage.tables.delta import delta_table, unreadable_table

BATCH_LABELS = 500_000
"""Labels that are joined at a time; their ranges are one commit."""
_ROWS = 50_000
_BASE = "base"


@dataclass(frozen=True)
class Computed:
    """What a computation of a training set did.

    Attributes:
        ranges: Ranges that were computed, in order.
        rows: Number of their labels.
        current: Number of ranges that were up to date.
        tables: Names of the feature tables that were read.
        version: Version of the set's Delta table after it; None if there is none.
    """

    ranges: list[str] = field(default_factory=list)
    rows: int = 0
    current: int = 0
    tables: list[str] = field(default_factory=list)
    version: int | None = None

    @property
    def text(self) -> str:
        """What was computed, as a sentence."""
        current = f"{counted(self.current, 'range was', 'ranges were')} up to date"
        if not self.ranges:
            return f"Nothing to compute: {current}."
        of = f"{self.ranges[0]} to {self.ranges[-1]}" if self.ranges[1:] else self.ranges[0]
        read = ", ".join(f"`{each}`" for each in self.tables) or "no table"
        return (
            f"Computed: {counted(len(self.ranges), 'range')} of label times, {of}, with "
            f"{counted(self.rows, 'label')}, from {read}; {current}."
        )


def look(loaded: LoadedPipeline, declared: DeclaredSet) -> list[RangeState]:
    """Return what of each range of a set has to be computed, without computing or writing anything.

    Raises what :func:`compute` does. Empty if there are no labels, and nothing was computed.
    """
    with _database() as connection:
        return look_at(connection, loaded, declared).ranges


def compute(
    loaded: LoadedPipeline,
    declared: DeclaredSet,
    ranges: Sequence[str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Computed:
    """Compute the ranges of a training set that are not up to date, and only what they lack.

    Each range is replaced as a whole; some ranges are one commit. What an interrupted computation
    has committed is up to date for the next one.

    Args:
        loaded: The pipeline that declares the set.
        declared: The set.
        ranges: Keys of the ranges to look at; None for all.
        say: Gets sentences about the progress.

    Raises:
        InputError: Labels or tables are not there, can't be read or do not fit the declaration; two
            labels have the same key and time; or the table can't be written.
        StateError: The table of a pipeline was not made yet, or the state is damaged; or another
            computation has rewritten one of the ranges meanwhile (transient).
        UnavailableError: A store does not answer.
    """
    for key in ranges or []:
        begin_of(declared.labels, key)
    nothing = leaving(f"Nothing of training set `{declared.name}` was written.")
    with _database() as connection:
        with nothing:
            found = look_at(connection, loaded, declared)
        asked = [each for each in found.ranges if ranges is None or each.key in ranges]
        if found.rebuild is not None and len(asked) < len(found.ranges):
            message = (
                f"Training set `{declared.name}` has to be written as a whole: {found.rebuild}."
            )
            hint = f"Compute all of its ranges: `hybrid training P --set {declared.name}`."
            raise InputError(message, hint, table=found.folder.url)
        stale = [each for each in asked if not each.is_current]
        work = _Computation(connection, loaded, found, say)
        work.require_unique(stale)
        with leaving("Each range of the set is as it was, or written as a whole."):
            work.run(stale)
        work.note_unaffected([each for each in found.ranges if each.is_current])
        names = {name for each in stale for name in each.tables}
        table = delta_table(found.folder) if stale or found.table is not None else None
    return Computed(
        [each.key for each in stale],
        sum(each.rows for each in stale),
        len(asked) - len(stale),
        [each.name for each in declared.tables if each.name in names],
        None if table is None else int(table.version()),
    )


class _Computation:
    """Joins and commits of the ranges of one set."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        loaded: LoadedPipeline,
        found: SetLook,
        say: Callable[[str], None],
    ) -> None:
        self._connection, self._loaded, self._found, self._say = connection, loaded, found, say
        self._declared = found.declared
        self._labels = list(found.labels)
        self._table = found.table
        self._now = {
            each.name: ComputedFrom(
                version=each.version, digest=each.digest, commit=each.commit_of(each.version)
            )
            for each in found.features
        }

    def require_unique(self, stale: Sequence[RangeState]) -> None:
        """Refuse ranges of which two labels have the same key and time."""
        new = [each.key for each in stale if each.are_labels_new]
        if new:
            labels = f"(FROM {LABELS} WHERE {in_ranges(new)})"
            require_unique(self._connection, self._declared, labels)

    def run(self, stale: Sequence[RangeState]) -> None:
        """Compute ranges: those that lack the same together."""
        if self._found.rebuild is not None:
            self._say(f"The table is written as a whole: {self._found.rebuild}.")
        order = sorted(stale, key=_lacks)
        for (are_labels_new, tables), ranges in groupby(order, key=_lacks):
            self._group(are_labels_new, tables, sorted(ranges, key=lambda each: each.key))

    def note_unaffected(self, current: Sequence[RangeState]) -> None:
        """Record that ranges hold for the tables' newest versions, too.

        The next look then need not go back to versions that Delta deletes in time.
        """
        record = self._found.record
        newer = {
            each.key: record[each.key].model_copy(update={"tables": self._now})
            for each in current
            if record[each.key].tables != self._now
        }
        if newer and self._table is not None:
            self._record(newer)

    def _group(
        self, are_labels_new: bool, tables: Sequence[str], ranges: Sequence[RangeState]
    ) -> None:
        """Compute ranges that lack the same."""
        keys = [each.key for each in ranges]
        if are_labels_new:
            tables = [each.name for each in self._found.features]
        self._copy_base(are_labels_new, tables, keys)
        made = self._made(are_labels_new, keys)
        sweep = Sweep(
            self._connection, self._declared, _BASE, self._found.features, tables, self._labels
        )
        sweep.load()
        if self._found.rebuild is not None:
            self._record({}, are_all=True)
            self._rebuild(sweep, ranges)
            self._record({key: made.get(key) for key in keys}, are_all=True)
        else:
            for batch in _batches(ranges):
                if self._table is not None:
                    # A kill after the commit leaves no record of what was there before.
                    self._record(dict.fromkeys(each.key for each in batch))
                self._replace(sweep, [each.key for each in batch])
                self._record({each.key: made.get(each.key) for each in batch})
        sweep.close()
        self._connection.execute(f"DROP TABLE {_BASE}")

    def _copy_base(self, are_labels_new: bool, tables: Sequence[str], keys: Sequence[str]) -> None:
        """Copy what is joined: labels, or rows of the set with what stays as it is."""
        if are_labels_new or self._table is None:
            self._connection.execute(
                f"CREATE TABLE {_BASE} AS FROM {LABELS} WHERE {in_ranges(keys)}"
            )
            return
        kept = [
            name for each in self._found.features if each.name not in tables for name in each.made
        ]
        names = column_list([*self._labels, *kept, LABEL_RANGE])
        query = f"SELECT {names} FROM target WHERE {in_ranges(keys)}"
        copy_rows(self._connection, _BASE, self._table, query)

    def _replace(self, sweep: Sweep, keys: Sequence[str]) -> None:
        """Replace some ranges in one commit."""
        self._write(
            self._rows(sweep, keys),
            keys,
            predicate=None if self._table is None else in_ranges(keys),
            schema_mode=None if self._table is None else "merge",
        )
        self._say(f"Written: {keys[0]}{f' to {keys[-1]}' if keys[1:] else ''}.")

    def _rebuild(self, sweep: Sweep, ranges: Sequence[RangeState]) -> None:
        """Replace the whole table in one commit."""
        batches = [[each.key for each in batch] for batch in _batches(ranges)]
        rows = pa.RecordBatchReader.from_batches(
            self._found.schema,
            (batch for keys in batches for batch in self._rows(sweep, keys)),
        )
        keys = [each.key for each in ranges]
        self._write(rows, keys, predicate=None, schema_mode="overwrite")

    def _rows(self, sweep: Sweep, keys: Sequence[str]) -> pa.RecordBatchReader:
        rows = self._connection.sql(sweep.query(keys)).to_arrow_reader(_ROWS)
        assert rows is not None
        return rows.cast(self._found.schema)

    def _write(self, rows: pa.RecordBatchReader, keys: Sequence[str], **how: Any) -> None:
        folder = self._found.folder
        options = folder.documents.delta_options
        try:
            # Refuses if one of these ranges was written after the table was opened.
            write_deltalake(
                folder.url if self._table is None else self._table,
                rows,
                mode="error" if self._table is None else "overwrite",
                partition_by=[LABEL_RANGE],
                storage_options=options,
                **how,
            )
        except CommitFailedError:
            raise self._rewritten(keys) from None
        except (DeltaError, OSError, ValueError) as error:
            if self._table is None and "already exists" in str(error):
                raise self._rewritten(keys) from None
            hint = (
                "Correct that, such as the folder's rights or a full disk, then compute the set "
                "again: ranges that were written are not computed again."
            )
            what = f"The training set {folder} can't be written"
            raise unreadable_table(what, folder, error, hint) from error
        if self._table is None:
            self._table = delta_table(folder)

    def _rewritten(self, keys: Sequence[str]) -> StateError:
        ranges = f"{keys[0]}{f' to {keys[-1]}' if keys[1:] else ''}"
        message = (
            f"Another computation has written training set `{self._declared.name}` meanwhile, so "
            f"the {'ranges' if keys[1:] else 'range'} {ranges} {'were' if keys[1:] else 'was'} not "
            "written."
        )
        hint = (
            "Wait until it has ended, then compute the set again: what is up to date by then is "
            "left as it is."
        )
        return StateError(message, hint, transient=True, table=self._found.folder.url)

    def _made(self, are_labels_new: bool, keys: Sequence[str]) -> dict[str, RangeRecord]:
        """Return what ranges are computed from, but for the commit; those without labels lack."""
        if not are_labels_new:
            known = self._found.record
            return {key: known[key].model_copy(update={"tables": self._now}) for key in keys}
        # Of the copy: the labels may be others by now.
        found = fingerprints(self._connection, _BASE, self._found.labels)
        return {
            key: RangeRecord(labels=each.digest, rows=each.rows, tables=self._now)
            for key, each in found.items()
            if key is not None
        }

    def _record(self, ranges: Mapping[str, RangeRecord | None], *, are_all: bool = False) -> None:
        assert self._table is not None
        at = int(self._table.version())
        identity = str(self._table.metadata().id)
        by = self._declared.labels.by
        name = self._declared.name
        write_ranges(self._loaded, name, identity, at, ranges, by=by, are_all=are_all)


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    with (
        TemporaryDirectory(prefix="hybrid-training-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        yield connection


def _lacks(state: RangeState) -> tuple[bool, tuple[str, ...]]:
    return state.are_labels_new, () if state.are_labels_new else state.tables


def _batches(ranges: Sequence[RangeState]) -> Iterator[list[RangeState]]:
    """Yield ranges of up to :data:`BATCH_LABELS` labels; a larger one is alone."""
    batch: list[RangeState] = []
    for each in ranges:
        if batch and sum(state.rows for state in batch) + each.rows > BATCH_LABELS:
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch
