"""Plan of the Kafka source: the seam's end, and where it would start by today's look-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sources.contract import compare_sample
from sources.document import LoadedPipeline
from sources.errors import SeamError
from sources.file_plan import FilePlan
from sources.functions import load_function
from sources.hybrid import SourceFactory, SourceSwitchContext
from sources.kafka import KafkaLog
from sources.kafka_source import KafkaSource
from sources.log import LogRecord
from sources.offsets import factory_for, needed_offsets
from sources.positions import Offsets, Part, StartPosition, span_ms
from sources.readers import field_reader
from sources.retention import Headroom, RetentionWatch, retention_ms
from sources.seam import SeamRule, check_compaction, check_start, seam_rule, seam_warnings

SAMPLE_RECORDS = 100


class TopicPlan(Part):
    """Plan of the Kafka source.

    Attributes:
        topics: Each topic and which one of that name it is (cluster and topic id).
        columns: Column names and Spark SQL types that its values are read with.
        seam_end: Offset after the last record of each partition, open transactions included,
            read right after history was listed.
        log_start: Log start of each partition.
        expected_start: Where it would start by today's look-up.
        seam_rule: How rows that history has delivered will be told.
        timestamp_type: ``CreateTime`` or ``LogAppendTime``, by topic.
        retention_ms: By topic; None if it keeps records for ever.
        headroom: How long the records to be read afterwards are safe; the partitions that Kafka
            may delete from, the most urgent first.
    """

    source: str
    topics: dict[str, str]
    columns: dict[str, str]
    seam_end: Offsets
    log_start: Offsets
    expected_start: StartPosition
    seam_rule: SeamRule
    timestamp_type: dict[str, str]
    retention_ms: dict[str, int | None]
    headroom: list[Headroom]


def read_sample(log: KafkaLog, start: Offsets) -> list[LogRecord]:
    """A few records from each partition's offset on; fewer of each, the more partitions."""
    each = max(SAMPLE_RECORDS // max(len(start), 1), 1)
    return log.read(start, each, log.log_end())


def fit_sample(
    source: KafkaSource, before: str, columns: Mapping[str, str], sample: Sequence[LogRecord]
) -> list[str]:
    """Compare a sample with the columns (:func:`sources.contract.compare_sample`)."""
    of_value, reader = source.of_value(columns), field_reader(source)
    tolerant = source.on_bad_record != "fail"
    return compare_sample(before, of_value, sample, reader, tolerant=tolerant)


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


def plan_topics(
    loaded: LoadedPipeline, source: KafkaSource, log: KafkaLog, files: Sequence[FilePlan]
) -> tuple[TopicPlan, list[str]]:
    """Plan of the topics, and what people should know about it; call it right after the listing.

    Args:
        loaded: The pipeline.
        source: The Kafka source.
        log: Its look-ups.
        files: Plans of all sources before it.

    Raises:
        InputError: Records do not fit the columns.
        SeamError: The hand-over could not be made, as things stand.
    """
    # Right after the listing: nothing appended from here on can be in the files.
    seam_end, log_start = log.high_watermark(), log.log_start()
    columns = source.columns_after(files[0].columns if files else {})
    before = files[-1].source if files else source.name
    sample = read_sample(log, log_start)
    warnings = fit_sample(source, before, columns, sample)
    settings = log.settings()
    check_compaction(loaded.pipeline, source, settings)
    previous = files[-1].end if files else None
    # Files that arrive while history runs may still close a gap.
    may_close = source.on_gap == "extend"
    judged = source.model_copy(update={"on_gap": "accept"}) if may_close else source
    start = start_factory(loaded, judged, seam_end)(SourceSwitchContext(previous, log))
    sample += read_sample(log, start.offsets())
    rule = seam_rule(loaded.pipeline, [part.end for part in files], start)
    lateness_ms = loaded.pipeline.lateness_ms
    check_start(rule, [part.end for part in files], start, sample)
    needed = needed_offsets(log, start, previous, lateness_ms)
    headroom = RetentionWatch(source, log, needed).look()
    plan = TopicPlan(
        source=source.name,
        topics=log.identities(),
        columns=columns,
        seam_end=seam_end,
        log_start=log_start,
        expected_start=start,
        seam_rule=rule,
        timestamp_type={name: of["message.timestamp.type"] for name, of in settings.items()},
        retention_ms={name: retention_ms(of) for name, of in settings.items()},
        headroom=headroom,
    )
    warnings += seam_warnings(loaded.pipeline, rule, previous, start, sample, field_reader(source))
    limit_ms = span_ms(source.headroom)
    if headroom and headroom[0].left_ms < 2 * limit_ms:
        warnings.append(f"Retention: {headroom[0]}.")
    return plan, warnings
