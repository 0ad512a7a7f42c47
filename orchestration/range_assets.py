"""Ranges of the target as partitions of an asset, so that Dagster's UI shows and backfills them."""

from collections.abc import Iterator
from datetime import UTC, datetime, time
from functools import partial
from typing import Any

import dagster as dg

from orchestration import metadata
from orchestration.assets import failures
from orchestration.clock import schedule
from orchestration.ranges import backfill, complete_through
from sources.document import LoadedPipeline, load_pipeline
from sources.reruns import Ranges


def range_definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """The asset of a pipeline's ranges and its job; nothing if it declares none."""
    ranges = loaded.pipeline.ranges
    if ranges is None:
        return dg.Definitions()
    name = loaded.pipeline.name

    @dg.asset(
        key=dg.AssetKey([name, "ranges"]),
        # Not of the chain's group: its job materializes all of that.
        group_name=f"{name}_ranges",
        kinds={"spark", "deltalake"},
        partitions_def=_partitions(ranges),
        # One Spark run for a range of partitions.
        backfill_policy=dg.BackfillPolicy.single_run(),
        description=(
            "Rows of history in a range of event times, made anew from the files as they are now. "
            "Rows that the live run delivered stay, and the live run goes on."
        ),
    )
    def ranges_(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        window = context.partition_time_window
        run = context.run
        with failures():
            found = backfill(
                load_pipeline(loaded.path),
                window.start.astimezone(UTC),
                window.end.astimezone(UTC),
                (run.root_run_id or run.run_id)[:13],
                context.log.info,
            )
        yield dg.MaterializeResult(metadata=metadata.replaced(found))

    job = dg.define_asset_job(
        f"{name}_backfill",
        selection=[ranges_],
        description="Makes ranges of the target anew; choose partitions at its launch.",
    )
    schedules = [
        schedule(loaded, each, job, partial(_last_ranges, loaded, ranges, each.last))
        for each in ranges.reruns
    ]
    return dg.Definitions(assets=[ranges_], jobs=[job], schedules=schedules)


def _last_ranges(loaded: LoadedPipeline, ranges: Ranges, count: int) -> dict[str, Any] | str:
    """The last ranges that end where history is complete, or before."""
    with failures():
        complete = complete_through(load_pipeline(loaded.path))
    if complete is None:
        return "History was not read to its end yet."
    whole = _partitions(ranges).get_partition_keys(current_time=complete)
    if not whole:
        return "No range is complete yet."
    asked = whole[-count:]
    return {
        "tags": {
            "dagster/asset_partition_range_start": asked[0],
            "dagster/asset_partition_range_end": asked[-1],
        }
    }


def _partitions(ranges: Ranges) -> dg.TimeWindowPartitionsDefinition:
    start = datetime.combine(ranges.start, time(), UTC)
    if ranges.by == "hour":
        return dg.HourlyPartitionsDefinition(start_date=start, timezone="UTC")
    if ranges.by == "day":
        return dg.DailyPartitionsDefinition(start_date=start, timezone="UTC")
    return dg.MonthlyPartitionsDefinition(start_date=start, timezone="UTC")
