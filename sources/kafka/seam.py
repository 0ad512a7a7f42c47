"""What may be in history and topic both, how it is told, and what that can't see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from sources.common.positions import EndPosition, Offsets, StartPosition, iso
from sources.common.topic_log import LogRecord
from sources.config.kafka_source import KafkaSource
from sources.config.pipeline import Pipeline
from sources.errors import SeamError

SeamRule = Literal["none", "sequence", "replay", "key", "event_time", "off"]


def seam_rule(
    pipeline: Pipeline, ends: Sequence[EndPosition], start: StartPosition, seam_end: Offsets
) -> SeamRule:
    """How live rows that history has delivered are told.

    ``none`` where there are none: no history, or all of it tells its offsets exactly, or its last
    source does and has passed the seam of those before. ``sequence`` where history is a snapshot
    that tells what it can see, or its log position. ``replay`` where a log position is all it
    tells and the sink puts changes in order: a change of a transaction that was in flight may lie
    before that position and not be in the snapshot, while one that comes twice does no harm.
    Otherwise as declared.

    Args:
        pipeline: The declaration.
        ends: End positions of all sources before the topic, in order.
        start: Where the topic starts.
        seam_end: First offset beyond the seam.
    """
    if not ends:
        return "none"
    if pipeline.seam_filter is None:
        if ends[-1].snapshot is not None:
            return "sequence"
        if start.evidence == "offsets" and _tell_all(ends, start):
            return "none"
        if ends[-1].sequence is not None:
            return "replay" if pipeline.sink.sequence else "sequence"
        if start.evidence == "offsets" and _is_passed(ends[-1], start, seam_end):
            return "none"
    return pipeline.seam_rule


def _is_passed(last: EndPosition, start: StartPosition, seam_end: Offsets) -> bool:
    """Whether a topic starts beyond its seam, at the offsets that the source before it tells."""
    starts = start.offsets()
    is_exact = last.offsets is not None and last.offsets.exact
    return is_exact and all(starts.get(at, end) >= end for at, end in seam_end.items())


def _tell_all(ends: Sequence[EndPosition], start: StartPosition) -> bool:
    """Whether history tells exactly which records it holds, of each partition that has any.

    The start goes by the last source's word, which may include that of sources before it.
    """
    last = ends[-1].offsets
    return (
        last is not None
        and all(end.offsets is not None and end.offsets.exact for end in ends)
        and all(at in last.next or part.log_end == 0 for at, part in start.partitions.items())
    )


def check_start(
    rule: SeamRule, ends: Sequence[EndPosition], start: StartPosition, sample: Sequence[LogRecord]
) -> None:
    """Refuse a start that what is known of times can't carry.

    Args:
        rule: How rows in both are told.
        ends: End positions of all sources before the topic.
        start: Where it starts.
        sample: Records from the log start and from the start on.

    Raises:
        SeamError: Records carry no timestamp, or rows would be told by a time that is a guess.
    """
    if start.time_ms is not None:
        for record in sample:
            if record.timestamp_ms < 0:
                message = (
                    f"Topic `{record.at.topic}`, partition {record.at.partition}, offset "
                    f"{record.offset} has no timestamp: a look-up by time passes over it."
                )
                raise SeamError(message, "Write `start: {offsets: …}`.")
    guessed = [end.source for end in ends if end.event_times == "sampled"]
    if rule == "event_time" and guessed:
        message = (
            f"Source `{guessed[0]}` was sampled, so where it ends is not known exactly, and there "
            "is no `key` to tell rows by that files and topic both hold."
        )
        raise SeamError(message, "Declare the `key`, or write `seam_filter: off`.")


def check_compaction(
    pipeline: Pipeline, source: KafkaSource, settings: Mapping[str, Mapping[str, str]]
) -> None:
    """Refuse a compacted topic below a sink that keeps every row.

    Raises:
        SeamError: Names the topic.
    """
    for topic, of in settings.items():
        compacted = "compact" in of["cleanup.policy"]
        if compacted and pipeline.sink.mode == "append" and source.on_gap != "accept":
            message = (
                f"Topic `{topic}` is compacted: Kafka keeps the last record of a key only, so rows "
                "between history and that record may be gone."
            )
            hint = "Use `sink.mode: merge`, or write `on_gap: accept`."
            raise SeamError(message, hint)


def seam_warnings(
    pipeline: Pipeline,
    rule: SeamRule,
    previous: EndPosition | None,
    start: StartPosition,
    ahead_ms: int,
) -> list[str]:
    """What people should know before the hand-over.

    Args:
        pipeline: The declaration.
        rule: How rows in both are told.
        previous: Where the source before ends.
        start: Where the topic starts.
        ahead_ms: How far event times run ahead of record timestamps.
    """
    said = [
        f"Gap as of now: topic `{gap.topic}`, partition {gap.partition}: {gap.why}."
        for gap in start.gaps
    ]
    if previous is not None:
        end = iso(previous.event_time_ms)
        if rule == "event_time":
            said.append(
                f"No `key` is declared: live rows of the seam at or before {end} are taken for "
                "delivered. One of them that reached the topic but not the files is lost; one "
                "that is later but in the files comes twice."
            )
        if rule == "replay":
            said.append(
                "The snapshot tells its log position, but not which transactions were in flight: "
                "changes from before it are applied once more, in the order of `sink.sequence`. "
                "Until they are, some rows are older than in the snapshot."
            )
        if rule == "off":
            said.append("`seam_filter: off`: rows that both files and topic hold come twice.")
        if start.time_ms is not None and not _is_matched(start):
            said.append(
                f"No record is at or after {iso(start.time_ms)}: is there a row with a bad clock "
                f"in history, which ends at {end}?"
            )
    lateness_ms = pipeline.lateness_ms
    if start.time_ms is not None and ahead_ms > lateness_ms:
        said.append(
            f"Records carry timestamps up to {ahead_ms / 1000:,.0f} s before their event time, more"
            " than `allowed_lateness`: a look-up by time may start too late."
        )
    return said


def _is_matched(start: StartPosition) -> bool:
    parts = start.partitions.values()
    return any(part.start < part.log_end or part.log_end == 0 for part in parts)
