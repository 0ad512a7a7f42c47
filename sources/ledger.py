"""The ledger of a hand-over: each partition's start offset, the reason for it, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence

from sources.common.positions import (
    EndPosition,
    Evidence,
    Gap,
    Offsets,
    Part,
    Record,
    StartPosition,
)
from sources.common.state import Folder, digests
from sources.common.topic_log import Log
from sources.config.kafka_source import KafkaSource
from sources.errors import StateError
from sources.kafka.seam import SeamRule


class LedgerEntry(Part):
    """One partition of a hand-over.

    Attributes:
        topic, partition: The partition.
        start: First offset that is read.
        why: The reason for it, in words.
        log_start: Log start offset when it was decided.
        first_offset: Offset of the first record at or after ``start``; None if there was none yet.
        first_ms: Record timestamp of that record.
        seam_end: First offset beyond the seam.
        overlap: Number of offsets in the seam; records that are in both files and topic are among
            them. 0 if history records exactly which offsets it holds.
        gap: What is missing, if the declaration accepts that; else None.
    """

    topic: str
    partition: int
    start: int
    why: str
    log_start: int
    first_offset: int | None
    first_ms: int | None
    seam_end: int
    overlap: int
    gap: str | None


class Ledger(Record):
    """The ledger of one hand-over, written with its start position.

    Attributes:
        source: The source that was handed over to.
        previous: End position of the source before it, if there is one.
        decided_by: What the start was derived from.
        rule: How rows of the seam that history already delivered are recognized.
        end_ms: Highest event time of all sources before it.
        declared: Digest of the ``start`` that the source declared.
        entries: One for each partition.
    """

    VERSION = 2

    source: str
    previous: EndPosition | None
    decided_by: Evidence
    rule: SeamRule
    end_ms: int | None
    declared: str
    entries: list[LedgerEntry]


class SeamCount(Record):
    """Rows of the seam, counted once the stream has passed it.

    Attributes:
        source: The source of the stream.
        rows: Rows read in the seam, by partition.
        removed: Those of them that were dropped because history had delivered them.
    """

    source: str
    rows: Offsets
    removed: Offsets


def make_ledger(
    start: StartPosition,
    ends: Sequence[EndPosition],
    rule: SeamRule,
    seam_end: Offsets,
    log: Log,
    source: KafkaSource,
) -> Ledger:
    """Describe a start position, with the first record that each partition has from it on now.

    Args:
        start: Where the source starts.
        ends: End positions of all sources before it, in order.
        rule: How rows of the seam that history already delivered are recognized.
        seam_end: First offset of each partition beyond the seam.
        log: Look-ups on its topics.
        source: The source.
    """
    log_start = log.log_start()
    present = {
        partition: max(offset, log_start[partition])
        for partition, offset in start.offsets().items()
        if partition in log_start
    }
    firsts = {record.partition: record for record in log.read(present, 1, log.log_end())}
    gaps: dict[tuple[str, int], Gap] = {(gap.topic, gap.partition): gap for gap in start.gaps}
    entries = []
    for partition, part in sorted(start.partitions.items()):
        end = seam_end.get(partition, part.start)
        gap = gaps.get(partition)
        first = firsts.get(partition)
        entries.append(
            LedgerEntry(
                topic=partition.topic,
                partition=partition.partition,
                start=part.start,
                why=part.reason,
                log_start=part.log_start,
                first_offset=None if first is None else first.offset,
                first_ms=None if first is None else first.timestamp_ms,
                seam_end=end,
                overlap=0 if rule == "none" else max(end - part.start, 0),
                gap=None if gap is None else gap.why,
            )
        )
    return Ledger(
        source=start.source,
        previous=ends[-1] if ends else None,
        decided_by=start.evidence,
        rule=rule,
        end_ms=max((end.event_time_ms for end in ends), default=None),
        declared=_start_digest(source),
        entries=entries,
    )


def ledger_name(source: str) -> str:
    """Return the name of a hand-over's ledger in the generation's folder."""
    return f"ledger/{source}.json"


def count_name(source: str) -> str:
    """Return the name of a seam's count in the generation's folder."""
    return f"ledger/{source}-seam.json"


def read_ledger(generation: Folder, source: str) -> tuple[Ledger | None, SeamCount | None]:
    """Read the ledger of a hand-over, and the count of its seam once the stream has passed it."""
    count = generation.read(count_name(source), SeamCount)
    return generation.read(ledger_name(source), Ledger), count


def find_ledger(generation: Folder, source: KafkaSource) -> Ledger | None:
    """Return the ledger of a source's hand-over; None if the hand-over was not made.

    Raises:
        StateError: The source's ``start`` was changed since.
    """
    ledger = generation.read(ledger_name(source.name), Ledger)
    if ledger is not None and ledger.declared != _start_digest(source):
        message = f"`start` of source `{source.name}` changed after the hand-over was made."
        hint = "Undo the change, or begin a new generation: `hybrid generation new`."
        raise StateError(message, hint, source=source.name, field="start")
    return ledger


def require_ledger(generation: Folder, source: KafkaSource) -> Ledger:
    """Return the ledger of a source's hand-over.

    Raises:
        StateError: The hand-over was not made, or the source's ``start`` was changed since.
    """
    if (ledger := find_ledger(generation, source)) is None:
        message = f"The hand-over to `{source.name}` is not recorded."
        hint = f"Run step `{source.name}_handover`: it keeps what was already decided."
        raise StateError(message, hint, source=source.name)
    return ledger


def _start_digest(source: KafkaSource) -> str:
    return digests({"start": source.model_dump(mode="json", include={"start"})})["start"]
