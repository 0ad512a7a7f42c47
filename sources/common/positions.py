"""Positions: where a source ended, and where the next one starts (FLIP-150, "switch position").

Positions are written to the state folder before they are used, and never computed again.
All times are Unix milliseconds in UTC, as Kafka's record timestamps are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field, PlainSerializer

from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.state_document import Part, Record
from sources.common.table_definition import TableDefinition

V = TypeVar("V")
Evidence = Literal["offsets", "sequence", "timestamp", "fixed", "factory"]
"""What a start position was decided by; ``factory`` is a function that the user wrote."""


class TopicPartition(NamedTuple):
    """One partition of a Kafka topic, by the topic's name and the partition's number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic `{self.topic}`, partition {self.partition}"


def nest(flat: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    """Group values by topic, then by partition number: the form of JSON documents and of Spark.

    Topics and partitions are sorted. :func:`flatten` reverses it.

    Args:
        flat: Values by partition, such as offsets.
    """
    nested: dict[str, dict[int, V]] = {}
    for partition, value in sorted(flat.items(), key=lambda item: item[0]):
        nested.setdefault(partition.topic, {})[partition.partition] = value
    return nested


def flatten(nested: Mapping[str, Mapping[Any, V]]) -> dict[TopicPartition, V]:
    """Convert values by topic and partition number to values by :class:`TopicPartition`.

    Args:
        nested: Values by topic, then partition number, which may be a string as in JSON.

    Raises:
        ValueError: A partition number is not a whole number.
    """
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


class HeldRow(Part):
    """One of the last rows of a partition that history contains, by which its log is recognized.

    Attributes:
        topic, partition, offset: Topic, number of the partition and offset that the file says.
        file: Path of the file that has the row.
        event_time_ms: Event time of the row, in Unix milliseconds.
        digests: Digest of the row's value in each of a few other columns, by name.
    """

    topic: str
    partition: int
    offset: int
    file: str
    event_time_ms: int
    digests: dict[str, str]


class HeldOffsets(Part):
    """Offsets of the Kafka topic that history contains, where its files carry Kafka offsets.

    Attributes:
        next: Offset after the last one that history holds, by partition.
        exact: False if the files only suggest the offsets, as Kafka Connect's names without an end
            offset do.
        holes: Offsets before the last one held that history does not hold, by partition, as
            half-open ranges. Control records and compaction leave some, and so does a missing file.
        beside: For each of the first few holes of a partition, the file before and the file after
            it, so that people can see which one is missing; empty text where there is none.
        rows: The last rows of some partitions, which the log has to have at their offsets; empty
            where the files do not show them.
    """

    next: Offsets
    exact: bool
    holes: Annotated[dict[TopicPartition, list[tuple[int, int]]], *_ByTopic]
    beside: Annotated[dict[TopicPartition, list[tuple[str, str]]], *_ByTopic] = Field(
        default_factory=dict
    )
    rows: list[HeldRow] = Field(default_factory=list)


class EndPosition(Record):
    """End position of a finished bounded source: up to where its rows were delivered.

    Attributes:
        source: Name of the source.
        event_time_ms: Highest event time delivered.
        complete_through_ms: Event time up to which history is complete: as declared, or the highest
            event time minus the allowed lateness.
        event_times: ``exact`` (from all rows or statistics), or ``sampled`` (never above the true
            highest one).
        offsets: Kafka offsets that it holds; None if its files carry none.
        sequence: Log position of the database snapshot that the source is, such as a PostgreSQL
            LSN; None for other sources.
        snapshot: Which changes this database snapshot contains; None where not known.
        definition: The table in the database's catalog at this snapshot; None where not known.
        splits: Number of splits read.
        rows: Number of rows read; None where the format does not record it.
    """

    VERSION: ClassVar[int] = 3

    source: str
    event_time_ms: int
    complete_through_ms: int
    event_times: Literal["exact", "sampled"]
    offsets: HeldOffsets | None = None
    sequence: int | None = None
    snapshot: DatabaseSnapshot | None = None
    definition: TableDefinition | None = None
    splits: int
    rows: int | None

    @property
    def exact_offsets(self) -> HeldOffsets | None:
        """Kafka offsets that it holds, if they are known exactly; else None."""
        return self.offsets if self.offsets is not None and self.offsets.exact else None

    @property
    def evidence(self) -> Literal["offsets", "sequence", "timestamp"]:
        """What decides the start of the next source: the most exact position that is known.

        ``offsets`` if the files carry Kafka offsets, else ``sequence`` (log position of a database
        snapshot) if there is one, else ``timestamp`` (``complete_through_ms``).
        """
        if self.offsets is not None:
            return "offsets"
        return "sequence" if self.sequence is not None else "timestamp"


class PartitionStart(Part):
    """Start offset of one partition of a Kafka source, and the reason for it.

    Attributes:
        start: First offset to read.
        log_start: Log start offset (the first one that Kafka has not deleted) at the decision.
        log_end: Log end (the offset after the last readable record) at the decision, asked for
            before the look-up by time.
        reason: Why this offset was chosen, in words.
    """

    start: int
    log_start: int
    log_end: int
    reason: str


class Gap(Part):
    """Records of one partition that may be missing: neither in history nor still in Kafka.

    Attributes:
        topic, partition: Topic, and number of the partition.
        from_ms, to_ms: Record times (Unix ms, exclusive) between which they lie; None if not known.
        from_offset, to_offset: First offset, and the one after the last; None if not known.
        why: What is missing and why, in words.
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
        evidence: What the position was decided by.
        time_ms: Record time that was looked up, in Unix milliseconds; None if the position was not
            decided by a time.
        partitions: Start of each partition.
        gaps: Records that may be missing; in a recorded position, those that the declaration
            accepts (``on_gap: accept``).
    """

    VERSION: ClassVar[int] = 2

    source: str
    evidence: Evidence
    time_ms: int | None
    partitions: Annotated[dict[TopicPartition, PartitionStart], *_ByTopic]
    gaps: list[Gap] = Field(default_factory=list)

    def offsets(self) -> Offsets:
        """Return the first offset to read of each partition, without the reasons; may be empty."""
        return {partition: part.start for partition, part in self.partitions.items()}
