"""Plan of a Kafka source: the seam's end, and where it would start by today's look-up."""

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
    """What is planned of a source before a topic.

    Attributes:
        source: Its name.
        columns: Column names and Spark SQL types.
        end: The end position to expect.
    """

    source: str
    columns: dict[str, str]
    end: EndPosition


class RangePlan(Part):
    """Where a bounded Kafka source ends by today's look-up; decided, if it is the first source.

    Attributes:
        ends: First offset that is not read, for each partition.
        offsets: How many there are; records are fewer where control records take some up.
        batches: Number of micro-batches.
        end: The end position to expect.
    """

    ends: Offsets
    offsets: int
    batches: int
    end: EndPosition


class TopicPlan(Part):
    """Plan of a Kafka source.

    Attributes:
        topics: Each topic and which one of that name it is (cluster and topic id).
        read: Names and Spark SQL types of the columns that its records are read with.
        columns: The same of those that come out, after ``select``.
        seam_end: Offset after the last record of each partition, open transactions included,
            read right after history was listed.
        log_start: Log start of each partition.
        expected_start: Where it would start by today's look-up.
        seam_rule: How rows that history has delivered will be told.
        timestamp_type: ``CreateTime`` or ``LogAppendTime``, by topic.
        retention_ms: By topic; None if it keeps records for ever.
        headroom: How long the records to be read afterwards are safe; the partitions that Kafka
            may delete from, the most urgent first.
        range: Where it ends, if it does.
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
    """A few records from each partition's offset on; fewer of each, the more partitions."""
    each = max(SAMPLE_RECORDS // max(len(start), 1), 1)
    return log.read(start, each, log.log_end())


def fit_sample(
    source: KafkaSource, before: str, read: Mapping[str, str], sample: Sequence[LogRecord]
) -> list[str]:
    """Compare a sample with the columns (:func:`sources.planning.schema_check.compare_sample`).

    Args:
        source: The declaration.
        before: The source before, which has the same columns.
        read: All columns of a row, before ``select``.
        sample: Records of the topic.
    """
    of_value, reader = source.of_value(read), field_reader(source)
    tolerant = source.on_bad_record != "fail"
    # What is selected from are the source's own columns, nobody else's.
    left = source.name if source.select else before
    if source.format == "debezium":
        # Its tombstones are there for compaction.
        sample = [record for record in sample if record.value is not None]
    return compare_sample(left, of_value, sample, reader, tolerant=tolerant)


def start_factory(loaded: LoadedPipeline, source: KafkaSource, seam_end: Offsets) -> SourceFactory:
    """The hand-over that a pipeline declares for a source, history being listed as far as that."""
    lateness_ms = loaded.pipeline.lateness_ms
    return factory_for(
        source,
        lateness_ms,
        lambda name: load_function(loaded, "start.factory", name),
        listed=seam_end,
    )


def require_same_topics(plan: TopicPlan, log: KafkaLog) -> None:
    """Refuse topics that are not those that were planned with, though they have their names.

    Raises:
        SeamError: One was deleted and made anew, or the address leads to another cluster.
    """
    found = log.identities()
    for name, planned in plan.topics.items():
        if found.get(name) != planned:
            message = f"Topic `{name}` is not the one that was planned with: offsets mean nothing."
            hint = (
                "It was made anew, or `bootstrap_servers` leads elsewhere: correct that, or start "
                "over with a new state folder."
            )
            raise SeamError(message, hint)


def is_continued(source: KafkaSource, log: KafkaLog, following: KafkaLog | None) -> bool:
    """Whether the source after a bounded one, if there is one, reads the same topics.

    Raises:
        InputError: It reads some of them, or others beside them.
    """
    if following is None:
        return True
    own, others = set(log.identities().values()), set(following.identities().values())
    if own & others and own != others:
        message = (
            f"Source `{source.name}` reads {', '.join(log.topics)}, the source after it "
            f"{', '.join(following.topics)}: some topics are in both."
        )
        raise InputError(message, "Let both read the same topics, or none that the other reads.")
    return own == others


def plan_topics(
    loaded: LoadedPipeline,
    source: KafkaSource,
    log: KafkaLog,
    earlier: Sequence[Earlier],
    following: KafkaLog | None,
) -> tuple[TopicPlan, list[str]]:
    """Plan of a source's topics, and what people should know about it.

    Call it right after the listing of the files.

    Args:
        loaded: The pipeline.
        source: The Kafka source.
        log: Its look-ups.
        earlier: What is planned of all sources before it.
        following: Look-ups of the source after it, if there is one.

    Raises:
        InputError: Records do not fit the columns.
        SeamError: The hand-over could not be made, as things stand.
    """
    # Right after the listing: nothing appended from here on can be in the files.
    seam_end, log_start = log.high_watermark(), log.log_start()
    read = source.columns_after(earlier[0].columns if earlier else {})
    before = earlier[-1].source if earlier else source.name
    ends = [part.end for part in earlier]
    previous = ends[-1] if ends else None
    sample = read_sample(log, _first_unheld(log, previous))
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
            f"Source `{source.name}` has `start: latest`: whatever its topics hold before their "
            "end at the hand-over is skipped."
        )
    limit_ms = span_ms(source.headroom)
    if headroom and headroom[0].left_ms < 2 * limit_ms:
        warnings.append(f"Retention: {headroom[0]}.")
    return plan, warnings


def _first_unheld(log: KafkaLog, previous: EndPosition | None) -> Offsets:
    """First record of each partition that history does not surely hold: older ones are not read."""
    begun, ends = log.log_start(), log.log_end()
    if previous is None or previous.offsets is None or not previous.offsets.exact:
        return begun
    held = previous.offsets.next
    return {at: min(max(first, held.get(at, 0)), ends[at]) for at, first in begun.items()}


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
