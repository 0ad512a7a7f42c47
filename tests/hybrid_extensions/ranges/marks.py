"""One look of the sensor that marks ranges as filled."""

from __future__ import annotations

import dagster as dg

from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import LoadedPipeline


def mark(loaded: LoadedPipeline, instance: dg.DagsterInstance) -> str | None:
    """Report what it marks, as Dagster's daemon does. Returns why it marks nothing, if so."""
    name = f"{loaded.pipeline.name}_ranges"
    sensor = pipeline_definitions(loaded).resolve_sensor_def(name)
    found = sensor(dg.build_sensor_context(instance))
    if isinstance(found, dg.SkipReason):
        return found.skip_message
    assert isinstance(found, dg.SensorResult)
    for each in found.asset_events:
        instance.report_runless_asset_event(each)
    return None
