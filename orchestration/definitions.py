"""Dagster's entry point: every pipeline found becomes a group of assets and a job.

``HYBRID_PIPELINES`` lists folders and files, separated as ``PATH`` is; the examples otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from orchestration.assets import find_pipelines, live_key, pipeline_assets
from orchestration.jobs import control_jobs
from orchestration.sensors import has_live_run, live_checks, live_sensor

_EXAMPLES = Path(__file__).parent.parent / "examples"
_PLACES = os.environ.get("HYBRID_PIPELINES") or str(_EXAMPLES)

_found = find_pipelines([Path(place) for place in _PLACES.split(os.pathsep)])
_live = [loaded for loaded in _found if has_live_run(loaded)]

defs = dg.Definitions(
    assets=[asset for loaded in _found for asset in pipeline_assets(loaded)],
    # The chain of a pipeline is one job: one run, ordered steps.
    jobs=[
        *(
            dg.define_asset_job(
                loaded.pipeline.name,
                selection=dg.AssetSelection.groups(loaded.pipeline.name),
                description="The whole chain; what was done before is not done again.",
            )
            for loaded in _found
        ),
        *(
            dg.define_asset_job(
                f"{loaded.pipeline.name}_resume",
                selection=[live_key(loaded)],
                description="Starts the live run where it was paused, stopped or drained.",
            )
            for loaded in _live
        ),
        *(job for loaded in _found for job in control_jobs(loaded)),
    ],
    asset_checks=[live_checks(loaded) for loaded in _live],
    sensors=[live_sensor(loaded) for loaded in _live],
    # The steps of a chain follow each other: a process for each would only cost its start.
    executor=dg.in_process_executor,
)
