"""The latest evaluation of a check of the pipeline `events`, as its page in Dagster shows it."""

from __future__ import annotations

import dagster as dg


def latest_check(instance: dg.DagsterInstance, asset: str, name: str) -> dg.AssetCheckEvaluation:
    """Return it; ``asset`` is the last part of the asset's key, such as ``table``."""
    key = dg.AssetCheckKey(dg.AssetKey(["events", asset]), name)
    kept = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert kept.event is not None
    assert kept.event.dagster_event is not None
    return kept.event.dagster_event.asset_check_evaluation_data
