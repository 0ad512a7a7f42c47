"""Strategy of the merge into the target: by key, or by the order of changes (an extension's)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from sources.config.loader import LoadedPipeline
from sources.config.table.sink import Sink
from sources.extensions import contributions, none_adds
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.by_key import merge_by_key
from spark_jobs.table.ownership.target_guard import TargetGuard


class MergeRows(Protocol):
    """Function that merges rows into the target in one commit, once for each number."""

    def __call__(self, batch: DataFrame, batch_id: int, *, application: str | None = None) -> None:
        """Merge rows into the target in one commit; do nothing if that number was merged before.

        Args:
            batch: The rows.
            batch_id: Number of the micro-batch, the version of the commit's transaction.
            application: Delta's application id of the commit, which has numbers of its own; None
                for that of the generation's micro-batches.

        Raises:
            InputError: The rows can't be merged, such as two with the same key; nothing is written.
        """


class ChangesInDriver(Protocol):
    """Interface of what merges small micro-batches of changes in the driver, without Spark."""

    def merge(self, changes: pa.RecordBatch, batch_id: int, metadata: str) -> bool:
        """Merge a micro-batch in one commit, unless the table records it already.

        Args:
            changes: The changes, in the order in which they were read.
            batch_id: Number of the micro-batch, the version of the commit's transaction.
            metadata: What the commit says in ``userMetadata``.

        Returns:
            Whether it is done; False if Spark has to merge it.
        """


@dataclass(frozen=True)
class Merging:
    """Declared merging of a query's micro-batches; created in the driver when the query begins.

    Attributes:
        sink: The declaration of the sink.
        target: The table's folder, which exists.
        generation: State of the generation that owns the target.
        rows: Merges rows in one commit.
        small: Makes what merges small micro-batches of a query without Spark, from the query's
            rows, of which only the columns are looked at; or None. None where Spark merges all.
    """

    sink: Sink
    target: Folder
    generation: Generation
    rows: MergeRows
    small: Callable[[DataFrame], ChangesInDriver | None] | None = None

    def in_driver(self, rows: DataFrame) -> ChangesInDriver | None:
        """Return what merges small micro-batches without Spark; None if Spark has to merge.

        Args:
            rows: The query's rows, of which only the columns are looked at.
        """
        return None if self.small is None else self.small(rows)

    def batch(self, batch: DataFrame, batch_id: int, guard: TargetGuard) -> None:
        """Merge a micro-batch in one commit, unless the target already contains it.

        Args:
            batch: Rows that the transform returned.
            batch_id: Number of the micro-batch.
            guard: Refuses a micro-batch that does not follow what the target holds.

        Raises:
            StateError: The target lacks micro-batches, holds later ones, or others changed its
                rows.
            InputError: The rows can't be merged, such as two with the same key; or the table can't
                be read.
            UnavailableError: The table's store does not answer.
        """
        guard.before(batch_id)
        self.rows(batch, batch_id)


def declared_merging(loaded: LoadedPipeline, target: Folder, generation: Generation) -> Merging:
    """Return the merging that a sink declares: by key, by the order of changes, or as versions.

    Extensions wrap it.

    Args:
        loaded: The pipeline; its sink merges.
        target: The table's folder, which exists.
        generation: State of the generation that owns the target.

    Raises:
        InputError: The sink has ``sequence`` or ``history``, and no installed extension merges so.
    """
    sink = loaded.pipeline.sink
    if sink.history is None and not sink.sequence:
        rows = partial(merge_by_key, target=target, key=sink.key, generation=generation)
        merging = Merging(sink, target, generation, rows)
    else:
        merging = _ordered(loaded, target, generation)
    for around in contributions("merging"):
        merging = around(loaded, merging)
    return merging


def _ordered(loaded: LoadedPipeline, target: Folder, generation: Generation) -> Merging:
    """Return the merging by the order of changes, or as versions, of an installed extension."""
    for make in contributions("ordered_merging"):
        merging: Merging = make(loaded, target, generation)
        return merging
    does = "merges rows by `sink.sequence`, or keeps their versions by `sink.history`"
    otherwise = "declare a sink without `sequence` and `history`, which merges by key alone"
    raise none_adds(does, otherwise, field="sink.sequence")
