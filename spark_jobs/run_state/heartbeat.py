"""Heartbeat: the latest report of a running Spark job about itself, in one small document."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from sources.common.counting import counted
from sources.common.positions import Offsets
from sources.common.state_document import Record
from sources.common.times import iso
from sources.errors import ErrorReport
from sources.storage.folder import Folder

Phase = Literal["bounded", "unbounded"]
ALIVE = ("starting", "running")
"""States of a driver that has not ended."""
_WEB_PAGE = re.compile(r"https?://[^\s()<>\"'`\\]+")


class Heartbeat(Record):
    """Heartbeat of a Spark job, replaced about once a second; times are ms since 1970.

    A value is None until it is known, as before the first micro-batch, and where the run has no
    such value, as a topic has no splits.

    Attributes:
        launch_id: Identifier of the launch that the job belongs to.
        pid: Process id of the driver.
        host: Name of the machine on which it runs.
        source: Name of the source that this run reads.
        phase: Whether the source is bounded (history) or unbounded (the live stream).
        state: ``starting`` until the query runs; the others say how it ended.
        at_ms: When this heartbeat was written.
        batch_id: Last committed micro-batch, counted over the whole checkpoint.
        batches: Micro-batches that this launch has committed.
        idle: Whether the query waits for data.
        committed_at_ms: When the last micro-batch was committed, by this launch or an earlier one.
        advanced_at_ms: When this launch last committed a micro-batch, or had nothing to read.
        worked_at_ms: When a Spark task of the query was last seen to have ended, so that a long
            micro-batch is not taken for a stuck one. Unlike ``at_ms`` it stands still in a query
            that hangs.
        pace_ms: Time between the starts of two micro-batches, in ms.
        listing_due_ms: When a folder that receives new files is to be listed again; it stands
            still where a listing hangs.
        batch_ms: How long the last micro-batch took, in ms.
        rows_per_s: Rows processed per second in the last micro-batch; in a bounded run by the plan,
            and None where that has not counted its rows.
        input_rows_per_s: Rows that arrived per second before the last micro-batch; None if tasks
            have read a topic themselves.
        splits_done, splits_total: Of files: splits read, of those that are planned or were
            discovered so far.
        rows_done, rows_total: Rows of the plan; None where the format does not record them.
        event_time_ms: Highest event time of the rows processed so far.
        watermark_ms: Watermark of the query; None if it has none.
        state_rows: Rows in the state of the stateful operators.
        state_bytes: Bytes of memory that these rows take.
        offsets: Unbounded run: first offset not yet read, by partition.
        silent: Unbounded run over several inputs: those of their topics that have had no record
            since the query began, so that the watermark of all inputs stands still.
        drift_ms: How far partitions that are aligned are apart, in ms; None where none are.
        held_offsets: Offsets that wait until the slowest of these partitions is as far; None where
            none are aligned, or the driver has not looked for long.
        filtering: Unbounded run: whether the seam filter is in the query.
        bad_records: Number of the source's records that can't be read and were dropped or
            quarantined so far.
        outside_records: The same of records whose event time is outside of its bounds.
        broken_rules: The same of records that break a rule, by name of the rule.
        late_rows: Rows of the source that were dropped behind the watermark so far, by this launch
            and those before it; None if the query has no watermark.
        unreachable: Why the broker of the topic does not answer on the driver's machine; None if it
            does, or if it was not asked, as the query makes progress.
        retention: Bounded run: for how long retention keeps the records to be read next, in words.
        ui_url: URL of Spark's own UI; None if it is not one of a web page.
        failure: Why the job failed; None if it did not.
    """

    VERSION = 8

    launch_id: str
    # Signals to 0 and below go to whole groups, or to all processes.
    pid: int = Field(gt=0)
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
    batch_ms: int | None = None
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
    silent: list[str] = Field(default_factory=list)
    drift_ms: int | None = None
    held_offsets: int | None = None
    filtering: bool = False
    bad_records: int = 0
    outside_records: int = 0
    broken_rules: dict[str, int] = Field(default_factory=dict)
    late_rows: int | None = None
    unreachable: ErrorReport | None = None
    retention: str | None = None
    ui_url: str | None = None
    failure: ErrorReport | None = None

    @field_validator("ui_url")
    @classmethod
    def _leads_to_a_web_page(cls, value: str | None) -> str | None:
        """Leave out what pages must not link to, whoever has written it into the state."""
        return value if value is not None and _WEB_PAGE.fullmatch(value) else None


def heartbeat_name(source: str) -> str:
    """Return the path of a source's heartbeat document, relative to the generation's folder."""
    return f"run/{source}-heartbeat.json"


def read_heartbeat(generation: Folder, source: str) -> Heartbeat | None:
    """Read the latest heartbeat of a source's last run, whether or not that is still alive.

    None if the source never ran in this generation.

    Raises:
        StateError: The heartbeat's file is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(heartbeat_name(source), Heartbeat)


def describe(beat: Heartbeat) -> str:
    """Return a heartbeat's progress as one line, for logs and progress bars.

    Only what it contains: last batch, splits, rows, rows per second, event time, bad records,
    records outside of the event-time bounds, late rows.
    """
    batch = "no batch yet" if beat.batch_id is None else f"batch {beat.batch_id}"
    parts = [f"{beat.source}: {batch}"]
    if beat.splits_total is not None:
        parts.append(f"{beat.splits_done or 0:,} of {counted(beat.splits_total, 'split')}")
    if beat.rows_done is not None and beat.rows_total is not None:
        parts.append(f"{beat.rows_done:,} of {counted(beat.rows_total, 'row')}")
    if beat.rows_per_s:
        parts.append(f"{beat.rows_per_s:,.0f} rows/s")
    if beat.event_time_ms is not None:
        parts.append(f"event time {iso(beat.event_time_ms)}")
    if beat.bad_records:
        parts.append(counted(beat.bad_records, "bad record"))
    if beat.outside_records:
        parts.append(f"{counted(beat.outside_records, 'record')} outside of the event-time bounds")
    for rule, count in beat.broken_rules.items():
        parts.append(
            f"{counted(count, 'record')} that {'breaks' if count == 1 else 'break'} `{rule}`"
        )
    if beat.held_offsets:
        parts.append(f"{counted(beat.held_offsets, 'record')} held back")
    if beat.late_rows:
        parts.append(f"{counted(beat.late_rows, 'late row')} dropped")
    return ", ".join(parts)
