"""All Dagster definitions of one pipeline, to be used in this code location or in your own."""

from __future__ import annotations

import dagster as dg

from orchestration.defs.assets import approval_check, live_key, resume_name
from orchestration.defs.chain_assets import pipeline_assets
from orchestration.defs.generation_jobs import finish_job, generation_jobs, rerun_schedules
from orchestration.defs.jobs import control_jobs
from orchestration.defs.progress_asset import progress_asset
from orchestration.defs.range_assets import range_definitions
from orchestration.defs.sensors import has_live_run, live_checks, live_sensor
from sources.config.loader import LoadedPipeline


def pipeline_definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return a pipeline's assets, jobs, checks, schedules and sensor, for a Dagster code location.

    The sensor, the checks of the live run and the job ``<name>_resume`` are there only if the
    pipeline ends in an unbounded source.
    """
    name = loaded.pipeline.name
    # One job for the whole chain: one Dagster run with ordered steps.
    chain = dg.define_asset_job(
        name,
        selection=dg.AssetSelection.groups(name),
        description="Load history from files, hand over to Kafka, start the live stream. "
        "Safe to run again: completed steps are skipped.",
    )
    finish = finish_job(loaded)
    generations = generation_jobs(loaded)
    made = dg.Definitions(
        assets=[*pipeline_assets(loaded), progress_asset(loaded)],
        asset_checks=[approval_check(loaded)] if loaded.pipeline.approve else [],
        jobs=[chain, finish, *generations.values(), *control_jobs(loaded)],
        schedules=rerun_schedules(loaded, generations["rerun"]),
    )
    made = dg.Definitions.merge(made, range_definitions(loaded))
    if not has_live_run(loaded):
        return made
    resume = dg.define_asset_job(
        resume_name(loaded),
        selection=[live_key(loaded)],
        description="Start the live stream where it was paused, stopped or drained.",
    )
    live = dg.Definitions(
        jobs=[resume],
        asset_checks=[live_checks(loaded)],
        sensors=[live_sensor(loaded, [chain, finish])],
    )
    return dg.Definitions.merge(made, live)
