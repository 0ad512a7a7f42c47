"""Where a source ended and where the next one starts (FLIP-150, "switch position").

Positions are written to the state folder before they are used and never computed again.
All times are Unix milliseconds in UTC, as Kafka's record timestamps are.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from sources.errors import StateError


def iso(time_ms: int) -> str:
    """A time in milliseconds as people read it: ``2013-09-30T23:59:00Z``."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    spec = "milliseconds" if time_ms % 1000 else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")


class Record(BaseModel):
    """A small versioned document of the state folder; an unknown version is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read the document back.

        Raises:
            StateError: Written by another version of the project, or damaged.

        """
        try:
            return cls.model_validate_json(text)
        except ValueError as error:
            message = f"A state document of kind {cls.__name__} can't be read: {error}"
            raise StateError(
                message, "Use the version that wrote it, or a new state folder."
            ) from None


class EndPosition(Record):
    """What a finished bounded source knows about its end.

    Attributes:
        source: Its name in the chain.
        event_time_ms: Highest event time delivered.
        complete_through_ms: History is complete up to this time: its end minus allowed lateness.
        evidence: ``exact`` (file statistics) or ``sampled`` (never above the true end).
        splits: Number of splits read.
        rows: Number of rows read, where the format's statistics tell.

    """

    source: str
    event_time_ms: int
    complete_through_ms: int
    evidence: Literal["exact", "sampled"]
    splits: int
    rows: int | None


class PartitionStart(BaseModel):
    """Start of one partition, with the evidence for it.

    Attributes:
        start: First offset to read.
        log_start: Log start offset when it was decided.
        log_end: End offset (next to be written), asked for *before* the time look-up.
        reason: Why this offset, in words.

    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: int
    log_start: int
    log_end: int
    reason: str


class StartPosition(Record):
    """Where an unbounded source begins: explicit offsets for every partition.

    Attributes:
        source: Its name in the chain.
        topic: The Kafka topic.
        time_ms: The record time that was looked up, if it was a time.
        partitions: Start by partition number.

    """

    source: str
    topic: str
    time_ms: int | None
    partitions: dict[int, PartitionStart]

    def offsets(self) -> dict[int, int]:
        """Start offset by partition."""
        return {number: part.start for number, part in self.partitions.items()}


class Seam(BaseModel):
    """The offsets in which history and topic may hold the same rows.

    It reaches from the start offsets to the end offsets read right after history was listed:
    nothing appended later can be in the files.

    Attributes:
        end_offsets: First offset beyond the seam, by partition.

    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    end_offsets: dict[int, int]
