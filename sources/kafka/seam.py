"""The seam: rows that may be in history and topic both, and how those delivered are recognized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.durations import in_full
from sources.common.positions import EndPosition, Offsets, StartPosition
from sources.common.shard_snapshots import ShardSnapshots
from sources.common.times import iso
from sources.common.topic_log import LogRecord
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError

SeamRule = Literal["none", "sequence", "replay", "key", "event_time", "off"]
"""How rows of the topic that history has delivered are recognized (:func:`seam_rule`)."""


def seam_rule(
    pipeline: Pipeline, ends: Sequence[EndPosition], start: StartPosition, seam_end: Offsets
) -> SeamRule:
    """Decide by which rule a topic's rows are recognized that history has delivered already.

    Near the seam, rows may be in both history and topic; the rule finds them, so that the table has
    each once. Called by the plan, and again at the hand-over, whose ledger keeps it. The rules:

    - ``none``: no row can be in both: there is no history, or its exact offsets are known.
    - ``sequence``: history is a snapshot, or has log positions; changes up to it are dropped.
    - ``replay``: the sink orders changes (``sink.sequence``), and nothing shows exactly which ones
      history holds; all are applied again, which does no harm.
    - ``key``, ``event_time``, ``off``: as the pipeline declares (``seam_filter``), or its default.

    Args:
        pipeline: Declaration of the pipeline.
        ends: End positions of all sources before the topic, in order.
        start: Start position of the topic.
        seam_end: First offset of each partition beyond the seam.
    """
    if not ends:
        return "none"
    if pipeline.seam_filter is None:
        if ends[-1].snapshot is not None:
            return "sequence"
        if start.evidence == "offsets" and _all_held_exactly(ends, start):
            return "none"
        if ends[-1].sequence is not None:
            return "replay" if pipeline.sink.sequence else "sequence"
        if start.evidence == "offsets" and _is_passed(ends[-1], start, seam_end):
            return "none"
        if pipeline.sink.order and not set(pipeline.sink.order) <= set(pipeline.key):
            return "replay"
    return pipeline.seam_rule


def held_snapshot(
    pipeline: Pipeline, ends: Sequence[EndPosition]
) -> DatabaseSnapshot | ShardSnapshots | None:
    """Return the database snapshot that decides which changes of a topic history contains.

    Args:
        pipeline: Declaration of the pipeline.
        ends: End positions of all sources before the topic, in order.

    Returns:
        The last source's snapshot, or those of all shards where the pipeline declares some; None
        if history is no snapshot.
    """
    taken = {end.source: end.snapshot for end in ends}
    shards = {
        topic: snapshot
        for topic, source in pipeline.shards.items()
        if (snapshot := taken.get(source.name)) is not None
    }
    last = ends[-1].snapshot if ends else None
    return ShardSnapshots(shards) if shards else last


def _is_passed(last: EndPosition, start: StartPosition, seam_end: Offsets) -> bool:
    """Return whether a topic starts beyond its seam, at the exact offsets of the source before."""
    starts = start.offsets()
    is_beyond = all(starts.get(partition, end) >= end for partition, end in seam_end.items())
    return is_beyond and last.exact_offsets is not None


def _all_held_exactly(ends: Sequence[EndPosition], start: StartPosition) -> bool:
    """Return whether history has exact offsets for each partition that has any records.

    The start is decided by the last source's offsets, which may include those of sources before.
    """
    held = [end.exact_offsets for end in ends]
    last = held[-1]
    return (
        last is not None
        and None not in held
        and all(at in last.next or not part.log_end for at, part in start.partitions.items())
    )


def check_start(
    rule: SeamRule, ends: Sequence[EndPosition], start: StartPosition, sample: Sequence[LogRecord]
) -> None:
    """Refuse a start of a topic if it depends on event times that are not known well enough.

    Called by the plan.

    Args:
        rule: How rows that are in history and topic both are recognized (:func:`seam_rule`).
        ends: End positions of all sources before the topic.
        start: Start position of the topic.
        sample: Records from the log start and from the start position on.

    Raises:
        SeamError: The start is by time, and a record carries no timestamp; or the rule is
            ``event_time``, and the end time of a source before was only sampled.
    """
    if start.time_ms is not None:
        for record in sample:
            if record.timestamp_ms < 0:
                topic, number, at = *record.partition, record.offset
                message = (
                    f"Topic `{topic}`, partition {number}, offset {at} has no "
                    "timestamp: a look-up by time skips it, and its row could be missing from the "
                    "table. No start was decided."
                )
                hint = (
                    f"Declare the start of source `{start.source}` by offsets, one for each "
                    "partition: `start: {offsets: {0: 17, 1: 4}}`."
                )
                raise SeamError(
                    message, hint, source=start.source, topic=topic, partition=number, offset=at
                )
    sampled = [end.source for end in ends if end.event_times == "sampled"]
    if rule == "event_time" and sampled:
        message = (
            f"Event times of source `{sampled[0]}` were sampled, so its end is not known exactly, "
            "and there is no `key` by which rows that are in history and topic are recognized."
        )
        hint = (
            "Declare the pipeline's `key`, the columns that identify a row; or `seam_filter: off`, "
            "with which rows that are in both come twice."
        )
        raise SeamError(message, hint, source=sampled[0], field="key")


def check_compaction(
    pipeline: Pipeline, source: KafkaSource, settings: Mapping[str, Mapping[str, str]]
) -> None:
    """Refuse a compacted topic if the sink keeps every row: compaction has deleted some of them.

    Called while planning; returns without effect if nothing is wrong.

    Args:
        pipeline: Declaration of the pipeline.
        source: Declaration of the source.
        settings: Configuration of each topic by name, with ``cleanup.policy``.

    Raises:
        SeamError: A topic is compacted, the sink has ``mode: append``, and ``on_gap`` is not
            ``accept``. Names the topic, and ``mode: merge`` or ``on_gap: accept`` as ways out.
    """
    for topic, of in settings.items():
        compacted = "compact" in of["cleanup.policy"]
        if compacted and pipeline.sink.mode == "append" and source.on_gap != "accept":
            message = (
                f"Topic `{topic}` is compacted: Kafka keeps only the last record of a key, so rows "
                "between history and that record may be deleted."
            )
            hint = (
                "Declare `sink.mode: merge`, which keeps the last row of a key; or `on_gap: "
                f"accept` for source `{source.name}`, with which deleted rows are missing from the "
                "table."
            )
            raise SeamError(message, hint, source=source.name, topic=topic)


def seam_warnings(
    pipeline: Pipeline,
    rule: SeamRule,
    previous: EndPosition | None,
    start: StartPosition,
    ahead_ms: int,
) -> list[str]:
    """Return warnings for the plan about the seam between history and topic.

    Args:
        pipeline: Declaration of the pipeline.
        rule: How rows that are in history and topic both are recognized (:func:`seam_rule`).
        previous: End position of the source before; None for the first source of the chain.
        start: Start position of the topic, with its gaps.
        ahead_ms: How many milliseconds event times run ahead of record timestamps.

    Returns:
        Sentences; an empty list if there is nothing to warn about.
    """
    warnings = [
        f"Gap as of now: topic `{gap.topic}`, partition {gap.partition}: {gap.why}."
        for gap in start.gaps
    ]
    if previous is not None:
        warnings += _later_beginnings(previous, start)
        end = iso(previous.event_time_ms)
        if rule == "event_time":
            warnings.append(
                f"No `key` is declared: live rows of the seam at or before {end} count as "
                "delivered. A row of that time that reached the topic but not the files is lost; "
                "a later row that is in the files comes twice."
            )
        if rule == "replay" and previous.sequence is None:
            warnings.append(
                "Rows of the seam are merged again in the order of `sink.sequence`, as an update "
                "has the key of the row that it changes. Until the seam is passed, some rows are "
                "older than in history."
            )
        elif rule == "replay":
            warnings.append(
                "Of the snapshot the log position is known, but not which transactions were in "
                "flight: changes from before it are applied again, in the order of "
                "`sink.sequence`. Until then some rows are older than in the snapshot."
            )
        if rule == "key" and _is_updated_by_key(pipeline):
            outcome = "is refused when it is read" if pipeline.seam_filter is None else "is dropped"
            warnings.append(
                "`sink.sequence` is not declared, so nothing distinguishes an update in the seam "
                "from a row that history holds: a live row with a key of history and other values "
                f"{outcome}. Declare `sink.sequence` if rows are updated."
            )
        if rule == "off":
            warnings.append("`seam_filter: off`: rows that are in both files and topic come twice.")
        if start.time_ms is not None and start.partitions and not _is_matched(start):
            warnings.append(
                f"No record is at or after {iso(start.time_ms)}: history, which ends at {end}, may "
                "hold a row with a wrong clock. Declare `complete_through` for source "
                f"`{previous.source}` if it does."
            )
    lateness_ms = pipeline.lateness_ms
    if start.time_ms is not None and ahead_ms > lateness_ms:
        warnings.append(
            f"Records carry timestamps up to {in_full(ahead_ms)} before their event time, "
            "which is more than `allowed_lateness`: a look-up by time may start too late."
        )
    return warnings


def _later_beginnings(previous: EndPosition, start: StartPosition) -> list[str]:
    """Return a warning if the first offsets of partitions are neither in history nor in Kafka."""
    if (held := previous.exact_offsets) is None:
        return []
    begins = [
        (at, ranges[0][1])
        for at, ranges in sorted(held.holes.items())
        if ranges[0][0] == 0 and at in start.partitions and start.partitions[at].log_start > 0
    ]
    if not begins:
        return []
    at, first = begins[0]
    more = f" (and {len(begins) - 1} more partitions)" if len(begins) > 1 else ""
    return [
        f"History begins at offset {first} of {at}{more}: records before it are in no file, and "
        "Kafka has deleted the first of them."
    ]


def _is_updated_by_key(pipeline: Pipeline) -> bool:
    """Return whether a later row replaces an earlier one of its key, in the order of arrival."""
    sink = pipeline.sink
    return sink.mode == "merge" and not sink.order and set(sink.key) == set(pipeline.key)


def _is_matched(start: StartPosition) -> bool:
    parts = start.partitions.values()
    return any(part.start < part.log_end or part.log_end == 0 for part in parts)
