"""Progress of a source's runs over time, across launches and restarts.

The heartbeat is only the latest report. Plots, rates and forecasts are made of these samples: one
every few seconds, fewer the older they are, so that the document never grows large.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sources.common.positions import Part, Record
from sources.common.state import Folder
from spark_jobs.run_state.heartbeat import Heartbeat

EVERY_S = 5.0
"""Seconds between two samples."""
MOST = 240
"""Most samples of one source; beyond it, every other one of the older half is dropped."""

Unit = Literal["rows", "records", "splits"]


class Sample(Part):
    """One moment of a run.

    Attributes:
        launch_id: The launch that it belongs to.
        at_ms: When it was taken.
        done: Units committed, by this launch and those before it.
        left: Units that were available then and not committed; None if unknown.
        event_time_ms: Highest event time reached.
    """

    launch_id: str
    at_ms: int
    done: int
    left: int | None = None
    event_time_ms: int | None = None


class ProgressLog(Record):
    """The samples of one source, oldest first.

    Attributes:
        unit: What is counted: rows where the plan knows them; records of an unbounded topic, in
            offsets; splits elsewhere.
    """

    unit: Unit
    samples: list[Sample] = Field(default_factory=list)

    def with_sample(self, sample: Sample) -> ProgressLog:
        """Return the log with one more sample."""
        kept = [*self.samples, sample]
        if len(kept) > MOST:
            half = MOST // 2
            kept = [*kept[:half:2], *kept[half:]]
        return self.model_copy(update={"samples": kept})


def sample_of(beat: Heartbeat, lag: int | None) -> tuple[Unit, Sample] | None:
    """Return a heartbeat as a sample, with its unit; None if it does not report progress.

    Args:
        beat: The heartbeat.
        lag: Records of an unbounded topic that are not read yet, as its driver last saw it.
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
    )
    return unit, sample


def progress_log_name(source: str) -> str:
    """Return the name of a source's progress log in the generation's folder."""
    return f"run/{source}-progress.json"


def read_progress_log(generation: Folder, source: str) -> ProgressLog | None:
    """Return the progress log of a source; None if it never reported progress."""
    return generation.read(progress_log_name(source), ProgressLog)
