"""Ranges of a pipeline's target as Dagster partitions, and what has materialized them."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg

from hybrid_extensions.ranges import metadata
from hybrid_extensions.ranges.backfill import latest_end
from hybrid_extensions.ranges.declare import Ranges, RangesSection
from hybrid_extensions.ranges.table.row_counts import rows_by_range
from orchestration.defs.time_partitions import time_partitions
from sources.config.loader import LoadedPipeline
from sources.serving import read_serving

MOST_MARKED = 2_000
"""Most partitions marked as filled at once; each is an event in Dagster's log."""
HISTORY, LIVE = "history", "the live run; there is nothing to recompute from files"
"""What has delivered the rows of a range."""
FOLLOWED = "the followed table"
"""The same of a range of a table that was made of another one."""
ARRIVING = "the live run, as rows arrive; there is nothing to recompute from files"
"""The same of a range that no row of a later range has followed yet."""


def ranges_key(loaded: LoadedPipeline) -> dg.AssetKey:
    """Return the key of the asset of a pipeline's ranges: ``[pipeline, "ranges"]``."""
    return dg.AssetKey([loaded.pipeline.name, "ranges"])


def partitions(ranges: Ranges) -> dg.TimeWindowPartitionsDefinition:
    """Return the declared ranges of event times as partitions, up to now or to the declared end.

    One for each hour, day or month (``ranges.by``), in UTC.
    """
    return time_partitions(ranges.by, ranges.start, ranges.end)


def filled_ranges(
    loaded: LoadedPipeline, instance: dg.DagsterInstance
) -> list[dg.AssetMaterialization]:
    """Return events that mark ranges as materialized in Dagster, by history or the live run.

    So Dagster shows as *missing* only ranges that can be recomputed. The caller reports them. They
    are of the serving generation; at most :data:`MOST_MARKED` ranges, without those that are marked
    already. Empty if the pipeline declares no ``ranges``, or history has not been read to its end.

    Args:
        loaded: The pipeline.
        instance: Dagster's instance, which knows the marked partitions.

    Raises:
        StateError: Nothing was planned yet.
        InputError: The table can't be read.
        UnavailableError: A store does not answer.
    """
    ranges = loaded.section(RangesSection).ranges
    if ranges is None or (complete := latest_end(loaded)) is None:
        return []
    marked = instance.get_materialized_partitions(ranges_key(loaded))
    windows = windows_of(ranges)
    new = [key for key in windows if key not in marked][:MOST_MARKED]
    if not new:
        return []
    generation = read_serving(loaded).generation
    rows = rows_by_range(loaded, {key: windows[key] for key in new})
    by_history = len(partitions(ranges).get_partition_keys(current_time=complete))
    of_history = set(list(windows)[:by_history])
    events = []
    for at, key in enumerate(new):
        by = HISTORY if key in of_history else LIVE
        # A range is marked once: what it holds so far would stay, as if it were all.
        if by == LIVE and key in rows and not any(rows[later] for later in new[at + 1 :]):
            events.append(materialized_range(loaded, key, generation, ARRIVING, None))
        else:
            events.append(materialized_range(loaded, key, generation, by, rows.get(key)))
    return events


def materialized_range(
    loaded: LoadedPipeline, key: str, generation: str, by: str, rows: int | None
) -> dg.AssetMaterialization:
    """Return the event that marks one range as materialized; the caller reports it.

    Args:
        loaded: The pipeline.
        key: The partition.
        generation: Generation that readers see.
        by: :data:`HISTORY`, :data:`LIVE` or :data:`ARRIVING`.
        rows: Number of its rows; None if they are not counted.
    """
    shown = metadata.filled(generation, by, rows)
    return dg.AssetMaterialization(ranges_key(loaded), partition=key, metadata=shown)


def windows_of(ranges: Ranges) -> dict[str, tuple[datetime, datetime]]:
    """Return begin (inclusive) and end (exclusive) in UTC of each declared range that has ended.

    They are by partition key, in order. Ended by the clock: whether history or the live run has the
    rows yet is not asked.
    """
    made = partitions(ranges)
    windows = {key: made.time_window_for_partition_key(key) for key in made.get_partition_keys()}
    return {
        key: (window.start.astimezone(UTC), window.end.astimezone(UTC))
        for key, window in windows.items()
    }
