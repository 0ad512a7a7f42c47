"""Progress of a source's runs over time: samples every 5 s, 240 at most, older ones thinned out.

The heartbeat is only the latest report. Plots, rates and forecasts are made of these samples: one
every few seconds, fewer the older they are, so that the document never grows large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from sources.common.state_document import Part, Record
from sources.storage.folder import Folder
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.peaks_of_a_day import LastDay

EVERY_S = 5.0
"""Seconds between two samples."""
MOST = 240
"""Maximum of samples of one source; beyond it, every other one of the older half is dropped."""

_MINUTE_MS = 60_000

Unit = Literal["rows", "records", "splits"]


class Sample(Part):
    """Progress of a run at one moment; times are ms since 1970.

    Attributes:
        launch_id: Identifier of the launch that the run belongs to.
        at_ms: When the sample was taken.
        done: Units (rows, records or splits) committed, by this launch and those before it.
        left: Units that were available then and not committed; None if unknown.
        event_time_ms: Highest event time of the rows processed; None if it is not known.
        late_rows: Rows dropped behind the watermark so far; None without a watermark.
    """

    launch_id: str
    at_ms: int
    done: int
    left: int | None = None
    event_time_ms: int | None = None
    late_rows: int | None = None


class ProgressLog(Record):
    """Samples of the progress of one source, kept over all of its runs in a generation.

    Attributes:
        samples: The samples, oldest first; at most ``MOST``.
        unit: What is counted: rows where the plan knows them; records of an unbounded topic, in
            offsets; splits elsewhere.
        last_day: Highest values of the last 24 hours.
    """

    VERSION = 2

    unit: Unit
    samples: list[Sample] = Field(default_factory=list)
    last_day: LastDay = LastDay()

    def with_sample(self, sample: Sample) -> ProgressLog:
        """Return a copy of the log with one more sample; nothing is written.

        Beyond ``MOST`` samples, every other one of the older half is dropped; the peaks of the last
        day are kept apart.
        """
        kept = [*self.samples, sample]
        if len(kept) > MOST:
            half = MOST // 2
            kept = [*kept[:half:2], *kept[half:]]
        last_day = self.last_day.with_values(
            sample.at_ms, sample.left, last_minute(self.samples, sample)
        )
        return self.model_copy(update={"samples": kept, "last_day": last_day})


def last_minute(earlier: Sequence[Sample], last: Sample) -> float | None:
    """Return the units per second that a launch committed in the minute before a sample.

    None if the launch is younger than a minute.

    Args:
        earlier: The samples before it, oldest first.
        last: The sample.
    """
    for before in reversed(earlier):
        if before.launch_id != last.launch_id:
            return None
        if last.at_ms - before.at_ms >= _MINUTE_MS:
            return (last.done - before.done) / (last.at_ms - before.at_ms) * 1000
    return None


def sample_of(beat: Heartbeat, lag: int | None) -> tuple[Unit, Sample] | None:
    """Return the unit and the numbers of a heartbeat's progress, as a sample of the progress log.

    None if the heartbeat reports no progress yet.

    Args:
        beat: The heartbeat.
        lag: Records of an unbounded topic that are not read yet, as its driver last saw it; None if
            unknown.
    """
    unit: Unit
    if beat.offsets is not None:
        unit, done, left = "records", sum(beat.offsets.values()), lag
    elif beat.rows_total is not None and beat.rows_done is not None:
        unit, done, left = "rows", beat.rows_done, beat.rows_total - beat.rows_done
    elif beat.splits_total is not None and beat.splits_done is not None:
        unit, done, left = "splits", beat.splits_done, beat.splits_total - beat.splits_done
    else:
        return None
    sample = Sample(
        launch_id=beat.launch_id,
        at_ms=beat.at_ms,
        done=done,
        left=left,
        event_time_ms=beat.event_time_ms,
        late_rows=beat.late_rows,
    )
    return unit, sample


def progress_log_name(source: str) -> str:
    """Return the path of a source's progress log, relative to the generation's folder."""
    return f"run/{source}-progress.json"


def read_progress_log(generation: Folder, source: str) -> ProgressLog | None:
    """Read the progress log of a source; None if no run of it has reported progress yet.

    Raises:
        StateError: The log's file is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(progress_log_name(source), ProgressLog)
