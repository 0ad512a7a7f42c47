"""Plan of a topic (Kafka source): the end of the seam, and the start expected by the log now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from sources.common.counting import counted
from sources.common.durations import span_ms
from sources.common.positions import EndPosition, Offsets, StartPosition
from sources.common.sql.select import OnlySparkError
from sources.common.state_document import Part
from sources.common.times import now_ms
from sources.config.code.user_functions import load_function
from sources.config.loader import LoadedPipeline
from sources.config.source.event_time import EventTime
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, SeamError
from sources.files.held_offsets import check_same_log
from sources.hybrid import SourceFactory, SourceSwitchContext
from sources.kafka.client.kafka_errors import NEW_GENERATION
from sources.kafka.client.kafka_log import KafkaLog, missing_in_words
from sources.kafka.client.sampled_event_times import SampledTimes, sampled_times
from sources.kafka.ranges.batching import cut_range
from sources.kafka.ranges.end_offsets import end_position, newest_read, resolve_ends
from sources.kafka.retention import Headroom, RetentionWatch, retention_ms
from sources.kafka.seam import SeamRule, check_compaction, check_start, seam_rule, seam_warnings
from sources.kafka.seam_checks import SeamOf, check_event_time_filter
from sources.kafka.seam_end import seam_end_now
from sources.kafka.start.declared_start import factory_for
from sources.kafka.start.log_checks import needed_offsets
from sources.kafka.start.overlap import likely_overlap
from sources.kafka.start.shifted_times import check_shift, find_shift
from sources.kafka.start.start_offsets import Known
from sources.planning.files.arrival_times import arrival_warnings
from sources.planning.topics.tombstone_check import tombstone_warnings
from sources.planning.topics.topic_sample import fit_sample, read_sample


@dataclass(frozen=True)
class Earlier:
    """Planned end of a source before the topic in the chain.

    Attributes:
        source: Name of the source.
        columns: Output columns of the source: names and Spark SQL types.
        end: End position that the source is expected to have.
    """

    source: str
    columns: dict[str, str]
    end: EndPosition


class RangePlan(Part):
    """Range of offsets that a bounded Kafka source is expected to read.

    It is final if the source is the first of the chain; otherwise the range is decided again at the
    hand-over to the source.

    Attributes:
        ends: First offset of each partition that is not read (exclusive end).
        offsets: Number of offsets; there are fewer records where control records use some up.
        batches: Number of micro-batches.
        end: End position that the source is expected to have.
    """

    ends: Offsets
    offsets: int
    batches: int
    end: EndPosition


class TopicPlan(Part):
    """Plan of a Kafka source.

    Attributes:
        source: Name of the source.
        topics: ``<cluster id>/<topic id>`` of each topic, by name.
        read: Names and Spark SQL types of the columns that its records are decoded to.
        columns: Output columns, after ``select``: names and Spark SQL types.
        seam_end: Offset after the last record of each partition, open transactions included,
            read right after history was listed.
        log_start: Log start offset of each partition at planning time.
        expected_start: Start position by the Kafka log at planning time; it is decided again at the
            hand-over.
        seam_rule: How rows that history has already delivered will be recognized.
        timestamp_type: ``CreateTime`` or ``LogAppendTime``, by topic.
        retention_ms: Retention time by topic, in milliseconds; None if records are not deleted by
            time.
        headroom: Retention headroom of the partitions that Kafka may delete from, the most urgent
            first.
        event_times: Event times of sampled records from the expected start on.
        range: Range of offsets that is expected to be read, if the source is bounded.
        likely_overlap: How many of its records are probably in history, too, by their timestamps;
            None if these do not show it.
        absent: Warnings about declared names that no sampled record has.
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
    event_times: SampledTimes
    range: RangePlan | None = None
    likely_overlap: int | None = None
    absent: list[str] = Field(default_factory=list)


def start_factory(
    loaded: LoadedPipeline,
    source: KafkaSource,
    seam_end: Offsets,
    expected: StartPosition | None = None,
) -> SourceFactory:
    """Return the function that decides a source's start position, as it declares under ``start``.

    When called, it raises :class:`~sources.kafka.start.declared_start.GapError` for a gap that the
    source does not accept, and SeamError if the hand-over can't be made.

    Args:
        loaded: The pipeline; its folder has the module of a declared factory of the user.
        source: Declaration of the Kafka source.
        seam_end: High watermark of each partition when history was listed.
        expected: Start position that the plan expected; None while it is being planned.

    Raises:
        InputError: The source is not in the chain. The function raises it, too: the broker refuses,
            or the user's factory can't be loaded.
    """
    pipeline = loaded.pipeline
    before = pipeline.sources[max(pipeline.hybrid_source().index(source.name) - 1, 0)]
    # Only files without `complete_through` end at a time that one wrong row may have set.
    is_declared = not isinstance(before, FileSource) or before.complete_through is not None
    return factory_for(
        source,
        pipeline.lateness_ms,
        lambda name: load_function(loaded, "start.factory", name),
        known=Known(seam_end, is_declared, expected),
    )


def require_same_topics(plan: TopicPlan, log: KafkaLog) -> None:
    """Refuse topics whose cluster id or topic id is no longer the planned one.

    Args:
        plan: Plan of the Kafka source.
        log: Look-ups on the topics as they are now.

    Raises:
        SeamError: A topic was deleted and created again, is missing, or is in another cluster.
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
    """
    current = log.identities()
    for name, planned in plan.topics.items():
        if current.get(name) != planned:
            message = (
                f"Topic `{name}` is not the planned one, and offsets count for that one only. "
                f"Planned was {planned} (cluster id/topic id), found is "
                f"{current.get(name, 'no topic')}."
            )
            hint = (
                f"If `bootstrap_servers` of source `{plan.source}` leads to another cluster, "
                f"correct it. If the topic was deleted, or created again, {NEW_GENERATION}"
            )
            raise SeamError(
                message,
                hint,
                source=plan.source,
                topic=name,
                value=current.get(name, ""),
                server=log.servers,
            )


def is_continued(source: KafkaSource, log: KafkaLog, following: KafkaLog | None) -> bool:
    """Return whether the source after a bounded Kafka source reads the same topics.

    If so, the next source starts at exactly the offsets where the bounded one ends. True as well if
    no source follows.

    Args:
        source: The bounded source.
        log: Look-ups on its topics.
        following: Look-ups on the topics of the source after it; None if no topic follows.

    Raises:
        InputError: Only some of the topics are in both sources.
        UnavailableError: A broker does not answer.
    """
    if following is None:
        return True
    own, others = set(log.identities().values()), set(following.identities().values())
    if own & others and own != others:
        message = (
            f"Source `{source.name}` reads {', '.join(log.topics)}, the source after it "
            f"{', '.join(following.topics)}: some topics are in both."
        )
        hint = (
            "Declare the same `topic` or `topic_pattern` for both sources, or let neither read a "
            "topic of the other one."
        )
        raise InputError(message, hint, source=source.name, field="topic")
    return own == others


def plan_topics(
    loaded: LoadedPipeline,
    source: KafkaSource,
    log: KafkaLog,
    earlier: Sequence[Earlier],
    following: KafkaLog | None,
) -> tuple[TopicPlan, list[str]]:
    """Plan a Kafka source: return its plan, and warnings for people. Writes nothing.

    Call it right after the files were listed: the high watermark that it reads becomes the end of
    the seam, beyond which no record can be in the files.

    Args:
        loaded: The pipeline.
        source: Declaration of the source.
        log: Look-ups on its topics.
        earlier: Planned ends of all sources before it.
        following: Look-ups on the topics of the source after it; None if no topic follows.

    Raises:
        InputError: Records do not fit the columns, only some topics are the same as those of the
            source after it, or the broker refuses.
        UnavailableError: The broker, or the schema registry, does not answer.
        SeamError: With the Kafka log as it is now, the hand-over could not be made, or the end that
            ``until`` declares is not possible.
    """
    seam_end, log_start = seam_end_now(log), log.log_start()
    read = source.columns_after(earlier[0].columns if earlier else {})
    before = earlier[-1].source if earlier else source.name
    ends = [part.end for part in earlier]
    previous = ends[-1] if ends else None
    sample = read_sample(log, _first_not_in_history(log, previous))
    warnings, absent = fit_sample(loaded.pipeline, source, before, read, sample)
    warnings += absent
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
    clock_ms, event_time, starts = now_ms(), loaded.pipeline.event_time, start.offsets()
    to_read = [record for record in sample if record.offset >= starts.get(record.partition, 0)]
    # A record may have been sampled twice.
    to_read = [*{(record.partition, record.offset): record for record in to_read}.values()]
    times, ahead_ms, shift, unread = SampledTimes(), 0, None, list[str]()
    try:
        times = sampled_times(source, read, event_time, clock_ms, to_read)
        ahead_ms = sampled_times(source, read, event_time, clock_ms, sample).ahead_ms
        shift = find_shift(source, read, event_time, clock_ms, sample)
    except OnlySparkError as error:
        unread = [_not_sampled(source.name, error)]
    check_shift(loaded.pipeline, source, previous, start, shift)
    warnings += check_same_log(loaded.pipeline, source, read, log, ends, start)
    if rule == "event_time":
        check_event_time_filter(source, read, loaded.pipeline, log, SeamOf(ends, start, seam_end))
    headroom = RetentionWatch(source, log, needed_offsets(log, start, previous, lateness_ms)).look()
    timestamp_type = {name: of["message.timestamp.type"] for name, of in settings.items()}
    likely = None
    # The time at which the broker appended a record is no time of an event.
    if previous is not None and {*timestamp_type.values()} == {"CreateTime"}:
        likely = likely_overlap(log, previous, start, seam_end)
    plan = TopicPlan(
        source=source.name,
        topics=log.identities(),
        read=read,
        columns=source.selected(read),
        seam_end=seam_end,
        log_start=log_start,
        expected_start=start,
        seam_rule=rule,
        timestamp_type=timestamp_type,
        retention_ms={name: retention_ms(of) for name, of in settings.items()},
        headroom=headroom,
        event_times=times,
        range=_plan_range(loaded, source, log, start, previous, following),
        likely_overlap=likely,
        absent=absent,
    )
    warnings += [*unread, *seam_warnings(loaded.pipeline, rule, previous, start, ahead_ms)]
    warnings += tombstone_warnings(source, settings)
    warnings += _outside(source.name, event_time, times)
    warnings += arrival_warnings(loaded.pipeline, source, timestamp_type)
    if log.missing:
        warnings.append(f"Source `{source.name}` waits: {missing_in_words(log.missing)}")
    if source.start == "latest":
        warnings.append(
            f"Source `{source.name}` has `start: latest`: records before the log end at the "
            "hand-over are skipped."
        )
    limit_ms = span_ms(source.headroom)
    if headroom and headroom[0].left_ms < 2 * limit_ms:
        warnings.append(f"Retention: {headroom[0]}.")
    return plan, warnings


def _not_sampled(source: str, error: OnlySparkError) -> str:
    """Return a warning about a topic whose event times the plan can't compute: none is decided."""
    return (
        f"Source `{source}`: event times of its sample are not shown and not compared with record "
        f"timestamps, nor with the bounds of `event_time`. {error.message}"
    )


def _outside(source: str, event_time: EventTime, times: SampledTimes) -> list[str]:
    """Return a warning if the run will end at a record of the sample; a sample refuses nothing."""
    if not times.outside or event_time.outside != "fail":
        return []
    return [
        f"Source `{source}`: of {counted(times.records, 'sampled record')}, "
        f"{counted(times.outside, 'has', 'have')} a time in "
        f"`{event_time.column}` that does not count, first {times.first_outside}. The run ends at "
        "such a record: correct `event_time.not_before` or `event_time.not_after`, or declare "
        "`event_time.outside: quarantine` or `drop`."
    ]


def _first_not_in_history(log: KafkaLog, previous: EndPosition | None) -> Offsets:
    """Return the first offset of each partition that history may not hold."""
    begun, ends = log.log_start(), log.log_end()
    if previous is None or (held := previous.exact_offsets) is None:
        return begun
    return {at: min(max(first, held.next.get(at, 0)), ends[at]) for at, first in begun.items()}


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
    clock_ms = now_ms()
    ends = resolve_ends(source, log, starts, clock_ms)
    end = end_position(
        source,
        newest_read(log, starts, ends, clock_ms),
        ends,
        previous,
        lateness_ms=loaded.pipeline.lateness_ms,
        is_continued=is_continued(source, log, following),
    )
    return RangePlan(
        ends=ends,
        offsets=sum(ends.values()) - sum(starts.values()),
        batches=len(cut_range(source, log, starts, ends, clock_ms)),
        end=end,
    )
