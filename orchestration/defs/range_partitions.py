"""Ranges of a pipeline's target as Dagster's partitions: all, and those of history."""

from __future__ import annotations

from datetime import UTC, datetime, time

import dagster as dg

from orchestration.defs import metadata
from orchestration.generations.ranges import complete_through
from sources.config.loader import LoadedPipeline
from sources.config.reruns import Ranges
from sources.generations import read_serving

MOST_MARKED = 2_000
"""Of history's partitions that are marked as filled at once; each is an event in Dagster's log."""


def ranges_key(loaded: LoadedPipeline) -> dg.AssetKey:
    """The asset of a pipeline's ranges."""
    return dg.AssetKey([loaded.pipeline.name, "ranges"])


def partitions(ranges: Ranges) -> dg.TimeWindowPartitionsDefinition:
    """All ranges, until now or to the last one."""
    start = datetime.combine(ranges.start, time(), UTC)
    end = None if ranges.end is None else datetime.combine(ranges.end, time(), UTC)
    if ranges.by == "hour":
        return dg.HourlyPartitionsDefinition(start_date=start, end_date=end, timezone="UTC")
    if ranges.by == "day":
        return dg.DailyPartitionsDefinition(start_date=start, end_date=end, timezone="UTC")
    return dg.MonthlyPartitionsDefinition(start_date=start, end_date=end, timezone="UTC")


def filled_by_history(
    loaded: LoadedPipeline, generation: str, instance: dg.DagsterInstance
) -> list[dg.AssetMaterialization]:
    """The whole ranges of the serving generation's history that are not marked as filled yet.

    The last ones only, of very many.

    Args:
        loaded: The pipeline.
        generation: Whose history has ended; readers see nothing of one that does not serve.
        instance: Knows which are marked.
    """
    ranges = loaded.pipeline.ranges
    if ranges is None or read_serving(loaded).generation != generation:
        return []
    if (complete := complete_through(loaded)) is None:
        return []
    keys = partitions(ranges).get_partition_keys(current_time=complete)
    marked = instance.get_materialized_partitions(ranges_key(loaded))
    return [
        dg.AssetMaterialization(
            asset_key=ranges_key(loaded),
            partition=key,
            metadata=metadata.filled_by_history(generation),
        )
        for key in keys[-MOST_MARKED:]
        if key not in marked
    ]
