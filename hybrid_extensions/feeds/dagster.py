"""Feeds in Dagster: an asset for each second sink, the delivering job, and its sensor."""

import time
from collections.abc import Mapping
from typing import Any

import dagster as dg

from hybrid_extensions.feeds.declare import AnyFeed, feed_of, feeds_of
from hybrid_extensions.feeds.delivery_loop import compare, compared_in_words, deliver_once, in_words
from hybrid_extensions.feeds.feed_health import FeedStatus, feed_statuses
from hybrid_extensions.feeds.kept.comparison import compare_served, served_in_words
from orchestration.defs.keys import table_group, table_key
from orchestration.defs.show.dagster_failures import failures, load_again
from sources.common.counting import counted
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline

LOOK_S = 10
"""Seconds between two looks of the sensor."""
_AGAIN_S = 60
"""Seconds between two attempts to deliver the same version."""
_FOLLOWED_MS = 3_600_000
"""Milliseconds for which a follower is believed to look again, at most."""
_SAMPLE = 10_000
"""Most rows that the check ``consistent`` compares."""
_COMPARED = ("postgres", "redis")
_KINDS: Mapping[str, str] = {"postgres": "postgres", "redis": "redis", "kafka": "kafka"}
_UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def feed_key(loaded: LoadedPipeline, feed: str) -> dg.AssetKey:
    """Return the key of a second sink's asset: ``[pipeline, "feeds", feed]``."""
    return dg.AssetKey([loaded.pipeline.name, "feeds", feed])


def feed_definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return the assets, the job and the sensor of a pipeline's feeds; nothing without feeds.

    Materializing an asset brings its sink to the newest version of the table. The sensor asks for
    it every 10 s if there is a newer version, unless a process follows the table, ``hybrid feed``.

    Args:
        loaded: The pipeline.
    """
    feeds = feeds_of(loaded)
    if not feeds:
        return dg.Definitions()
    name = loaded.pipeline.name
    job = dg.define_asset_job(
        f"{name}_feeds",
        # A comparison reads the whole table, so it is asked for.
        selection=dg.AssetSelection.assets(
            *(feed_key(loaded, each.name) for each in feeds)
        ).without_checks(),
        description="Brings the second sinks to the newest version of the table.",
        tags=loaded.pipeline.about.tags,
    )
    return dg.Definitions(
        assets=[_asset(loaded, each) for each in feeds],
        asset_checks=[
            *(_check(loaded, each) for each in feeds if each.type in _COMPARED),
            *(_served_check(loaded, each) for each in feeds if each.keep is not None),
        ],
        jobs=[job],
        sensors=[_sensor(loaded, job)],
    )


def _asset(loaded: LoadedPipeline, feed: AnyFeed) -> dg.AssetsDefinition:
    @dg.asset(
        key=feed_key(loaded, feed.name),
        deps=[table_key(loaded)],
        group_name=table_group(loaded),
        kinds={_KINDS.get(feed.type, "python")},
        description="A second sink, which gets the rows of the table from its commits.",
    )
    def deliver(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        # The sensor requests the delivery again at its next tick.
        with failures(loaded, allow_retries=False):
            fresh = load_again(loaded.path)
            declared = feed_of(fresh, feed.name)
            outcome = deliver_once(fresh, declared)
            context.log.info(in_words(declared, outcome))
            shown = {
                "version": outcome.number,
                "delivered": outcome.kind,
                "rows delivered": outcome.rows,
                "why": outcome.why,
            }
            return dg.MaterializeResult(
                metadata={name: value for name, value in shown.items() if value not in (None, "")}
            )

    return deliver


def _check(loaded: LoadedPipeline, feed: AnyFeed) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name="consistent",
        asset=feed_key(loaded, feed.name),
        description=f"Compares up to {counted(_SAMPLE, 'row')} of the table with the sink.",
    )
    def consistent() -> dg.AssetCheckResult:
        with failures(loaded):
            fresh = load_pipeline(loaded.path)
            declared = feed_of(fresh, feed.name)
            found = compare(fresh, declared, _SAMPLE)
        return dg.AssetCheckResult(
            passed=found.agrees,
            description=compared_in_words(declared, found),
            metadata={
                "version": found.number,
                "share that agrees (%)": round(100 * found.share, 3),
                "rows compared": found.compared,
                "rows of the table": found.rows,
                "rows of the sink": found.sink_rows,
            },
        )

    return consistent


def _served_check(loaded: LoadedPipeline, feed: AnyFeed) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name="served_as_trained",
        asset=feed_key(loaded, feed.name),
        description="Compares what look-ups found, by kept deliveries, with what training takes.",
    )
    def served_as_trained() -> dg.AssetCheckResult:
        with failures(loaded):
            fresh = load_pipeline(loaded.path)
            declared = feed_of(fresh, feed.name)
            found = compare_served(fresh, declared)
        seconds = {
            "seconds late, half": found.late.median_s,
            "seconds late, 99 %": found.late.p99_s,
            "seconds late, worst": found.late.worst_s,
        }
        shares = {
            f"share that is equal, {name} (%)": round(100 * share, 3)
            for name, share in found.agreement.columns.items()
        }
        return dg.AssetCheckResult(
            passed=found.is_within,
            description=served_in_words(declared, found),
            metadata={
                "share that is equal (%)": round(100 * found.share, 3),
                "look-ups compared": found.compared,
                "look-ups not known": found.unknown,
                **shares,
                **{name: value for name, value in seconds.items() if value is not None},
            },
        )

    return served_as_trained


def _sensor(loaded: LoadedPipeline, job: Any) -> dg.SensorDefinition:
    name = loaded.pipeline.name

    @dg.sensor(
        name=f"{name}_feeds",
        job=job,
        minimum_interval_seconds=LOOK_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Delivers new versions of the table to the second sinks.",
    )
    def feeds(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        with failures(None):
            fresh = load_pipeline(loaded.path)
            found = feed_statuses(fresh)
        due = [each for each in found if _is_due(each)]
        if not due:
            texts = (f"{each.name}: {each.text}" for each in found)
            return dg.SkipReason(" ".join(texts))
        filters = dg.RunsFilter(job_name=job.name, statuses=_UNDER_WAY)
        if context.instance.get_runs(filters=filters, limit=1):
            return dg.SkipReason("A delivery is under way.")
        names = [each.name for each in due]
        newest = due[0].newest
        return dg.RunRequest(
            run_key=f"{name}:{','.join(names)}:{newest}:{int(time.time() // _AGAIN_S)}",
            asset_selection=[feed_key(fresh, each) for each in names],
        )

    return feeds


def _is_due(found: FeedStatus) -> bool:
    # A clock that was ahead, and was set back, is no follower.
    is_followed = 0 < found.followed_until_ms - now_ms() < _FOLLOWED_MS
    return found.newest is not None and found.behind != 0 and not is_followed
