"""Everything of one pipeline in Dagster, for a code location of one's own or for this one's."""

from __future__ import annotations

import dagster as dg

from orchestration.defs.assets import approval_check, live_key, pipeline_assets
from orchestration.defs.generation_jobs import finish_job, generation_jobs, rerun_schedules
from orchestration.defs.jobs import control_jobs
from orchestration.defs.progress_asset import progress_asset
from orchestration.defs.range_assets import range_definitions
from orchestration.defs.sensors import has_live_run, live_checks, live_sensor
from sources.config.loader import LoadedPipeline


def pipeline_definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """A pipeline's group of assets, and its jobs, checks, schedules and sensor."""
    name = loaded.pipeline.name
    # The chain of a pipeline is one job: one run, ordered steps.
    chain = dg.define_asset_job(
        name,
        selection=dg.AssetSelection.groups(name),
        description="The whole chain, from the plan on; what was done before is not done again.",
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
        f"{name}_resume",
        selection=[live_key(loaded)],
        description="Starts the live run where it was paused, stopped or drained.",
    )
    live = dg.Definitions(
        jobs=[resume],
        asset_checks=[live_checks(loaded)],
        sensors=[live_sensor(loaded, [chain, finish])],
    )
    return dg.Definitions.merge(made, live)
