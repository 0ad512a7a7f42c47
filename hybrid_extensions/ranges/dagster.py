"""Ranges of the target in Dagster: partitions of an asset, and the job for any range."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from warnings import catch_warnings, simplefilter

import dagster as dg
from pydantic import Field

from hybrid_extensions.generations.table_report import report_table
from hybrid_extensions.ranges import metadata
from hybrid_extensions.ranges.adjacent import backfill_adjacent
from hybrid_extensions.ranges.backfill import backfill, latest_end, look
from hybrid_extensions.ranges.declare import Ranges, RangesSection
from hybrid_extensions.ranges.followed.dagster import (
    DESCRIPTION,
    follow_partitions,
    followed_keys,
)
from hybrid_extensions.ranges.followed.follow import follows_a_table
from hybrid_extensions.ranges.jobs import BACKFILL, backfill_key
from hybrid_extensions.ranges.partitions import (
    HISTORY,
    LIVE,
    filled_ranges,
    materialized_range,
    partitions,
    ranges_key,
)
from hybrid_extensions.ranges.table.row_counts import rows_by_range
from hybrid_extensions.schedules.ticks import schedule
from orchestration.attribution import acting_user
from orchestration.defs.assets.upstream import upstream_keys
from orchestration.defs.jobs.form_job import job_of
from orchestration.defs.keys import (
    GENERATION_TAG,
    POOL,
    RESULT_TAG,
    note_on_run,
)
from orchestration.defs.show.dagster_failures import failures, load_again
from orchestration.defs.show.dagster_remedies import say_in
from sources.common.counting import counted
from sources.common.fields import parse_instant
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError
from sources.serving import read_serving
from sources.state.generation import PLAN

WHEN_UPDATED = (
    dg.AutomationCondition.any_deps_updated().since_last_handled()
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
)
"""Condition that an asset upstream was updated since the range was recomputed, whichever range it
is; ``eager`` would look at the latest one only, and would launch one because it is missing."""


HAS_ROWS = "has_rows"
"""Name of the check that warns of ranges that are marked as filled, although nothing is in them."""
_NO_ROWS, _DRY_RUN = "no rows", "dry run"
_MARKED_EVERY_S = 30


class RangeConfig(dg.Config):
    """Launch form of a backfill of a range.

    Attributes:
        since: First event time of the range, as text; empty for the default.
        until: First event time after the range, as text; empty for the default.
        dry_run: Whether to show only what would be read.
    """

    # Validated by `parse_instant`: Pydantic's refusals show as a stack trace.
    since: str = Field(
        default="",
        description="First event time of the range, as YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ. Empty: "
        "a day before `until`; if that is empty, too, the last whole day (UTC) of history.",
    )
    until: str = Field(
        default="",
        description="First event time after the range; it is left as it is. Empty: a day later.",
    )
    dry_run: bool = Field(
        default=True, description="Only show what would be read; nothing is written."
    )


def definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return the Dagster definitions for recomputing ranges of event times of the target.

    The job ``<pipeline>_backfill`` recomputes any range that its form names. If the pipeline
    declares ``ranges``, these are also partitions of an asset, which are recomputed from its page,
    by Dagster's backfills and by the declared schedules.
    """
    job = job_of(loaded, BACKFILL.name(loaded), _any_range(loaded), _text(loaded))
    any_range = dg.Definitions(jobs=[job])
    ranges = loaded.section(RangesSection).ranges
    return any_range if ranges is None else dg.Definitions.merge(any_range, _asset(loaded, ranges))


def _asset(loaded: LoadedPipeline, ranges: Ranges) -> dg.Definitions:
    name, is_follower = loaded.pipeline.name, follows_a_table(loaded)

    with catch_warnings():
        # That one run does many partitions is beta, which Dagster would say at each load.
        simplefilter("ignore", dg.BetaWarning)
        as_asset = dg.asset(
            key=ranges_key(loaded),
            deps=followed_keys(loaded) if is_follower else _files(loaded),
            # Not in the chain's group: the chain's job materializes all of that.
            group_name=f"{name}_ranges",
            kinds={"spark", "deltalake"},
            partitions_def=partitions(ranges),
            # One Spark run for a range of partitions.
            backfill_policy=dg.BackfillPolicy.single_run(),
            pool=POOL,
            automation_condition=WHEN_UPDATED if ranges.automatic else None,
            description=DESCRIPTION if is_follower else _DESCRIPTION,
            check_specs=[
                dg.AssetCheckSpec(
                    HAS_ROWS,
                    asset=ranges_key(loaded),
                    description="Each range of the last run has rows. One that has none is marked "
                    "as filled, too, as there is nothing to recompute.",
                )
            ],
        )

    @as_asset
    def ranges_(
        context: dg.AssetExecutionContext,
    ) -> Iterator[dg.MaterializeResult[None]]:
        events: list[dg.AssetMaterialization] = []
        try:
            with failures(loaded):
                for event in _recomputed(context, load_again(loaded.path), ranges):
                    events.append(event)
        except BaseException:
            # Those before a failure are done, and shown as such.
            for event in events:
                context.log_event(event)
            raise
        # Each partition is reported with its own number of rows, by the result: where there is
        # none, Dagster skips in this run what is made of the ranges.
        for event in events:
            context.add_asset_metadata(dict(event.metadata), event.asset_key, event.partition)
        rows = {str(event.partition): _rows(event) for event in events}
        if not any(each is None or each for each in rows.values()):
            note_on_run(context, {RESULT_TAG: _NO_ROWS})
        yield dg.MaterializeResult(check_results=[metadata.rows_in_ranges(HAS_ROWS, rows)])

    schedules = [
        schedule(loaded, each, ranges_, partial(_last_ranges, loaded, ranges, each.last))
        for each in ranges.reruns
    ]
    sensors = [_marks(loaded), *([_automation(name)] if ranges.automatic else [])]
    return dg.Definitions(assets=[ranges_], schedules=schedules, sensors=sensors)


_DESCRIPTION = (
    "Rows of history in a range of event times. Materializing a partition recomputes them from the "
    "present files; rows of the live run are kept, and the live run continues."
)


def _files(loaded: LoadedPipeline) -> list[dg.AssetKey]:
    """Return the assets that the files of history come from."""
    return [
        key
        for source in loaded.pipeline.bounded_files
        for key in upstream_keys(loaded, source.name)
    ]


def _text(loaded: LoadedPipeline) -> str:
    """Return the description of the job that recomputes ranges."""
    return (
        "For later: recomputes a range of event times from the files, such as after files were "
        f"corrected. The table is that of `{loaded.pipeline.name}`. Rows that the live stream "
        "wrote are kept, and the stream continues. Only times that files have delivered can be "
        "recomputed, not those that came from the stream."
    )


def _rows(event: dg.AssetMaterialization) -> int | None:
    """Return the number of rows that a range is reported with; None if they were not counted."""
    found = event.metadata.get("dagster/row_count")
    return found.value if isinstance(found, dg.IntMetadataValue) else None


def _automation(name: str) -> dg.AutomationConditionSensorDefinition:
    """Return the sensor that acts on the condition; Dagster's own one is off by default."""
    return dg.AutomationConditionSensorDefinition(
        f"{name}_automation",
        target=dg.AssetSelection.assets([name, "ranges"]),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Recomputes ranges of the table whose files were updated upstream.",
    )


def _marks(loaded: LoadedPipeline) -> dg.SensorDefinition:
    """Return the sensor that marks ranges as filled that need no recomputation."""

    @dg.sensor(
        name=f"{loaded.pipeline.name}_ranges",
        minimum_interval_seconds=_MARKED_EVERY_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Marks ranges of the table as filled that history or the live run delivered.",
    )
    def mark(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        with failures(loaded):
            fresh = load_pipeline(loaded.path)
            generation = fresh.open_generation(create=False)
            if generation is None or not generation.exists(PLAN):
                return dg.SkipReason("Nothing was planned yet.")
            events = filled_ranges(fresh, context.instance)
        if not events:
            return dg.SkipReason("No further range is filled.")
        return dg.SensorResult(asset_events=events)

    return mark


def _recomputed(
    context: dg.AssetExecutionContext, loaded: LoadedPipeline, ranges: Ranges
) -> Iterator[dg.AssetMaterialization]:
    """Recompute the chosen partitions; of those after history's end only say what fills them."""
    declared, keys = partitions(ranges), context.partition_keys
    windows = {key: declared.time_window_for_partition_key(key) for key in keys}
    utc = {
        key: (each.start.astimezone(UTC), each.end.astimezone(UTC)) for key, each in windows.items()
    }
    if follows_a_table(loaded):
        yield from follow_partitions(context, loaded, utc)
        return
    complete = latest_end(loaded)
    live = [key for key in keys if complete is not None and utc[key][1] > complete]
    of_history = [key for key in keys if key not in live]
    generation = read_serving(loaded).generation
    note_on_run(context, {GENERATION_TAG: generation})
    if live:
        context.log.warning(
            f"{live[0]}{f' to {live[-1]}' if live[1:] else ''}: nothing to recompute. Ranges until "
            f"{complete} are those of history; what follows is delivered by the live run."
        )
        rows = rows_by_range(loaded, {key: utc[key] for key in live})
        for key in live:
            yield materialized_range(loaded, key, generation, LIVE, rows.get(key))
    if not of_history:
        return
    spans = {key: utc[key] for key in of_history}
    by, say = acting_user(context.run.tags, None), say_in(context, loaded)
    for done_keys, done in backfill_adjacent(loaded, spans, backfill_key(context), say, by):
        if done.is_empty or done.is_repeated:
            context.log.warning(done.text)
        shown = metadata.replaced(done, len(done_keys))
        rows = rows_by_range(loaded, {key: utc[key] for key in done_keys})
        for key in done_keys:
            event = materialized_range(loaded, key, generation, HISTORY, rows.get(key))
            yield event.with_metadata({**event.metadata, **shown})


def _any_range(loaded: LoadedPipeline) -> Callable[..., None]:
    def backfill_range(context: dg.OpExecutionContext, config: RangeConfig) -> None:
        """Recompute any range of the target from the files. The live run continues."""
        with failures(loaded):
            fresh = load_again(loaded.path)
            since, until = range_of(fresh, config)
            if config.dry_run:
                note_on_run(context, {RESULT_TAG: _DRY_RUN})
                found = look(fresh, since, until)
                rows = rows_by_range(fresh, {"range": (since, until)}).get("range")
                context.add_output_metadata(metadata.looked(found, rows))
                there = "" if rows is None else f" The table has {counted(rows, 'row')} there now."
                meanwhile = " The stream continues meanwhile." if fresh.pipeline.followed else ""
                context.log.info(
                    f"{found.text}{there} To recompute them, launch this job with "
                    f"`dry_run: false`.{meanwhile}"
                )
                return
            by = acting_user(context.run.tags, None)
            say = say_in(context, fresh)
            done = backfill(fresh, since, until, backfill_key(context), say, by)
            context.add_output_metadata(metadata.replaced(done))
            if done.is_empty:
                note_on_run(context, {RESULT_TAG: _NO_ROWS})
                context.log.warning(done.text)
            report_table(context, fresh, done.text)

    return backfill_range


def range_of(loaded: LoadedPipeline, config: RangeConfig) -> tuple[datetime, datetime]:
    """Return the range in the form, ``since`` (inclusive) and ``until`` (exclusive).

    If only one is given, it is a day long; if none is, it is the last whole day (UTC) of history.

    Raises:
        InputError: A text is no date or time; or neither is given, and history has not been read to
            its end.
        StateError: Nothing was planned yet.
        UnavailableError: The state's store does not answer.
    """
    since = _instant("since", config) if config.since else None
    until = _instant("until", config) if config.until else None
    if since is not None:
        return since, until or since + timedelta(days=1)
    if until is not None:
        return until - timedelta(days=1), until
    complete = latest_end(loaded)
    if complete is None:
        message = "History has not been read to its end yet, so there is no last day of it."
        hint = f"Materialize the job `{loaded.pipeline.name}`, or name `since` and `until`."
        raise InputError(message, hint, pipeline=loaded.pipeline.name)
    until = complete.replace(hour=0, minute=0, second=0, microsecond=0)
    return until - timedelta(days=1), until


def _instant(name: str, config: RangeConfig) -> datetime:
    given = getattr(config, name)
    try:
        return parse_instant(given)
    except InputError as error:
        message = f"Field `{name}` of the launch form: {error.message}"
        raise InputError(message, error.hint, field=name, value=given) from None


def _last_ranges(loaded: LoadedPipeline, ranges: Ranges, count: int) -> dict[str, Any] | str:
    """Return the run request for the last ranges that history covers, or why there is none."""
    with failures(loaded):
        fresh = load_pipeline(loaded.path)
        # It is on from the start, and so before anything was planned.
        is_begun = fresh.open_generation(create=False) is not None
        complete = latest_end(fresh) if is_begun else None
    if complete is None:
        return "History has not been read to its end yet, so no range is complete."
    whole = partitions(ranges).get_partition_keys(current_time=complete)
    if not whole:
        return f"No range is complete yet: history has ranges until {complete.isoformat()}."
    asked = whole[-count:]
    return {
        "tags": {
            "dagster/asset_partition_range_start": asked[0],
            "dagster/asset_partition_range_end": asked[-1],
        }
    }
