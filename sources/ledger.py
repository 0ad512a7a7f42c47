"""The ledger of a hand-over: each partition's start offset, the reason for it, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence

from sources.common.positions import EndPosition, Evidence, Offsets, StartPosition
from sources.common.state_document import Part, Record
from sources.common.topic_log import Log
from sources.config.source.kafka_source import KafkaSource
from sources.errors import StateError
from sources.kafka.seam import SeamRule
from sources.state.generation import digests
from sources.storage.folder import Folder


class LedgerEntry(Part):
    """Entry of a hand-over's ledger about one partition of the topic.

    The seam is the range of offsets from ``start`` up to, and without, ``seam_end``, in which
    history may have delivered some of the rows already.

    Attributes:
        topic, partition: Topic, and number of the partition in it.
        start: First offset that is read.
        why: Why reading starts at this offset, in words.
        log_start: Log start offset (the first one that Kafka had not deleted) at the decision.
        first_offset: Offset of the first record at or after ``start``; None if there was none yet.
        first_ms: Record timestamp of that record, in Unix milliseconds; None if there was none yet.
        seam_end: First offset beyond the seam.
        overlap: Number of offsets in the seam; records that are in both files and topic are among
            them. 0 if history records exactly which offsets it holds.
        gap: What is missing, in words, where the declaration accepts gaps: all gaps of the
            partition; None if nothing is.
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
    """Record of one hand-over: where each partition starts, why, and how the seam is filtered.

    Written once, with the start position; the seam is the part of the topic in which history may
    have delivered some of the rows already.

    Attributes:
        source: The source that was handed over to.
        previous: End position of the source before it, if there is one.
        decided_by: What the start offsets were decided by.
        rule: How rows of the seam that history already delivered are recognized.
        end_ms: Highest event time of all sources before it, in Unix milliseconds; None if it is
            the first source.
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

    @property
    def is_filtered(self) -> bool:
        """Whether rows of the seam that history has delivered are found by comparing them with it.

        True for the rules ``key`` and ``event_time``: such rows are removed and all rows of the
        seam are counted; a :class:`SeamCount` is written once the stream has passed the seam.
        """
        return self.rule in ("key", "event_time")


class SeamCount(Record):
    """Count of the rows in the seam, written once the stream has passed it.

    The seam is the part of the topic in which history may have delivered some rows already.

    Attributes:
        source: Name of the Kafka source.
        rows: Number of rows read in the seam, by partition.
        removed: Number of those that were dropped because history had delivered them, by partition.
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
    """Build the ledger of a hand-over; the caller writes it to the state.

    Reads from Kafka the log start, and of each partition the first record at or after its start.

    Args:
        start: Start position that was decided.
        ends: End positions of all sources before the source, in reading order.
        rule: How rows of the seam that history already delivered are recognized.
        seam_end: First offset of each partition beyond the seam; a partition that is left out has
            an empty seam.
        log: Look-ups on the source's topics.
        source: The Kafka source that is handed over to.

    Raises:
        UnavailableError: A broker does not answer.
        InputError: A broker refuses.
    """
    log_start = log.log_start()
    present = {
        partition: max(offset, log_start[partition])
        for partition, offset in start.offsets().items()
        if partition in log_start
    }
    firsts = {record.partition: record for record in log.read(present, 1, log.log_end())}
    entries = []
    for partition, part in sorted(start.partitions.items()):
        end = seam_end.get(partition, part.start)
        gaps = [gap.why for gap in start.gaps if (gap.topic, gap.partition) == partition]
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
                gap="; also, ".join(gaps) or None,
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
    """Return the path of a source's ledger document, relative to the generation's state folder."""
    return f"ledger/{source}.json"


def count_name(source: str) -> str:
    """Return the path of a source's count of seam rows, relative to the generation's folder."""
    return f"ledger/{source}-seam.json"


def read_ledger(generation: Folder, source: str) -> tuple[Ledger | None, SeamCount | None]:
    """Read the ledger of the hand-over to a source, and the count of the rows in its seam.

    Unlike :func:`find_ledger`, it does not check whether ``start`` was changed since.

    Args:
        generation: State folder of the generation.
        source: Name of the Kafka source.

    Returns:
        The ledger, None until the hand-over is made; and the count, None until the stream has
        passed the seam.

    Raises:
        StateError: One of the documents is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    count = generation.read(count_name(source), SeamCount)
    return generation.read(ledger_name(source), Ledger), count


def find_ledger(generation: Folder, source: KafkaSource) -> Ledger | None:
    """Read the ledger of the hand-over to a source; None if the hand-over was not made.

    Raises:
        StateError: ``start`` was changed in the declaration after the hand-over, or the document is
            damaged.
        UnavailableError: The state's store does not answer.
    """
    ledger = generation.read(ledger_name(source.name), Ledger)
    if ledger is not None and ledger.declared != _start_digest(source):
        message = (
            f"`start` of source `{source.name}` changed after the hand-over to it was made, which "
            "decided its start offsets."
        )
        hint = (
            "Undo the change in the pipeline's file; or begin a new generation, `hybrid generation "
            "new P`, which computes the whole table again next to the one that serves."
        )
        raise StateError(message, hint, source=source.name, field="start")
    return ledger


def require_ledger(generation: Folder, source: KafkaSource) -> Ledger:
    """Read the ledger of the hand-over to a source, which must have been made.

    Raises:
        StateError: The hand-over was not made; ``start`` was changed in the declaration after it;
            or the document is damaged.
        UnavailableError: The state's store does not answer.
    """
    if (ledger := find_ledger(generation, source)) is None:
        file = generation.location(ledger_name(source.name))
        message = f"The hand-over to `{source.name}` is not recorded: {file} does not exist."
        hint = f"Run `hybrid step P {source.name}_handover`; offsets that are decided are kept."
        raise StateError(message, hint, source=source.name, file=file)
    return ledger


def _start_digest(source: KafkaSource) -> str:
    return digests({"start": source.model_dump(mode="json", include={"start"})})["start"]
