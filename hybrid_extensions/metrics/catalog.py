"""Catalog of the metrics for Prometheus: names, meanings, and sources of the values."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from orchestration.supervision.rules.verdict import Health
from orchestration.supervision.source_status import SourceState

PREFIX = "hybrid_"
HEALTHS: tuple[str, ...] = get_args(Health)
SOURCE_STATES: tuple[str, ...] = get_args(SourceState)


class Metric(NamedTuple):
    """Metric, named without its prefix ``hybrid_``, as the exporter describes it.

    Attributes:
        name: Name of the metric; Prometheus puts ``_total`` behind that of a counter.
        help: A sentence that describes it, for people.
        kind: ``gauge`` or ``counter``.
    """

    name: str
    help: str
    kind: Literal["gauge", "counter"] = "gauge"


LIVE: dict[str, Metric] = {
    "lag": Metric("live_lag", "Records of topics, or splits of a folder, not committed yet"),
    "waiting_s": Metric("live_waiting_seconds", "How long input has waited for its commit"),
    "uncommitted_s": Metric("live_uncommitted_seconds", "Since when input waits without a commit"),
    "catch_up_s": Metric("live_catch_up_seconds", "Until the run has caught up, at its rate"),
    "restarts": Metric("live_restarts", "Restarts within `supervision.restarts.within`"),
    "wrong_rows": Metric("live_wrong_rows", "Rows whose last change could not be read"),
    "slot_retained_bytes": Metric("live_slot_retained_bytes", "Log that the database keeps"),
    "slot_unread_bytes": Metric("live_slot_unread_bytes", "Log that the connector has not read"),
    "slot_unconfirmed_bytes": Metric(
        "live_slot_unconfirmed_bytes", "Log that the connector of MariaDB has not confirmed"
    ),
    "late_rows": Metric("live_late_rows", "Rows dropped behind the watermark, of the live run"),
    "input_rows_per_s": Metric("live_input_rows_per_second", "Rows that arrived per second"),
    "processed_rows_per_s": Metric("live_processed_rows_per_second", "Rows processed per second"),
    "event_time_lag_s": Metric("live_event_time_lag_seconds", "Age of the highest event time"),
    "watermark_lag_s": Metric("live_watermark_lag_seconds", "Age of the watermark"),
    "partition_drift_s": Metric(
        "live_partition_drift_seconds", "How far aligned partitions are apart"
    ),
    "held_offsets": Metric("live_held_offsets", "Records that wait for a slower partition"),
    "state_rows": Metric("live_state_rows", "Rows in the state of the stateful operators"),
    "state_bytes": Metric("live_state_bytes", "Memory of these rows"),
    "commit_age_s": Metric("live_commit_age_seconds", "Since the last commit"),
    "heartbeat_age_s": Metric("live_heartbeat_age_seconds", "Since the last heartbeat"),
}
"""Metrics of the live run, by the name of their value in the verdict's ``numbers``."""

LOOK = Metric("look_success", "Whether the pipeline's state could be read; 0 if not")
HEALTHY = Metric("healthy", "Whether nothing is wrong with a generation; what `hybrid status` says")
HEALTH = Metric("live_health", "Verdict on the live run: 1 at the health that it has")
RED = Metric("live_red", "Whether the verdict on the live run is red")
STATE = Metric("source_state", "State of a source: 1 at the one that it has")
COMMITTED = Metric("source_committed", "Units of the source committed so far", "counter")
LEFT = Metric("source_left", "Units of the source that were there and not committed")
LATE = Metric("source_late_rows", "Rows dropped behind the watermark so far", "counter")
BAD = Metric("source_bad_records", "Records that can't be read, tolerated so far", "counter")
OUTSIDE = Metric("source_outside_records", "Records outside of the event-time bounds", "counter")
BATCH = Metric("source_batch_seconds", "How long the last micro-batch took")
HEADROOM = Metric(
    "retention_headroom_seconds", "Until Kafka may delete the first record not yet committed"
)
OF_SOURCES = (STATE, COMMITTED, LEFT, LATE, BAD, OUTSIDE, BATCH, HEADROOM)
"""Metrics of each source."""

EVERY = (LOOK, HEALTHY, HEALTH, RED, *LIVE.values(), *OF_SOURCES)
"""All metrics of the core; extensions add others."""
