"""What a running Spark job tells of itself: one small document, replaced as it goes on."""

from __future__ import annotations

from typing import Literal

from sources.common.positions import Offsets, Record, iso
from sources.common.state import Folder
from sources.errors import ErrorReport

Phase = Literal["bounded", "unbounded"]


class Heartbeat(Record):
    """The latest word of a job.

    Attributes:
        launch_id: Which launch it belongs to.
        pid: Process id of the driver.
        host: Name of the machine on which it runs.
        source: Name of the source that this run reads.
        state: ``starting`` until the query runs; the others say how it ended.
        at_ms: When this was written.
        batch_id: Last committed micro-batch, counted over the whole checkpoint.
        batches: Micro-batches that this launch has committed.
        idle: Whether the query waits for data.
        committed_at_ms: When the last micro-batch was committed, by this launch or before it.
        advanced_at_ms: When this launch last committed a micro-batch, or had nothing to read.
        worked_at_ms: When a task of it was last seen to have ended: a long micro-batch works, too.
            Unlike ``at_ms`` it stands still in a query that hangs.
        pace_ms: Time between the starts of two micro-batches.
        listing_due_ms: When a folder that keeps filling is to be listed again; it stands still
            where a listing hangs.
        rows_per_s: Rows processed by second in the last micro-batch.
        input_rows_per_s: Rows that arrived by second before it.
        splits_done, splits_total: Of files: how much of what is planned, or was found so far, is
            read.
        rows_done, rows_total: Rows of the plan; None where the format does not tell.
        event_time_ms: Highest event time reached.
        watermark_ms: Of the query, if it has one.
        state_rows: Rows in the operators' state.
        state_bytes: Memory that it takes.
        offsets: Unbounded run: first offset not yet read, by partition.
        filtering: Unbounded run: whether the seam filter is in the query.
        bad_records: How many of the source's records were dropped or put into quarantine so far.
        retention: Bounded run: how long the records to be read afterwards are safe, in words.
        ui_url: Spark's own UI.
        failure: Why it failed, if it did.
    """

    VERSION = 6

    launch_id: str
    pid: int
    host: str
    source: str
    phase: Phase
    state: Literal["starting", "running", "finished", "stopped", "failed"]
    at_ms: int
    batch_id: int | None = None
    batches: int = 0
    idle: bool = False
    committed_at_ms: int | None = None
    advanced_at_ms: int | None = None
    worked_at_ms: int | None = None
    pace_ms: int = 0
    listing_due_ms: int | None = None
    rows_per_s: float | None = None
    input_rows_per_s: float | None = None
    splits_done: int | None = None
    splits_total: int | None = None
    rows_done: int | None = None
    rows_total: int | None = None
    event_time_ms: int | None = None
    watermark_ms: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    offsets: Offsets | None = None
    filtering: bool = False
    bad_records: int = 0
    retention: str | None = None
    ui_url: str | None = None
    failure: ErrorReport | None = None


def heartbeat_name(source: str) -> str:
    """Where the heartbeat of a source's run lies in the generation's folder."""
    return f"run/{source}-heartbeat.json"


def read_heartbeat(generation: Folder, source: str) -> Heartbeat | None:
    """The latest heartbeat of a source's run, or None if it never ran."""
    return generation.read(heartbeat_name(source), Heartbeat)


def describe(beat: Heartbeat) -> str:
    """A heartbeat in one line, for logs and progress bars."""
    batch = "no batch yet" if beat.batch_id is None else f"batch {beat.batch_id}"
    parts = [f"{beat.source}: {batch}"]
    if beat.splits_total is not None:
        parts.append(f"{beat.splits_done or 0:,} of {beat.splits_total:,} splits")
    if beat.rows_done is not None and beat.rows_total is not None:
        parts.append(f"{beat.rows_done:,} of {beat.rows_total:,} rows")
    if beat.rows_per_s:
        parts.append(f"{beat.rows_per_s:,.0f} rows/s")
    if beat.event_time_ms is not None:
        parts.append(f"event time {iso(beat.event_time_ms)}")
    if beat.bad_records:
        parts.append(f"{beat.bad_records:,} bad records")
    return ", ".join(parts)
