"""Merge of a small micro-batch of changes that the driver has in memory, without a Spark job.

Spark merges the same micro-batch to the same rows
(:func:`hybrid_extensions.ordered_changes.spark.newest_change.merge_changes`), with rules for
changes that are not whole, or that something later has overtaken. A micro-batch with such changes
is not merged here, but left to Spark.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Transaction
from pyspark.sql import DataFrame

from hybrid_extensions.ordered_changes.spark.deletes import Deletes
from hybrid_extensions.ordered_changes.spark.newest_change import change_clauses
from hybrid_extensions.ordered_changes.spark.truncation import Truncation
from sources.config.table.sink import Sink
from sources.decoding.batch_cursor import as_mask
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.keys import KeyRange
from spark_jobs.inside.sink.merging.small_merge import SmallMerge, compares_alike, merge_by_rust
from spark_jobs.inside.sink.merging.target_columns import target_rows
from spark_jobs.table.kept_deletes import DELETES


class SmallChanges:
    """Merges a query's small micro-batches of changes in the driver, by the order of the sequence.

    Args:
        rows: The query's rows, of which only the columns are looked at.
        sink: The declaration of the sink, for which :meth:`fits` is true.
        target: The table's folder.
        generation: State of the generation; it keeps deletes of removed rows.
        truncation: The TRUNCATEs that are followed; None if they are not.
    """

    def __init__(
        self,
        rows: DataFrame,
        sink: Sink,
        target: Folder,
        generation: Generation,
        truncation: Truncation | None,
    ) -> None:
        self._sink = sink
        self._target = target
        self._generation = generation
        self._truncation = truncation
        self._keys = KeyRange(rows, sink.key)
        self._clauses = change_clauses(sink, target_rows(rows, sink), is_complete=True)
        self._deletes = Deletes(generation.folder(DELETES), sink) if sink.deleted else None

    @classmethod
    def fits(cls, rows: DataFrame, sink: Sink) -> bool:
        """Return whether micro-batches of a sink can be merged so; never if deletes are soft.

        Args:
            rows: The query's rows, of which only the columns are looked at.
            sink: The declaration of the sink, with a ``sequence``.
        """
        return sink.removes_rows and compares_alike(rows.schema, [*sink.key, *sink.order])

    def merge(self, changes: pa.RecordBatch, batch_id: int, metadata: str) -> bool:
        """Merge a micro-batch in one commit, unless the table records it already.

        Args:
            changes: The changes, in the order in which they were read.
            batch_id: Number of the micro-batch, the version of the commit's transaction.
            metadata: What the commit says in ``userMetadata``.

        Returns:
            Whether it is done; False if Spark has to merge it: a change lacks a value or its key,
            may be older than a TRUNCATE or than a delete whose row is gone, or the MERGE is not
            small.

        Raises:
            UnavailableError: The login to the store has expired.
        """
        if self._has_special(changes):
            return False
        last = last_of_each_key(pa.Table.from_batches([changes]), self._sink)
        small = SmallMerge(
            rows=last.num_rows,
            bytes=last.nbytes,
            compared=[*self._sink.key, *self._sink.order],
            clauses=self._clauses,
            empty=self._sink.unchanged,
        )
        if self._deletes is not None and self._sink.deleted and last.num_rows:
            gone = pc.fill_null(last[self._sink.deleted], fill_value=False)
            others = last.filter(pc.invert(gone))
            if others.num_rows and self._deletes.may_hold_later(self._lowest(others)):
                return False
            if others.num_rows < last.num_rows:
                # Before the rows are removed: a batch that is tried again finds them kept.
                kept = last.filter(gone).select([*self._sink.key, *self._sink.order])
                self._deletes.keep_few(kept)
        match = self._keys.match(self._keys.limits_of(last))
        transaction = Transaction(self._generation.info.transaction_id, batch_id)
        return merge_by_rust(lambda: last, self._target, match, small, transaction, metadata)

    def _has_special(self, changes: pa.RecordBatch) -> bool:
        """Return whether rules apply to a change that only Spark's merge has."""
        if any(changes.column(name).null_count for name in self._sink.key):
            return True
        unchanged = self._sink.unchanged
        if unchanged is not None and changes.column(unchanged).null_count < len(changes):
            return True
        if self._truncation is None:
            return False
        return self._truncation.hides_some(changes.column(self._sink.order[0]))

    def _lowest(self, others: pa.Table) -> object | None:
        """Return the lowest value of the first sequence column, as :class:`Deletes` compares it."""
        column = others[self._sink.order[0]]
        if column.null_count:
            return None
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        found: object | None = pc.min(column).as_py()
        return found


def last_of_each_key(changes: pa.Table, sink: Sink) -> pa.Table:
    """Return the change of each key with the highest sequence; of equal ones that read last.

    Args:
        changes: Changes whose keys have no null, in the order in which they were read.
        sink: The declaration of the sink.
    """
    # Names of their own, as Arrow takes a dot for a path.
    columns = {f"k{n}": changes[name] for n, name in enumerate(sink.key)}
    keys = list(columns)
    for number, name in enumerate(sink.order):
        # As structs compare in Spark: field by field, and null comes first.
        columns |= {f"v{number}": changes[name].is_valid(), f"s{number}": changes[name]}
    columns["arrival"] = pa.array(range(changes.num_rows), pa.int64())
    by = [(name, "ascending") for name in columns]
    order = pc.sort_indices(pa.table(columns), sort_keys=by)
    ordered = pa.table({name: columns[name] for name in keys}).take(order)
    before, after = ordered.slice(0, max(ordered.num_rows - 1, 0)), ordered.slice(1)
    differs = [as_mask(pc.not_equal(before[name], after[name]).combine_chunks()) for name in keys]
    is_last = np.ones(changes.num_rows, np.bool_)
    is_last[:-1] = reduce(np.logical_or, differs)
    return changes.take(order.filter(pa.array(is_last, pa.bool_())))
