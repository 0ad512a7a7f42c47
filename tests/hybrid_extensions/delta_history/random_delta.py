"""Random Delta tables as delta-rs writes them: columns, layouts and rows that change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from tests.random_tables.columns import (
    BINARY,
    EVENT_TIME,
    KEY,
    NAMES,
    NESTED,
    PLAIN,
    draw_columns,
    draw_rows,
    draw_some_rows,
    schema_of,
)

KINDS = [*PLAIN, BINARY, *NESTED]
_CONFIGURATIONS = [
    {},
    {"delta.appendOnly": "true"},
    {"delta.checkpointInterval": "2"},
    {"delta.checkpointPolicy": "v2"},
    {"delta.columnMapping.mode": "name"},
    {"delta.dataSkippingNumIndexedCols": "0"},
    {"delta.dataSkippingStatsColumns": KEY},
    {"delta.enableChangeDataFeed": "true"},
    {"delta.enableDeletionVectors": "true"},
]
_NOON = "CAST('2024-02-03T12:00:00.123456Z' AS TIMESTAMP)"


class RandomDelta:
    """A table that random steps change; what delta-rs refuses does nothing.

    Args:
        path: Folder of the table.
        random: The source of chance.

    Attributes:
        steps: What was done to it.
    """

    def __init__(self, path: Path, random: Random) -> None:
        self._path = path
        self._random = random
        self._columns = draw_columns(random, KINDS, NAMES)
        self._next = 0
        self.steps: list[str] = []
        # As partitions, delta-rs writes negative decimals of less than 1 as no number.
        plain = [
            name
            for name, kind in self._columns.items()
            if name != KEY and kind in PLAIN and not pa.types.is_decimal(kind.type)
        ]
        self._partitions = random.sample(plain, random.choice([0, 0, 1]))
        configuration = random.choice(_CONFIGURATIONS)
        DeltaTable.create(
            path,
            schema_of(self._columns),
            partition_by=self._partitions,
            configuration=configuration,
        )
        for _ in range(random.randrange(3, 14)):
            self._change()

    def _change(self) -> None:
        steps: list[Callable[[], object]] = [
            *[self._append] * 4,
            *(self._overwrite, self._replace_where, self._delete, self._update, self._merge),
            *(self._add_column, self._add_empty_column, self._restore, self._shorten_log),
            self._table().create_checkpoint,
            self._table().optimize.compact,
        ]
        step = self._random.choice(steps)
        with suppress(DeltaError):
            step()
            self.steps.append(step.__name__)

    def _table(self) -> DeltaTable:
        return DeltaTable(self._path)

    def _rows(self) -> pa.Table:
        rows = draw_some_rows(self._random, self._columns, self._next)
        self._next += rows.num_rows
        return rows

    def _append(self) -> None:
        write_deltalake(self._path, self._rows(), mode="append")

    def _overwrite(self) -> None:
        write_deltalake(self._path, self._rows(), mode="overwrite")

    def _replace_where(self) -> None:
        key = self._random.randrange(self._next + 1)
        rows = draw_rows(self._random, self._columns, key, 1)
        write_deltalake(self._path, rows, mode="overwrite", predicate=f"{KEY} = {key}")
        self._next = max(self._next, key + 1)

    def _delete(self) -> None:
        self._table().delete(f"{KEY} % 5 = {self._random.randrange(5)}")

    def _update(self) -> None:
        which = f"{KEY} % 7 = {self._random.randrange(7)}"
        self._table().update(updates={EVENT_TIME: _NOON}, predicate=which)

    def _merge(self) -> None:
        key = self._random.randrange(self._next + 1)
        rows = draw_rows(self._random, self._columns, key, 3)
        merged = self._table().merge(rows, f"t.{KEY} = s.{KEY}", "s", "t")
        merged.when_matched_update_all().when_not_matched_insert_all().execute()
        self._next = max(self._next, key + 3)

    def _add_column(self) -> None:
        self._columns[f"new_{len(self.steps)}"] = self._random.choice(KINDS)
        write_deltalake(self._path, self._rows(), mode="append", schema_mode="merge")

    def _add_empty_column(self) -> None:
        """Add a column that no file has before the next step."""
        name, kind = f"new_{len(self.steps)}", self._random.choice(KINDS)
        self._columns[name] = kind
        rows = schema_of(self._columns).empty_table()
        write_deltalake(self._path, rows, mode="append", schema_mode="merge")

    def _restore(self) -> None:
        version = self._table().version()
        self._table().restore(self._random.randrange(max(version - 2, 0), version + 1))
        self._columns = {
            name: kind
            for name, kind in self._columns.items()
            if name in self._table().schema().to_arrow().names
        }

    def _shorten_log(self) -> None:
        """Write a checkpoint, and remove all of the log before it."""
        table = self._table()
        table.create_checkpoint()
        for entry in (self._path / "_delta_log").glob("*.json"):
            if int(entry.stem) < table.version():
                entry.unlink()
