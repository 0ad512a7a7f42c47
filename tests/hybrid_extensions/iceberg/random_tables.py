"""Random Iceberg tables as PyIceberg writes them: columns, partitions and rows that change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import In
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DecimalType, DoubleType, IcebergType, LongType

from tests.hybrid_extensions.iceberg.tables import catalog
from tests.random_tables.columns import (
    BIGINT,
    BINARY,
    DOUBLE,
    EVENT_TIME,
    KEY,
    NAMES,
    NESTED,
    PLAIN,
    Kind,
    draw_columns,
    draw_some_rows,
    schema_of,
)

_NARROW = ("tinyint", "smallint")
KINDS = [*(kind for kind in PLAIN if kind.name not in _NARROW), BINARY, *NESTED]
"""Types that Iceberg has."""
_WIDE_DECIMAL = next(kind for kind in PLAIN if kind.name == "decimal(18,0)")._replace(
    name="decimal(30,0)", type=pa.decimal128(30, 0)
)
_WIDER: dict[str, tuple[Kind, IcebergType]] = {
    "int": (BIGINT, LongType()),
    "float": (DOUBLE, DoubleType()),
    "decimal(18,0)": (_WIDE_DECIMAL, DecimalType(30, 0)),
}
_OF_DAYS = (YearTransform, MonthTransform, DayTransform)
_METRICS = ["none", "counts", "truncate(16)", "full"]
# PyIceberg computes all transforms but identity by it.
_HAS_TRANSFORMS = find_spec("pyiceberg_core") is not None


class RandomTable:
    """A table that random steps change.

    Args:
        folder: Folder of its catalog.
        random: The source of chance.

    Attributes:
        table: The table.
        steps: What was done to it.
    """

    def __init__(self, folder: Path, random: Random) -> None:
        self._folder = folder
        self._random = random
        self._columns = draw_columns(random, KINDS, NAMES)
        self._next = 0
        properties = {
            "format-version": random.choice(["1", "2"]),
            "write.metadata.metrics.default": random.choice(_METRICS),
        }
        self.table: Table = catalog(folder).create_table(
            "shop.t", schema_of(self._columns), properties=properties
        )
        self.steps: list[str] = []
        for _ in range(random.randrange(3, 14)):
            self._change()

    def _change(self) -> None:
        """Do something to the table; what has no meaning for it as it is does nothing."""
        steps: list[Callable[[], None]] = [
            *[self._append] * 4,
            *(self._overwrite, self._replace_partitions, self._delete, self._roll_back),
            *(self._rename, self._use_name_again, self._widen, self._move),
            *(self._partition, self._no_partition, self._branch, self._add_file),
        ]
        step = self._random.choice(steps)
        # PyIceberg finds no row of a partition whose value is NaN, divides by their number, and
        # commits nothing.
        with suppress(ZeroDivisionError):
            step()
            self.steps.append(step.__name__)
        self.table = self.table.refresh()

    def _rows(self) -> pa.Table:
        rows = draw_some_rows(self._random, self._columns, self._next)
        self._next += rows.num_rows
        return rows

    def _some(self) -> In:
        keys = [self._random.randrange(self._next + 1) for _ in range(3)]
        return In(KEY, keys)  # type: ignore[arg-type, call-arg]

    def _other(self) -> str:
        others = [name for name in self._columns if name not in (KEY, EVENT_TIME)]
        return self._random.choice(others)

    def _append(self) -> None:
        self.table.append(self._rows())

    def _overwrite(self) -> None:
        self.table.overwrite(self._rows(), overwrite_filter=self._some())

    def _replace_partitions(self) -> None:
        fields = self.table.spec().fields
        if fields and all(isinstance(field.transform, IdentityTransform) for field in fields):
            self.table.dynamic_partition_overwrite(self._rows())

    def _delete(self) -> None:
        if self._random.random() < 0.2:
            self.table.delete()
        else:
            self.table.delete(self._some())

    def _rename(self) -> None:
        name, new = self._other(), f"new_{len(self.steps)}"
        with self.table.update_schema() as change:
            change.rename_column((name,), new)
        self._columns = {new if each == name else each: k for each, k in self._columns.items()}

    def _use_name_again(self) -> None:
        name = self._other()
        # PyIceberg itself can't read files without ids then.
        if self._is_partitioned_by(name) or self.table.name_mapping() is not None:
            return
        with self.table.update_schema() as change:
            change.delete_column((name,))
        del self._columns[name]
        self._columns[name] = self._random.choice(KINDS)
        with self.table.update_schema() as change:
            change.union_by_name(schema_of(self._columns))

    def _widen(self) -> None:
        for name, kind in [*self._columns.items()]:
            if kind.name in _WIDER and name != KEY and not self._is_partitioned_by(name):
                self._columns[name], wider = _WIDER[kind.name]
                with self.table.update_schema() as change:
                    change.update_column((name,), wider)

    def _move(self) -> None:
        with self.table.update_schema() as change:
            change.move_first((self._other(),))

    def _is_partitioned_by(self, name: str) -> bool:
        """Whether the table is or was partitioned by a column."""
        number, specs = self.table.schema().find_field(name).field_id, self.table.specs().values()
        return any(field.source_id == number for spec in specs for field in spec.fields)

    def _partition(self) -> None:
        name = self._random.choice([*self._columns])
        kind = self._columns[name].type
        if self._is_partitioned_by(name) or pa.types.is_nested(kind):
            return
        with self.table.update_spec() as change:
            transform = self._random.choice(_transforms(kind) if _HAS_TRANSFORMS else _IDENTITY)
            change.add_field(name, transform, f"p{len(self.steps)}")

    def _no_partition(self) -> None:
        for field in self.table.spec().fields[:1]:
            with self.table.update_spec() as change:
                change.remove_field(field.name)

    def _branch(self) -> None:
        """Write to a branch, which is no part of the table, and set a tag."""
        if (snapshot := self.table.current_snapshot()) is not None:
            name = f"b{len(self.steps)}"
            refs = self.table.manage_snapshots().create_branch(snapshot.snapshot_id, name)
            refs.create_tag(snapshot.snapshot_id, f"t{len(self.steps)}").commit()
            self.table.append(self._rows(), branch=name)

    def _roll_back(self) -> None:
        snapshot = self.table.current_snapshot()
        if snapshot is not None and snapshot.parent_snapshot_id is not None:
            earlier = snapshot.parent_snapshot_id
            self.table.manage_snapshots().rollback_to_snapshot(earlier).commit()

    def _add_file(self) -> None:
        """Add a file without field ids now and then, as PyIceberg allows."""
        if self._random.random() < 0.2 and not self.table.spec().fields:
            path = self._folder / f"added-{len(self.steps)}.parquet"
            pq.write_table(self._rows(), path)
            self.table.add_files([str(path)])


_IDENTITY: list[Transform[Any, Any]] = [IdentityTransform()]


def _transforms(kind: pa.DataType) -> list[Transform[Any, Any]]:
    """Transforms that a type has."""
    if pa.types.is_timestamp(kind):
        return [*_IDENTITY, HourTransform(), *(of() for of in _OF_DAYS)]
    if pa.types.is_date(kind):
        return [*_IDENTITY, *(of() for of in _OF_DAYS)]
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return _IDENTITY
    return [*_IDENTITY, BucketTransform(3), TruncateTransform(2)]
