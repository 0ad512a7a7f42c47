"""Replacement of versions of rows in a range of event times, in a table that is merged by key.

The table has the latest version of each key. A recomputed version takes the place of the table's if
that one is not newer, as in a merge. A version of the table in the range that was not recomputed,
and no later one either, can't be replaced: an older one, outside of the range, would be the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hybrid_extensions.generations.files.file_rows import FileReader
from hybrid_extensions.ranges.table.replace_range import (
    Replaced,
    Replacement,
    Rewritten,
)
from sources.common.counting import counted
from sources.common.sql.sql_names import quoted
from sources.errors import StateError
from sources.storage.folder import Folder
from sources.storage.tables.delta import dataset_of
from spark_jobs.table.delta_table import open_table

_AT = "__at"


@dataclass(frozen=True, kw_only=True)
class VersionsReplacement(Replacement):
    """Replacement of the latest versions in a range by recomputed ones, in a table merged by key.

    ``history`` must be None, ``side`` must have one version of each key, and ``turn`` must keep all
    other writers out, as each attempt runs within it. :meth:`run` also raises StateError if a row
    of the range was not recomputed: which older version would take its place is unknown.

    Attributes:
        order: Names of the columns that order the versions of a key; null sorts first.
    """

    order: Sequence[str]

    # A merge that inserts a key meanwhile would conflict with nothing.
    _UNHINDERED: ClassVar[int] = 0

    def _rewrite(self, opened: DeltaTable, scratch: Folder) -> Rewritten:
        files = pa.table(opened.get_add_actions()).to_pylist()
        read, recomputed = FileReader(opened), self._recomputed(opened)
        made = pa.concat_tables([rows.select(self._compared) for rows in recomputed()])
        is_older = pa.array([False] * made.num_rows, pa.bool_())
        lacking, example, removed = 0, None, 0
        replaced: list[tuple[dict[str, Any], pa.Array]] = []
        for row in files:
            held = read.rows(row, dict.fromkeys([*self._compared, self.where.column]))
            goes, stays = self._compare(held, made)
            is_older = pc.or_(is_older, stays)
            left = held.filter(pc.and_(self.where.holds(held), pc.invert(goes)))
            lacking += left.num_rows
            example = example or next(iter(left.slice(0, 1).select(self.key).to_pylist()), None)
            if pc.any(goes).as_py():
                replaced.append((row, goes))
        if example is not None:
            raise self._lacks(lacking, example)
        for row, goes in replaced:
            removed += pc.sum(goes).as_py()
            self._write(opened, scratch, read.rows(row).filter(pc.invert(goes)))
        first = 0
        for rows in recomputed():
            is_new = pc.invert(is_older.slice(first, rows.num_rows))
            self._write(opened, scratch, rows.filter(is_new))
            first += rows.num_rows
        kept = pc.sum(is_older, min_count=0).as_py()
        return [], [row for row, _ in replaced], Replaced(removed, made.num_rows - kept, kept)

    @property
    def _compared(self) -> list[str]:
        return list(dict.fromkeys([*self.key, *self.order]))

    def _recomputed(self, opened: DeltaTable) -> Callable[[], Iterator[pa.Table]]:
        """Return what yields the recomputed rows: each time the same ones in the same order."""
        if self.side is None:
            return lambda: iter([dataset_of(opened).schema.empty_table()])
        side = open_table(self.side)
        read, files = FileReader(side), pa.table(side.get_add_actions()).to_pylist()
        empty = dataset_of(side).schema.empty_table()
        return lambda: chain([empty], map(read.rows, files))

    def _compare(self, held: pa.Table, made: pa.Table) -> tuple[pa.Array, pa.Array]:
        """Return which rows of a file go, and which recomputed ones are older than a row of it.

        Equal is what MERGE takes as equal (:mod:`hybrid_extensions.ranges.table.key_match`).
        """
        # It takes long to import, and most pipelines append.
        import duckdb  # noqa: PLC0415

        goes, pairs = "TRUE", [quoted(name) for name in self.order]
        for name in reversed(pairs):
            is_newer = f"(m.{name} IS NOT NULL AND (h.{name} IS NULL OR m.{name} > h.{name}))"
            is_same = f"m.{name} IS NOT DISTINCT FROM h.{name}"
            goes = f"({is_newer} OR ({is_same} AND {goes}))"
        key = (f"h.{name} IS NOT DISTINCT FROM m.{name}" for name in map(quoted, self.key))
        with duckdb.connect() as connection:
            for name, rows in (("h", held.select(self._compared)), ("m", made)):
                numbers = pa.array(range(rows.num_rows), pa.int64())
                connection.register(name, rows.append_column(_AT, numbers))
            query = (
                f"SELECT h.{_AT} AS held, m.{_AT} AS made, {goes} AS goes "
                f"FROM h JOIN m ON {' AND '.join(key)}"
            )
            found = connection.sql(query).to_arrow_table().combine_chunks()
        kept = pc.invert(found["goes"])
        return (
            _marked(found["held"].filter(found["goes"]), held.num_rows),
            _marked(found["made"].filter(kept), made.num_rows),
        )

    def _lacks(self, count: int, example: dict[str, Any]) -> StateError:
        key = ", ".join(f"{name}: {value}" for name, value in example.items())
        rows = counted(count, "row of the table has its", "rows of the table have their")
        message = (
            f"{rows} latest version in the range (such as {key}), and the files of the range hold "
            "neither it nor a later one: the live run delivered it, or the files lack it now. "
            "Which older version would be the latest is not known from the files of the range. "
            "Nothing was replaced."
        )
        hint = (
            "If files are missing, restore them. Else recompute the whole table as a new "
            "generation: `hybrid rerun P`."
        )
        return StateError(message, hint, table=self.table.url, value=key)


def _marked(numbers: pa.ChunkedArray, length: int) -> pa.Array:
    """Return a boolean for each row: whether its number is among some."""
    return pc.is_in(pa.array(range(length), pa.int64()), value_set=numbers.combine_chunks())
