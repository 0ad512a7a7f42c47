"""Ranges of the target as partitions of an asset, for Dagster's UI to show and backfill."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.defs import generation_metadata
from orchestration.defs.failures import failures
from orchestration.defs.jobs import job_of
from orchestration.defs.range_partitions import partitions, ranges_key
from orchestration.defs.schedules import schedule
from orchestration.generations.ranges import backfill, complete_through, look
from sources.common.fields import parse_instant
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.reruns import Ranges
from sources.errors import InputError


class RangeConfig(dg.Config):
    """Launch form of a range that is recomputed."""

    # Validated by `parse_instant`: Pydantic's refusals show as a stack trace.
    since: str = Field(
        default="",
        description="First event time of the range: 2024-03-01, or 2024-03-01T12:00:00Z.",
    )
    until: str = Field(
        default="", description="First event time after the range; it is left as it is."
    )
    dry_run: bool = Field(
        default=False, description="Only show what would be read; nothing is written."
    )


def range_definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return the Dagster definitions for recomputing ranges of event times of the target.

    A job recomputes any range. If the pipeline declares ``ranges``, there are also an asset with a
    partition for each range, a job that backfills partitions, and the declared schedules.
    """
    any_range = dg.Definitions(jobs=[job_of(loaded, "backfill_range", _any_range(loaded))])
    ranges = loaded.pipeline.ranges
    return any_range if ranges is None else dg.Definitions.merge(any_range, _asset(loaded, ranges))


def _asset(loaded: LoadedPipeline, ranges: Ranges) -> dg.Definitions:
    name = loaded.pipeline.name

    @dg.asset(
        key=ranges_key(loaded),
        # Not in the chain's group: the chain's job materializes all of that.
        group_name=f"{name}_ranges",
        kinds={"spark", "deltalake"},
        partitions_def=partitions(ranges),
        # One Spark run for a range of partitions.
        backfill_policy=dg.BackfillPolicy.single_run(),
        description=(
            "Rows of history in a range of event times. Materializing a partition recomputes them "
            "from the present files; rows of the live run are kept, and the live run continues."
        ),
    )
    def ranges_(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        window = context.partition_time_window
        with failures():
            found = backfill(
                load_pipeline(loaded.path),
                window.start.astimezone(UTC),
                window.end.astimezone(UTC),
                _run_id(context.run),
                context.log.info,
            )
        yield dg.MaterializeResult(metadata=generation_metadata.replaced(found))

    job = dg.define_asset_job(
        f"{name}_backfill",
        selection=[ranges_],
        description="Recompute ranges of the target from the files; the live run continues. "
        "Choose the ranges (partitions) at the launch.",
    )
    schedules = [
        schedule(loaded, each, job, partial(_last_ranges, loaded, ranges, each.last))
        for each in ranges.reruns
    ]
    return dg.Definitions(assets=[ranges_], jobs=[job], schedules=schedules)


def _any_range(loaded: LoadedPipeline) -> Callable[..., None]:
    def backfill_range(context: dg.OpExecutionContext, config: RangeConfig) -> None:
        """Recompute any range of the target from the files. The live run continues."""
        fresh = load_pipeline(loaded.path)
        with failures():
            since, until = (_instant(name, config) for name in ("since", "until"))
            if config.dry_run:
                found = look(fresh, since, until)
                context.add_output_metadata(generation_metadata.looked(found))
                context.log.info(found.text)
                return
            done = backfill(fresh, since, until, _run_id(context.run), context.log.info)
        context.add_output_metadata(generation_metadata.replaced(done))

    return backfill_range


def _run_id(run: dg.DagsterRun) -> str:
    """Return the idempotency key: a retried Dagster run resumes the same backfill."""
    return (run.root_run_id or run.run_id)[:13]


def _instant(name: str, config: RangeConfig) -> datetime:
    given = getattr(config, name)
    try:
        return parse_instant(given)
    except InputError as error:
        message = f"Field `{name}` of the launch form: {error.message}"
        raise InputError(message, error.hint, field=name, value=given) from None


def _last_ranges(loaded: LoadedPipeline, ranges: Ranges, count: int) -> dict[str, Any] | str:
    """Return the run request for the last ranges that history covers, or why there is none."""
    with failures():
        complete = complete_through(load_pipeline(loaded.path))
    if complete is None:
        return "History has not been read to its end yet, so no range is complete."
    whole = partitions(ranges).get_partition_keys(current_time=complete)
    if not whole:
        return f"No range is complete yet: history is complete through {complete.isoformat()}."
    asked = whole[-count:]
    return {
        "tags": {
            "dagster/asset_partition_range_start": asked[0],
            "dagster/asset_partition_range_end": asked[-1],
        }
    }
