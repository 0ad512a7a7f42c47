"""Positions: where a source ended, and where the next one starts (FLIP-150, "switch position").

Positions are written to the state folder before they are used, and never computed again.
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
"""What a start position was decided by; ``factory`` is a function that the user wrote."""
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
    """Return values by topic and partition number, as JSON documents (and Spark's) hold them."""
    nested: dict[str, dict[int, V]] = {}
    for partition, value in sorted(flat.items(), key=lambda item: item[0]):
        nested.setdefault(partition.topic, {})[partition.partition] = value
    return nested


def flatten(nested: Mapping[str, Mapping[Any, V]]) -> dict[TopicPartition, V]:
    """Return values by partition: the reverse of :func:`nest`; numbers may be strings."""
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
    """Return the time now, in milliseconds."""
    return time.time_ns() // 1_000_000


def to_ms(moment: datetime) -> int:
    """Return a time that has a zone in milliseconds, rounded down."""
    return (moment - _EPOCH) // _MS


def to_us(moment: datetime) -> int:
    """Return a time that has a zone in microseconds."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def span_ms(span: timedelta) -> int:
    """Return a duration in milliseconds, rounded down."""
    return span // _MS


def iso(time_ms: int) -> str:
    """Return a time in milliseconds as text: ``2013-09-30T23:59:00Z``."""
    try:
        moment = _EPOCH + time_ms * _MS
    except OverflowError:
        # A wrong clock may well be beyond the year 9999.
        return f"{time_ms} ms"
    spec = "milliseconds" if time_ms % 1000 else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")


class Part(BaseModel):
    """Part of a document of the state folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Record(Part):
    """Versioned document of the state folder; an unknown version is refused."""

    VERSION: ClassVar[int] = 1

    version: int = 0

    @model_validator(mode="before")
    @classmethod
    def _of_this_version(cls, values: Any) -> Any:
        return {"version": cls.VERSION, **values} if isinstance(values, dict) else values

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Return the document that a text holds.

        Args:
            text: Content of the file.

        Raises:
            StateError: Written by another version of the project, or damaged.

        """
        try:
            document = json.loads(text)
            given = document.get("version") if isinstance(document, dict) else None
            if type(given) is not int or given != cls.VERSION:
                reason = f"it has version {given!r}, this project reads version {cls.VERSION}"
                raise ValueError(reason)
            return cls.model_validate(document)
        except ValueError as error:
            message = f"A state document of kind {cls.__name__} can't be read: {error}."
            hint = "Use the version of this project that wrote it, or a new state folder."
            raise StateError(message, hint) from None


class HeldOffsets(Part):
    """Records of the log that history holds, where its files carry Kafka offsets.

    Attributes:
        next: Offset after the last one held, by partition.
        exact: False if files only suggest it, as Kafka Connect's names without an end offset do.
        holes: Offsets before the last one held that history does not hold, as half-open ranges.
            Control records and compaction leave some, and so does a missing file.
    """

    next: Offsets
    exact: bool
    holes: Annotated[dict[TopicPartition, list[tuple[int, int]]], *_ByTopic]


class DatabaseSnapshot(Part):
    """Transactions that a snapshot of a PostgreSQL database can see.

    A change's log position does not decide whether a snapshot holds it: a transaction that was in
    flight when the snapshot was taken wrote before it and committed after it. PostgreSQL itself
    decides by these transaction ids
    (https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT).

    Attributes:
        lsn: End of the log right after the snapshot was taken; nothing written later is in it.
        xmin: All transactions before this one had ended.
        xmax: This transaction and later ones had not begun, or were not known yet.
        in_progress: Transactions between the two that were in flight. All are 64-bit ids.
        taken_ms: When it was taken, by the clock of the database, in milliseconds.
    """

    lsn: int
    xmin: int
    xmax: int
    in_progress: list[int]
    taken_ms: int

    def holds(self, lsn: str, transaction: str) -> str:
        """Return a SQL condition, for Spark and DuckDB alike, that the snapshot holds a change.

        A change's transaction id has 32 bits, which wrap around. Before ``lsn`` it is no further
        than half the range from the snapshot's; after ``lsn`` the id is not used. A row of a
        connector's own snapshot has none: it was read earlier, so this snapshot holds it.

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
    """End position of a finished bounded source.

    Attributes:
        source: Name of the source.
        event_time_ms: Highest event time delivered.
        complete_through_ms: History is complete up to this time: declared, or its highest event
            time minus the allowed lateness.
        event_times: ``exact`` (statistics) or ``sampled`` (never above the true highest one).
        offsets: Records of the log that it holds, where its files carry offsets.
        sequence: Log position of the database snapshot that it is, such as a PostgreSQL LSN.
        snapshot: Transactions that this snapshot can see, where known.
        splits: Number of splits read.
        rows: Number of rows read, where the format records it.

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
        """The best available evidence for where the next source starts."""
        if self.offsets is not None:
            return "offsets"
        return "sequence" if self.sequence is not None else "timestamp"


class PartitionStart(Part):
    """Start of one partition, and the reason for it.

    Attributes:
        start: First offset to read.
        log_start: Log start offset when it was decided.
        log_end: End offset (the next one to be written), read *before* the look-up by time.
        reason: Why this offset was chosen, in words.

    """

    start: int
    log_start: int
    log_end: int
    reason: str


class Gap(Part):
    """Records that may be in neither history nor what is left of the log.

    Attributes:
        topic, partition: Place of the gap.
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
    """Start position of a Kafka source: explicit offsets for every partition.

    Attributes:
        source: Name of the source.
        evidence: What it was decided by.
        time_ms: Record time that was looked up; None if it was not decided by a time.
        partitions: Start of each partition.
        gaps: Gaps that the user accepted (``on_gap: accept``).

    """

    VERSION: ClassVar[int] = 2

    source: str
    evidence: Evidence
    time_ms: int | None
    partitions: Annotated[dict[TopicPartition, PartitionStart], *_ByTopic]
    gaps: list[Gap] = []

    def offsets(self) -> Offsets:
        """Return the start offset of each partition."""
        return {partition: part.start for partition, part in self.partitions.items()}
