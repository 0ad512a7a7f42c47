"""Deletes that are remembered: which changes they are later than, and when none has to be read.

They are kept in a Delta table next to the checkpoint, so that an older change that arrives later
does not bring the row back. A delete that is kept twice, by a micro-batch that is tried again,
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import TimestampType

from sources.common.sql.sql_names import in_backticks
from sources.config.table.sink import Sink
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table, is_delta_table
from spark_jobs.table.kept_deletes import append_deletes

MOST_COLLECTED = 10_000
"""Deletes of a micro-batch up to which they are collected on the driver."""
MOST_FILES = 100
"""Files beyond which they are compacted: each micro-batch with a delete writes one."""
# Only this run reads the table, and never an older version.
_CONFIGURATION = {
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
}


def order(sequence: Sequence[str], of: str = "") -> Column:
    """Return a struct column by which the changes of one key are ordered; null comes first.

    Args:
        sequence: Names of the columns of the sequence, the most significant one first.
        of: Prefix of each name: a DataFrame's alias with its dot, or nothing.
    """
    # Structs compare field by field, and null comes first: rows of a snapshot have no sequence.
    return F.struct(*(F.col(f"{of}{in_backticks(name)}") for name in sequence))


def comparable(rows: DataFrame, name: str) -> Column:
    """Return a column in the form in which :class:`Deletes` compares it: timestamps as integers.

    Spark hands a timestamp to Python in the driver's local time, in which an hour comes twice when
    daylight saving time ends.

    Returns:
        Microseconds since 1970 in UTC for a timestamp, else the column itself.
    """
    column = F.col(in_backticks(name))
    return F.unix_micros(column) if rows.schema[name].dataType == TimestampType() else column


class Deletes:
    """Deletes of rows that the target has removed: a Delta table of keys and their sequences.

    So an older change that arrives later does not bring a row back.

    Args:
        folder: Folder of that table, in the state folder; the first :meth:`keep` creates it.
        sink: The declaration of the sink, which names key and sequence.
    """

    def __init__(self, folder: Folder, sink: Sink) -> None:
        self._folder = folder
        self._key = sink.key
        self._sequence = sink.order

    def may_hold_later(self, lowest: object | None) -> bool:
        """Return whether a kept delete may be later than one of a micro-batch's changes.

        Decided by the statistics of the table's files, so that most micro-batches need not read
        it; True where these do not tell, False if nothing was ever deleted.

        Args:
            lowest: Value of the first sequence column in the change with the lowest sequence, as
                :func:`comparable` returns it; None for null, which comes first.

        Raises:
            UnavailableError: The login to the store has expired.
        """
        if not is_delta_table(self._folder):
            return False
        # Only these types are ordered by Python as by Spark.
        if not isinstance(lowest, int | str):
            return True
        files = pa.table(delta_table(self._folder).get_add_actions(flatten=True))
        name = f"max.{self._sequence[0]}"
        # Statistics of timestamps are cut off to milliseconds.
        if name not in files.column_names or pa.types.is_timestamp(files[name].type):
            return True
        return any(highest is None or highest >= lowest for highest in files[name].to_pylist())

    def without_deleted_since(self, rows: DataFrame, lowest: object | None) -> DataFrame:
        """Return the changes of a micro-batch whose key has no later delete in the table.

        Call it only if :meth:`may_hold_later` returned True, as the table has to exist.

        Args:
            rows: Changes of one micro-batch, one for each key.
            lowest: Value of the first sequence column in the change with the lowest sequence, as
                :func:`comparable` returns it; None for null, which comes first.
        """
        deletes = rows.sparkSession.read.format("delta").load(self._folder.hadoop_path)
        first = F.col(in_backticks(self._sequence[0]))
        if (
            isinstance(lowest, int)
            and deletes.schema[self._sequence[0]].dataType == TimestampType()
        ):
            deletes = deletes.where(first >= F.timestamp_micros(F.lit(lowest)))
        elif isinstance(lowest, int | str) or type(lowest) is date:
            # Deletes are kept as they arrive, so few files hold a later one. Statistics of other
            # types can't be trusted: Delta's Rust library rounds decimals and leaves out NaN.
            deletes = deletes.where(first >= F.lit(lowest))
        same = [
            F.col(f"s.{in_backticks(name)}").eqNullSafe(F.col(f"d.{in_backticks(name)}"))
            for name in self._key
        ]
        is_older = order(self._sequence, "s.") < order(self._sequence, "d.")
        return rows.alias("s").join(
            deletes.alias("d"),
            reduce(lambda left, right: left & right, [*same, is_older]),
            "left_anti",
        )

    def keep(self, rows: DataFrame, count: int) -> None:
        """Append deletes to the table, before their rows are removed; a repetition does no harm.

        The table is compacted once it has more than 100 files.

        Args:
            rows: The deletes, with the columns of key and sequence.
            count: Number of these rows; up to 10,000 are written by the driver itself.

        Raises:
            UnavailableError: The login to the store has expired.
        """
        kept = rows.select(*(F.col(in_backticks(name)) for name in [*self._key, *self._sequence]))
        if count > MOST_COLLECTED:
            kept.coalesce(1).write.format("delta").mode("append").save(self._folder.hadoop_path)
            self._compact()
        else:
            self.keep_few(kept.toArrow())

    def keep_few(self, kept: pa.Table) -> None:
        """Append few deletes to the table, as :meth:`keep` does, without Spark.

        Args:
            kept: The deletes, with the columns of key and sequence and no others.

        Raises:
            UnavailableError: The login to the store has expired.
        """
        # Delta's Rust library needs milliseconds where Spark needs half a second.
        append_deletes(self._folder, kept)
        self._compact()

    def _compact(self) -> None:
        table = delta_table(self._folder)
        if not _CONFIGURATION.items() <= table.metadata().configuration.items():
            table.alter.set_table_properties(_CONFIGURATION)
        if len(table.file_uris()) > MOST_FILES:
            table.optimize.compact()
            table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
