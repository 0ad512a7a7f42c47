"""Merging of a pipeline whose sink has a ``sequence`` of changes, or a ``history`` of versions."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame

from hybrid_extensions.ordered_changes.spark.every_version import merge_versions
from hybrid_extensions.ordered_changes.spark.newest_change import merge_changes
from hybrid_extensions.ordered_changes.spark.small_changes import SmallChanges
from hybrid_extensions.ordered_changes.spark.truncation import Truncation
from sources.config.loader import LoadedPipeline
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.merge_strategy import Merging


def ordered_merging(loaded: LoadedPipeline, target: Folder, generation: Generation) -> Merging:
    """Return how a pipeline's sink merges: by the order of changes, or as versions.

    Args:
        loaded: The pipeline; its sink declares ``sequence`` or ``history``.
        target: The table's folder, which exists.
        generation: State of the generation that owns the target.

    Raises:
        StateError: The pipeline follows TRUNCATEs, and the position of the last one is damaged.
        UnavailableError: The state's store does not answer.
    """
    sink = loaded.pipeline.sink
    truncation = Truncation(sink, generation) if loaded.pipeline.follows_truncates else None
    if sink.history is not None:
        rows = partial(merge_versions, target=target, sink=sink, generation=generation)
        return Merging(sink, target, generation, rows)

    def small(rows: DataFrame) -> SmallChanges | None:
        made_of = (rows, sink, target, generation, truncation)
        return SmallChanges(*made_of) if SmallChanges.fits(rows, sink) else None

    merge = partial(
        merge_changes, target=target, sink=sink, generation=generation, truncation=truncation
    )
    return Merging(sink, target, generation, merge, small)
