"""The ledger of a hand-over: what was decided for each partition, why, and what came of it."""

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
from sources.common.state import Folder
from sources.common.topic_log import Log
from sources.kafka.seam import SeamRule


class LedgerEntry(Part):
    """One partition of a hand-over.

    Attributes:
        topic, partition: Which.
        start: First offset read.
        why: The evidence for it, in words.
        log_start: Log start when it was decided.
        first_offset: Offset of the first record from ``start`` on, None if there was none yet.
        first_ms: Its record timestamp.
        seam_end: First offset beyond the seam.
        overlap: Offsets in the seam; records in both files and topic lie among them. None (0) if
            history tells exactly which records it holds.
        gap: What is missing, if that was accepted.
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
        previous: End position of the source before, if there is one.
        evidence: What the start was made from.
        rule: How rows of the seam that history has delivered are told.
        end_ms: Highest event time of all sources before it.
        declared: Digest of what the source declared as its ``start``.
        entries: One for each partition.
    """

    source: str
    previous: EndPosition | None
    evidence: Evidence
    rule: SeamRule
    end_ms: int | None
    declared: str
    entries: list[LedgerEntry]


class SeamCount(Record):
    """What was in the seam, once the stream has passed it.

    Attributes:
        source: The source whose stream it is.
        rows: Rows read in the seam, by partition.
        removed: Those of them that history had delivered.
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
    *,
    declared: str,
) -> Ledger:
    """The ledger of a start position, as the log stands."""
    begun = log.log_start()
    left = {at: max(offset, begun[at]) for at, offset in start.offsets().items() if at in begun}
    firsts = {record.partition: record for record in log.read(left, 1, log.log_end())}
    gaps: dict[tuple[str, int], Gap] = {(gap.topic, gap.partition): gap for gap in start.gaps}
    entries = []
    for at, part in sorted(start.partitions.items()):
        end = seam_end.get(at, part.start)
        gap = gaps.get(at)
        first = firsts.get(at)
        entries.append(
            LedgerEntry(
                topic=at.topic,
                partition=at.partition,
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
        evidence=start.evidence,
        rule=rule,
        end_ms=max((end.event_time_ms for end in ends), default=None),
        declared=declared,
        entries=entries,
    )


def ledger_name(source: str) -> str:
    """Where the ledger of a hand-over lies in the generation's folder."""
    return f"ledger/{source}.json"


def count_name(source: str) -> str:
    """Where the count of a seam lies in the generation's folder."""
    return f"ledger/{source}-seam.json"


def read_ledger(generation: Folder, source: str) -> tuple[Ledger | None, SeamCount | None]:
    """The ledger of a hand-over, and the count of its seam once that is passed."""
    count = generation.read(count_name(source), SeamCount)
    return generation.read(ledger_name(source), Ledger), count
