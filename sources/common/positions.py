"""Where a source ended and where the next one starts (FLIP-150, "switch position").

Positions are written to the state folder before they are used and never computed again.
All times are Unix milliseconds in UTC, as Kafka's record timestamps are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, model_validator

from sources.errors import StateError

V = TypeVar("V")
Evidence = Literal["offsets", "sequence", "timestamp", "fixed", "factory"]
"""What a start position was made from; ``factory`` is one that the user wrote."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
# Transaction ids of 32 bits start over after so many.
_WRAP = 1 << 32


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic `{self.topic}`, partition {self.partition}"


def nest(flat: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    """Values by partition as JSON documents, Spark's among them, hold them: by topic first."""
    nested: dict[str, dict[int, V]] = {}
    for at, value in sorted(flat.items(), key=lambda item: item[0]):
        nested.setdefault(at.topic, {})[at.partition] = value
    return nested


def flatten(nested: Mapping[str, Mapping[Any, V]]) -> dict[TopicPartition, V]:
    """The reverse of :func:`nest`; partition numbers may be strings, as JSON's keys are."""
    return {
        TopicPartition(topic, int(number)): value
        for topic, parts in nested.items()
        for number, value in parts.items()
    }


def _flat(value: Any) -> Any:
    is_nested = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    return flatten(value) if is_nested else value


_ByTopic = (BeforeValidator(_flat), PlainSerializer(nest))
Offsets = Annotated[dict[TopicPartition, int], *_ByTopic]
"""Offsets by partition; in JSON ``{topic: {partition: offset}}``, as Spark writes them."""


def now_ms() -> int:
    """The time now, in milliseconds."""
    return time.time_ns() // 1_000_000


def to_ms(moment: datetime) -> int:
    """A time with a zone in milliseconds; what is left of one is cut off."""
    return (moment - _EPOCH) // _MS


def to_us(moment: datetime) -> int:
    """A time with a zone in microseconds."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def span_ms(span: timedelta) -> int:
    """A duration in milliseconds; what is left of one is cut off."""
    return span // _MS


def iso(time_ms: int) -> str:
    """A time in milliseconds as people read it: ``2013-09-30T23:59:00Z``."""
    try:
        moment = _EPOCH + time_ms * _MS
    except OverflowError:
        # A bad clock may well be beyond the year 9999.
        return f"{time_ms} ms"
    spec = "milliseconds" if time_ms % 1000 else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")


class Part(BaseModel):
    """A part of a document."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Record(Part):
    """A small versioned document of the state folder; an unknown version is refused."""

    VERSION: ClassVar[int] = 1

    version: int = 0

    @model_validator(mode="before")
    @classmethod
    def _of_this_version(cls, values: Any) -> Any:
        return {"version": cls.VERSION, **values} if isinstance(values, dict) else values

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read the document back.

        Raises:
            StateError: Written by another version of the project, or damaged.

        """
        try:
            document = json.loads(text)
            found = document.get("version") if isinstance(document, dict) else None
            if type(found) is not int or found != cls.VERSION:
                reason = f"it has version {found!r}, this project reads version {cls.VERSION}"
                raise ValueError(reason)
            return cls.model_validate(document)
        except ValueError as error:
            message = f"A state document of kind {cls.__name__} can't be read: {error}"
            raise StateError(
                message, "Use the version that wrote it, or a new state folder."
            ) from None


class HeldOffsets(Part):
    """Which records of a log history holds, where history says so itself.

    Attributes:
        next: Offset after the last one held, by partition.
        exact: False if the files only suggest it, as Kafka Connect's names without an end do.
        holes: Offsets before the last one held that history does not hold, as half-open ranges.
            Control records and compaction leave some; so does a missing file.
    """

    next: Offsets
    exact: bool
    holes: Annotated[dict[TopicPartition, list[tuple[int, int]]], *_ByTopic]


class DatabaseSnapshot(Part):
    """What one snapshot of a PostgreSQL database can see.

    A change's own log position does not tell whether a snapshot holds it: a transaction that was
    in flight when the snapshot was taken wrote before it, and commits after it. What tells is what
    PostgreSQL itself goes by
    (https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT).

    Attributes:
        lsn: End of the log right after it was taken; nothing written later is in it.
        xmin: All transactions before this one had ended.
        xmax: This one and later ones had not begun, or were not known yet.
        in_progress: Those between that were in flight. All three are 64-bit transaction ids.
        taken_ms: When it was taken, by the database's clock.
    """

    lsn: int
    xmin: int
    xmax: int
    in_progress: list[int]
    taken_ms: int

    def holds(self, lsn: str, transaction: str) -> str:
        """SQL, for Spark and DuckDB alike, that tells whether the snapshot holds a change.

        A change's transaction id has 32 bits, which wrap around. Before ``lsn`` it is no further
        than half a turn from the snapshot's; after it the id is not asked. A row of a connector's
        own snapshot has none: taken before, it is older than what this one holds.

        Args:
            lsn: Expression for a change's own log position.
            transaction: Expression for its transaction id.
        """
        half = _WRAP >> 1
        # Modulo of a negative number is negative in both.
        behind = f"(({transaction} - {self.xmax} + {half}) % {_WRAP} + {_WRAP}) % {_WRAP} - {half}"
        seen = f"{behind} < 0"
        if self.in_progress:
            others = ", ".join(str(each - self.xmax) for each in self.in_progress)
            seen += f" AND {behind} NOT IN ({others})"
        return f"coalesce({lsn} <= {self.lsn}, false) AND coalesce({seen}, true)"


class EndPosition(Record):
    """What a finished bounded source knows about its end.

    Attributes:
        source: Its name in the chain.
        event_time_ms: Highest event time delivered.
        complete_through_ms: History is complete up to this time: its end minus allowed lateness,
            or declared.
        event_times: ``exact`` (statistics) or ``sampled`` (never above the true highest one).
        offsets: The records of the log that it holds, where it says so itself.
        sequence: Log position of the snapshot that it is, such as a PostgreSQL LSN.
        snapshot: What the snapshot that it is can see, where that is known.
        splits: Number of splits read.
        rows: Number of rows read, where the format's statistics tell.

    """

    VERSION: ClassVar[int] = 2

    source: str
    event_time_ms: int
    complete_through_ms: int
    event_times: Literal["exact", "sampled"]
    offsets: HeldOffsets | None = None
    sequence: int | None = None
    snapshot: DatabaseSnapshot | None = None
    splits: int
    rows: int | None

    @property
    def evidence(self) -> Literal["offsets", "sequence", "timestamp"]:
        """The best evidence there is for where the next source starts."""
        if self.offsets is not None:
            return "offsets"
        return "sequence" if self.sequence is not None else "timestamp"


class PartitionStart(Part):
    """Start of one partition, with the evidence for it.

    Attributes:
        start: First offset to read.
        log_start: Log start offset when it was decided.
        log_end: End offset (next to be written), asked for *before* the time look-up.
        reason: Why this offset, in words.

    """

    start: int
    log_start: int
    log_end: int
    reason: str


class Gap(Part):
    """Records that may be in neither history nor what is left of the log.

    Attributes:
        topic, partition: Where.
        from_ms, to_ms: Record times between which they lie, exclusive; None if not known.
        from_offset, to_offset: Offsets among which they lie, half-open; None if not known.
        why: What happened, in words.

    """

    topic: str
    partition: int
    from_ms: int | None = None
    to_ms: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    why: str


class StartPosition(Record):
    """Where an unbounded source begins: explicit offsets for every partition.

    Attributes:
        source: Its name in the chain.
        evidence: What it was made from: ``factory`` for one that the user wrote.
        time_ms: The record time that was looked up, if it was a time.
        partitions: Start by partition.
        gaps: Holes that the user chose to accept.

    """

    VERSION: ClassVar[int] = 2

    source: str
    evidence: Evidence
    time_ms: int | None
    partitions: Annotated[dict[TopicPartition, PartitionStart], *_ByTopic]
    gaps: list[Gap] = []

    def offsets(self) -> Offsets:
        """Start offset by partition."""
        return {at: part.start for at, part in self.partitions.items()}
