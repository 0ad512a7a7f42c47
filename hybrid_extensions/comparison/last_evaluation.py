"""Last result of an asset check, as Dagster keeps it."""

from __future__ import annotations

from typing import NamedTuple

import dagster as dg

_RECORDS = 3
"""Records to look at: runs that are to evaluate the check come before its last result."""


class Evaluated(NamedTuple):
    """Result of a check.

    Attributes:
        found: The result.
        at_ms: When it was reported, in ms since 1970.
    """

    found: dg.AssetCheckEvaluation
    at_ms: float


def last_evaluation(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> Evaluated | None:
    """Return the last result of a check, whatever is about to evaluate it again; None without one.

    Only the last three records are looked at.

    Args:
        instance: Dagster's instance.
        key: The check.
    """
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=_RECORDS)
    for record in records:
        event = None if record.event is None else record.event.dagster_event
        found = None if event is None else event.event_specific_data
        if record.event is not None and isinstance(found, dg.AssetCheckEvaluation):
            return Evaluated(found, record.event.timestamp * 1000)
    return None
