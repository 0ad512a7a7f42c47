"""Merging of a query's micro-batches: by key, by the order of changes, or as versions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pyspark.sql import DataFrame

from sources.config.loader import LoadedPipeline
from sources.config.table.sink import Sink
from sources.extensions import contributions
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.by_key import merge_by_key
from spark_jobs.inside.sink.merging.every_version import merge_versions
from spark_jobs.inside.sink.merging.newest_change import merge_changes
from spark_jobs.inside.sink.merging.small_changes import SmallChanges
from spark_jobs.inside.sink.merging.truncation import Truncation
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
        """


@dataclass(frozen=True)
class Merging:
    """How a query's micro-batches are merged; created in the driver when the query begins.

    Attributes:
        sink: The declaration of the sink.
        target: The table's folder, which exists.
        generation: State of the generation that owns the target.
        rows: Merges rows in one commit.
        truncation: The TRUNCATEs that are followed; None if they are not.
        is_plain: Whether a micro-batch of changes is merged as a whole, and in one commit, so that
            the driver may do it.
    """

    sink: Sink
    target: Folder
    generation: Generation
    rows: MergeRows
    truncation: Truncation | None = None
    is_plain: bool = False

    def in_driver(self, rows: DataFrame) -> SmallChanges | None:
        """Return what merges small micro-batches without Spark; None if Spark has to merge.

        Args:
            rows: The query's rows, of which only the columns are looked at.
        """
        if not self.is_plain:
            return None
        made_of = (rows, self.sink, self.target, self.generation, self.truncation)
        return SmallChanges(*made_of) if SmallChanges.fits(rows, self.sink) else None

    def batch(self, batch: DataFrame, batch_id: int, guard: TargetGuard) -> None:
        """Merge a micro-batch in one commit, unless the target already contains it.

        Args:
            batch: Rows that the transform returned.
            batch_id: Number of the micro-batch.
            guard: Refuses a micro-batch that does not follow what the target holds.

        Raises:
            StateError: The target lacks micro-batches, or holds later ones.
            InputError: The rows can't be merged, such as two with the same key.
        """
        guard.before(batch_id)
        self.rows(batch, batch_id)


def declared_merging(loaded: LoadedPipeline, target: Folder, generation: Generation) -> Merging:
    """Return how a pipeline's sink merges: by key, by the order of changes, or as versions.

    Extensions wrap it.

    Args:
        loaded: The pipeline; its sink merges.
        target: The table's folder, which exists.
        generation: State of the generation that owns the target.
    """
    sink = loaded.pipeline.sink
    rows: MergeRows
    truncation = Truncation(sink, generation) if loaded.pipeline.follows_truncates else None
    if sink.history is not None:
        rows = partial(merge_versions, target=target, sink=sink, generation=generation)
    elif sink.sequence:
        rows = partial(
            merge_changes, target=target, sink=sink, generation=generation, truncation=truncation
        )
    else:
        rows = partial(merge_by_key, target=target, key=sink.key, generation=generation)
    is_plain = sink.history is None and bool(sink.sequence)
    merging = Merging(sink, target, generation, rows, truncation, is_plain)
    for around in contributions("merging"):
        merging = around(loaded, merging)
    return merging
