"""Plan of a Kafka source: the end of the seam, and the start expected by the log as it is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sources.common.positions import EndPosition, Offsets, Part, StartPosition, now_ms, span_ms
from sources.common.topic_log import LogRecord
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.config.user_functions import load_function
from sources.decoding.decoder import field_reader
from sources.errors import InputError, SeamError
from sources.hybrid import SourceFactory, SourceSwitchContext
from sources.kafka.batching import cut_range
from sources.kafka.client import KafkaLog
from sources.kafka.end_offsets import end_position, newest_read, resolve_ends
from sources.kafka.retention import Headroom, RetentionWatch, retention_ms
from sources.kafka.sample import ahead_ms
from sources.kafka.seam import SeamRule, check_compaction, check_start, seam_rule, seam_warnings
from sources.kafka.start_checks import needed_offsets
from sources.kafka.start_offsets import factory_for
from sources.planning.schema_check import compare_sample

SAMPLE_RECORDS = 100


@dataclass(frozen=True)
class Earlier:
    """Planned end of a source before a topic.

    Attributes:
        source: Name of the source.
        columns: Output columns: names and Spark SQL types.
        end: Expected end position.
    """

    source: str
    columns: dict[str, str]
    end: EndPosition


class RangePlan(Part):
    """Expected range of a bounded Kafka source; final, if it is the first source.

    Attributes:
        ends: First offset of each partition that is not read.
        offsets: Number of offsets; there are fewer records where control records use some up.
        batches: Number of micro-batches.
        end: Expected end position.
    """

    ends: Offsets
    offsets: int
    batches: int
    end: EndPosition


class TopicPlan(Part):
    """Plan of a Kafka source.

    Attributes:
        source: Name of the source.
        topics: Cluster id and topic id of each topic.
        read: Names and Spark SQL types of the columns that its records are decoded to.
        columns: Output columns, after ``select``: names and Spark SQL types.
        seam_end: Offset after the last record of each partition, open transactions included,
            read right after history was listed.
        log_start: Log start of each partition.
        expected_start: Start position by the log as it is now.
        seam_rule: How rows that history has already delivered will be recognized.
        timestamp_type: ``CreateTime`` or ``LogAppendTime``, by topic.
        retention_ms: Retention time by topic; None if records are kept without limit.
        headroom: Retention headroom of the partitions that Kafka may delete from, the most urgent
            first.
        range: Expected end, if the source is bounded.
    """

    source: str
    topics: dict[str, str]
    read: dict[str, str]
    columns: dict[str, str]
    seam_end: Offsets
    log_start: Offsets
    expected_start: StartPosition
    seam_rule: SeamRule
    timestamp_type: dict[str, str]
    retention_ms: dict[str, int | None]
    headroom: list[Headroom]
    range: RangePlan | None = None


def read_sample(log: KafkaLog, start: Offsets) -> list[LogRecord]:
    """Return a few records of each partition from an offset on; fewer, the more partitions.

    Args:
        log: Look-ups on the topics.
        start: First offset of each partition.
    """
    each = max(SAMPLE_RECORDS // max(len(start), 1), 1)
    return log.read(start, each, log.log_end())


def fit_sample(
    source: KafkaSource, before: str, read: Mapping[str, str], sample: Sequence[LogRecord]
) -> list[str]:
    """Compare a sample with the columns (:func:`sources.planning.schema_check.compare_sample`).

    Args:
        source: Declaration of the source.
        before: Name of the source before, which has the same output columns.
        read: All columns of a row before ``select``.
        sample: Records of the topic.

    Returns:
        Warnings about bad records that are tolerated.

    Raises:
        InputError: Records do not fit the columns.
    """
    of_value, reader = source.value_schema(read), field_reader(source)
    tolerant = source.on_bad_record != "fail"
    # With `select`, the columns compared are the source's own.
    left = source.name if source.select else before
    if source.format == "debezium":
        # Debezium writes tombstones for compaction.
        sample = [record for record in sample if record.value is not None]
    return compare_sample(left, of_value, sample, reader, tolerant=tolerant)


def start_factory(loaded: LoadedPipeline, source: KafkaSource, seam_end: Offsets) -> SourceFactory:
    """Return the factory of the hand-over that a source declares.

    Args:
        loaded: The pipeline.
        source: Declaration of the source.
        seam_end: Log ends when history was listed.
    """
    lateness_ms = loaded.pipeline.lateness_ms
    return factory_for(
        source,
        lateness_ms,
        lambda name: load_function(loaded, "start.factory", name),
        listed=seam_end,
    )


def require_same_topics(plan: TopicPlan, log: KafkaLog) -> None:
    """Refuse topics that are not the planned ones although they have the same names.

    Args:
        plan: Plan of the source.
        log: Look-ups on the topics.

    Raises:
        SeamError: A topic was deleted and created again, or it is in another cluster.
    """
    current = log.identities()
    for name, planned in plan.topics.items():
        if current.get(name) != planned:
            message = f"Topic `{name}` is not the planned one: its offsets have another meaning."
            hint = (
                "It was created again, or `bootstrap_servers` leads to another cluster: correct "
                "that, or start over with a new state folder."
            )
            raise SeamError(message, hint, source=plan.source, topic=name)


def is_continued(source: KafkaSource, log: KafkaLog, following: KafkaLog | None) -> bool:
    """Return whether the source after a bounded one, if there is one, reads the same topics.

    Args:
        source: The bounded source.
        log: Look-ups on its topics.
        following: Look-ups on the topics of the source after it, if there is one.

    Raises:
        InputError: Only some topics are the same.
    """
    if following is None:
        return True
    own, others = set(log.identities().values()), set(following.identities().values())
    if own & others and own != others:
        message = (
            f"Source `{source.name}` reads {', '.join(log.topics)}, the source after it "
            f"{', '.join(following.topics)}: some topics are in both."
        )
        hint = "Let both read the same topics, or none that the other one reads."
        raise InputError(message, hint, source=source.name, field="topic")
    return own == others


def plan_topics(
    loaded: LoadedPipeline,
    source: KafkaSource,
    log: KafkaLog,
    earlier: Sequence[Earlier],
    following: KafkaLog | None,
) -> tuple[TopicPlan, list[str]]:
    """Return the plan of a Kafka source, and warnings.

    To be called right after the files were listed.

    Args:
        loaded: The pipeline.
        source: Declaration of the source.
        log: Look-ups on its topics.
        earlier: Planned ends of all sources before it.
        following: Look-ups on the topics of the source after it, if there is one.

    Raises:
        InputError: Records do not fit the columns.
        UnavailableError: The broker, or the schema registry, does not answer.
        SeamError: With the log as it is now, the hand-over could not be made.
    """
    # Right after the listing: nothing appended from here on can be in the files.
    seam_end, log_start = log.high_watermark(), log.log_start()
    read = source.columns_after(earlier[0].columns if earlier else {})
    before = earlier[-1].source if earlier else source.name
    ends = [part.end for part in earlier]
    previous = ends[-1] if ends else None
    sample = read_sample(log, _first_not_in_history(log, previous))
    warnings = fit_sample(source, before, read, sample)
    settings = log.settings()
    check_compaction(loaded.pipeline, source, settings)
    # Files that arrive while history runs may still close a gap.
    may_close = source.on_gap == "extend"
    judged = source.model_copy(update={"on_gap": "accept"}) if may_close else source
    start = start_factory(loaded, judged, seam_end)(SourceSwitchContext(previous, log))
    sample += read_sample(log, start.offsets())
    rule = seam_rule(loaded.pipeline, ends, start, seam_end)
    lateness_ms = loaded.pipeline.lateness_ms
    check_start(rule, ends, start, sample)
    needed = needed_offsets(log, start, previous, lateness_ms)
    headroom = RetentionWatch(source, log, needed).look()
    plan = TopicPlan(
        source=source.name,
        topics=log.identities(),
        read=read,
        columns=source.selected(read),
        seam_end=seam_end,
        log_start=log_start,
        expected_start=start,
        seam_rule=rule,
        timestamp_type={name: of["message.timestamp.type"] for name, of in settings.items()},
        retention_ms={name: retention_ms(of) for name, of in settings.items()},
        headroom=headroom,
        range=_plan_range(loaded, source, log, start, previous, following),
    )
    ahead = ahead_ms(source, read, loaded.pipeline.event_time, sample)
    warnings += seam_warnings(loaded.pipeline, rule, previous, start, ahead)
    if source.start == "latest":
        warnings.append(
            f"Source `{source.name}` has `start: latest`: records before the log end at the "
            "hand-over are skipped."
        )
    limit_ms = span_ms(source.headroom)
    if headroom and headroom[0].left_ms < 2 * limit_ms:
        warnings.append(f"Retention: {headroom[0]}.")
    return plan, warnings


def _first_not_in_history(log: KafkaLog, previous: EndPosition | None) -> Offsets:
    """Return the first offset of each partition that history may not hold."""
    begun, ends = log.log_start(), log.log_end()
    if previous is None or previous.offsets is None or not previous.offsets.exact:
        return begun
    held = previous.offsets.next
    return {
        partition: min(max(first, held.get(partition, 0)), ends[partition])
        for partition, first in begun.items()
    }


def _plan_range(
    loaded: LoadedPipeline,
    source: KafkaSource,
    log: KafkaLog,
    start: StartPosition,
    previous: EndPosition | None,
    following: KafkaLog | None,
) -> RangePlan | None:
    if source.until is None:
        return None
    starts = start.offsets()
    ends = resolve_ends(source, log, starts, now_ms())
    end = end_position(
        source,
        newest_read(log, starts, ends),
        ends,
        previous,
        lateness_ms=loaded.pipeline.lateness_ms,
        is_continued=is_continued(source, log, following),
    )
    return RangePlan(
        ends=ends,
        offsets=sum(ends.values()) - sum(starts.values()),
        batches=len(cut_range(source, log, starts, ends)),
        end=end,
    )
