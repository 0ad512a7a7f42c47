"""Report of a failed look: checks fail at once, then once a minute; the webhook after a minute."""

from __future__ import annotations

import dagster as dg

from orchestration.defs.assets.data_versions import table_tags
from orchestration.defs.assets.table import card_metadata, kept_action
from orchestration.defs.checks.table import health_evaluation
from orchestration.defs.keys import live_key, table_key
from orchestration.defs.show import metadata
from orchestration.defs.show.reports import REPORT_MS, Cursor, Event, Reports, error_in_dagster
from orchestration.supervision.card import unknown_card
from orchestration.supervision.rules.verdict import Finding
from orchestration.supervision.webhook import Alert, alert
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline

# A store may be back by then.
_ALERT_AFTER_MS = 60_000
_ALONE = "Until that is mended, nothing restarts the live run if it ends."


def failed_look(
    instance: dg.DagsterInstance,
    loaded: LoadedPipeline,
    error: Exception,
    cursor: Cursor,
    *,
    is_live: bool,
) -> Reports:
    """Return what the sensor reports if a look fails: that the state of the pipeline is unknown.

    The checks ``healthy`` and ``alive`` fail with the reason, and the table's card says so: at
    once, then once a minute as long as the reason is the same.

    Args:
        instance: Dagster's instance, which has earlier events.
        loaded: The pipeline, as it was when the code location was loaded.
        error: Why the look failed.
        cursor: The cursor of the last tick.
        is_live: Whether the pipeline may have a live run.
    """
    shown, at_ms = error_in_dagster(error, loaded), now_ms()
    why = f"The pipeline can't be looked at, so its state is unknown. {shown}"
    why += f" {_ALONE}" if is_live else ""
    if cursor.unknown == why and at_ms - cursor.at_ms < REPORT_MS:
        return Reports([], cursor, why)
    card = unknown_card(why)
    # Pages show the last materialization; before the first one there is none to replace.
    is_new = cursor.version is not None and cursor.headline != card.headline
    kind = dg.AssetMaterialization if is_new else dg.AssetObservation
    told = card_metadata(card) | kept_action(instance, loaded)
    tags = table_tags(loaded, cursor.version)
    events: list[Event] = [kind(table_key(loaded), description=why, metadata=told, tags=tags)]
    if is_live:
        alive = Finding(name="alive", passed=False, text=why)
        events.append(metadata.evaluation(live_key(loaded), alive))
    if (healthy := health_evaluation(loaded, card, cursor.was_well)) is not None:
        events.append(healthy)
    changes = {"headline": card.headline, "was_well": False, "unknown": why, "at_ms": at_ms}
    changes["unknown_since_ms"] = cursor.unknown_since_ms or at_ms
    # Whatever the next look sees is news.
    return Reports(events, cursor.model_copy(update={**changes, "seen": []}), why)


def alert_once(loaded: LoadedPipeline, shown: Reports) -> tuple[Reports, str | None]:
    """Post to the webhook, once, that looks have failed for a while.

    Args:
        loaded: The pipeline.
        shown: What :func:`failed_look` reports.

    Returns:
        The reports with what the next tick has to know; and why the webhook was not reached, so
        that the next tick tries again: None if it was, or if nothing was due.
    """
    at_ms, cursor = now_ms(), shown.cursor
    if cursor.alerted or at_ms - cursor.unknown_since_ms < _ALERT_AFTER_MS:
        return shown, None
    problem = alert(loaded, Alert(shown.text, "unknown", None, shown.text, at_ms))
    known = cursor.model_copy(update={"alerted": problem is None})
    return shown._replace(cursor=known), problem
