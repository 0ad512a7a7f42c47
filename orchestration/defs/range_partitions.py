"""Ranges of a pipeline's target as Dagster partitions: all, and those that history filled."""

from __future__ import annotations

from datetime import UTC, datetime, time

import dagster as dg

from orchestration.defs import generation_metadata
from orchestration.generations.ranges import complete_through
from sources.config.loader import LoadedPipeline
from sources.config.reruns import Ranges
from sources.serving import read_serving

MOST_MARKED = 2_000
"""Most partitions of history marked as filled at once; each is an event in Dagster's log."""


def ranges_key(loaded: LoadedPipeline) -> dg.AssetKey:
    """Return the key of the asset of a pipeline's ranges: ``[pipeline, "ranges"]``."""
    return dg.AssetKey([loaded.pipeline.name, "ranges"])


def partitions(ranges: Ranges) -> dg.TimeWindowPartitionsDefinition:
    """Return the declared ranges of event times as partitions, up to now or to the declared end.

    One for each hour, day or month (``ranges.by``), in UTC.
    """
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
    """Return events that mark the complete ranges of history as filled in Dagster's UI.

    Only for the serving generation, since readers see nothing of another one; at most the last
    :data:`MOST_MARKED` ranges, without those that are marked already. Empty if the pipeline
    declares no ``ranges``, or history has not been read to its end.

    Args:
        loaded: The pipeline.
        generation: The generation whose history has ended.
        instance: Dagster's instance, which knows the marked partitions.

    Raises:
        StateError: Nothing was planned yet.
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
            metadata=generation_metadata.filled_by_history(generation),
        )
        for key in keys[-MOST_MARKED:]
        if key not in marked
    ]
