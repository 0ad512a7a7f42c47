"""What a source's runs have told of themselves over time, launches and restarts alike.

The heartbeat is the last word only. This is what plots, rates and forecasts are made of: a sample
every few seconds, fewer the older they are, so that the document stays small for ever.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sources.common.positions import Part, Record
from sources.common.state import Folder
from spark_jobs.run_state.heartbeat import Heartbeat

EVERY_S = 5.0
MOST = 240
"""Samples of one source; when there are more, every other one of the older half is dropped."""

Unit = Literal["rows", "records", "splits"]


class Sample(Part):
    """One moment of a run.

    Attributes:
        launch_id: Which launch it belongs to.
        at_ms: When.
        done: How much was committed, by this launch and those before it.
        left: How much of what was there then was not.
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
        unit: What is counted: rows where a plan knows them; records of a topic without end, in
            offsets; splits elsewhere.
    """

    unit: Unit
    samples: list[Sample] = Field(default_factory=list)

    def with_sample(self, sample: Sample) -> ProgressLog:
        """The same with a sample more."""
        kept = [*self.samples, sample]
        if len(kept) > MOST:
            half = MOST // 2
            kept = [*kept[:half:2], *kept[half:]]
        return self.model_copy(update={"samples": kept})


def sample_of(beat: Heartbeat, lag: int | None) -> tuple[Unit, Sample] | None:
    """A heartbeat as a sample; None if it says nothing of how far its run is.

    Args:
        beat: The heartbeat.
        lag: How many records of a topic without end wait, as its driver last saw it.
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
    """Where the samples of a source lie in the generation's folder."""
    return f"run/{source}-progress.json"


def read_progress_log(generation: Folder, source: str) -> ProgressLog | None:
    """The samples of a source; None if it never said how far it is."""
    return generation.read(progress_log_name(source), ProgressLog)
