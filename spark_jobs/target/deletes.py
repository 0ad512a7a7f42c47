"""The deletes of a target that removes rows: a removed row can't keep the sequence of its delete.

They are kept in a Delta table next to the checkpoint, so that an older change that arrives later
does not bring the row back. A delete that is kept twice, by a micro-batch that is tried again,
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import reduce
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.config.sink import Sink

# Up to so many deletes of a micro-batch are collected on the driver.
_FEW = 10_000
# Beyond so many files they are compacted: each micro-batch with a delete writes one.
_MOST_FILES = 100
# Only this run reads the table, and never an older version.
_CONFIGURATION = {
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
}


def order(sequence: Sequence[str], of: str = "") -> Column:
    """Return the column that orders the changes of a key.

    Args:
        sequence: Names of the columns of the sequence.
        of: Prefix of each name: an alias with its dot.
    """
    # Structs compare field by field, and null comes first: rows of a snapshot have no sequence.
    return F.struct(*(F.col(f"{of}`{name}`") for name in sequence))


class Deletes:
    """The deletes of one target, with their sequence.

    Args:
        folder: Folder of the table that keeps them.
        sink: The declaration, which names key and sequence.
    """

    def __init__(self, folder: Path, sink: Sink) -> None:
        self._folder = str(folder)
        self._key = sink.key
        self._sequence = sink.order

    def may_hold_later(self, lowest: object | None) -> bool:
        """Return whether a delete may be later than one of some changes, by the files' statistics.

        Args:
            lowest: First column of the lowest sequence of these changes; null comes first.
        """
        if not DeltaTable.is_deltatable(self._folder):
            return False
        # Only these types are ordered by Python as by Spark.
        if not isinstance(lowest, int | str):
            return True
        files = pa.table(DeltaTable(self._folder).get_add_actions(flatten=True))
        name = f"max.{self._sequence[0]}"
        if name not in files.column_names:
            return True
        return any(highest is None or highest >= lowest for highest in files[name].to_pylist())

    def without_deleted_since(self, rows: DataFrame, lowest: object | None) -> DataFrame:
        """Return the changes whose key was not deleted by a later one.

        Call it only if :meth:`may_hold_later` returned True.

        Args:
            rows: One change of each key.
            lowest: First column of the lowest sequence of these changes.
        """
        deletes = rows.sparkSession.read.format("delta").load(self._folder)
        if isinstance(lowest, int | str | date):
            # Deletes are kept as they arrive, so few files hold a later one. Statistics of other
            # types can't be trusted: Delta's Rust library rounds decimals and leaves out NaN.
            deletes = deletes.where(F.col(f"`{self._sequence[0]}`") >= F.lit(lowest))
        same = [F.col(f"s.`{name}`").eqNullSafe(F.col(f"d.`{name}`")) for name in self._key]
        is_older = order(self._sequence, "s.") < order(self._sequence, "d.")
        return rows.alias("s").join(
            deletes.alias("d"),
            reduce(lambda left, right: left & right, [*same, is_older]),
            "left_anti",
        )

    def keep(self, rows: DataFrame, count: int) -> None:
        """Add deletes, and compact the table when it has many files.

        Args:
            rows: The deletes, with key and sequence.
            count: Their number.
        """
        kept = rows.select(*(F.col(f"`{name}`") for name in [*self._key, *self._sequence]))
        if count > _FEW:
            kept.coalesce(1).write.format("delta").mode("append").save(self._folder)
        else:
            # Delta's Rust library needs milliseconds where Spark needs half a second.
            write_deltalake(self._folder, kept.toArrow(), mode="append")
            # Spark's checksum of a Delta checkpoint that Rust may just have replaced.
            Path(self._folder, "_delta_log", "._last_checkpoint.crc").unlink(missing_ok=True)
        table = DeltaTable(self._folder)
        if not _CONFIGURATION.items() <= table.metadata().configuration.items():
            table.alter.set_table_properties(_CONFIGURATION)
        if len(table.file_uris()) > _MOST_FILES:
            table.optimize.compact()
            table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
