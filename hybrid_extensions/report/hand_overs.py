"""Hand-overs to topics in a report: the ledger, and each partition's progress since."""

from __future__ import annotations

from hybrid_extensions.report.model import HandOver, PartitionLine
from sources.common.positions import Evidence, Offsets, StartPosition, TopicPartition
from sources.config.source.kafka_source import KafkaSource
from sources.hybrid import Boundedness
from sources.ledger import Ledger, LedgerEntry, SeamCount, read_ledger
from sources.planning.context import PipelineContext
from sources.planning.topics.topic_plan import TopicPlan
from spark_jobs.run_state.heartbeat import read_heartbeat


def hand_overs(context: PipelineContext) -> list[HandOver]:
    """Return the hand-over to each Kafka source, or the plan's expectation before it is made.

    Empty without Kafka sources.

    Raises:
        StateError: The state can't be read, or has no plan.
        UnavailableError: The state's store does not answer.
    """
    return [_hand_over(context, source) for source in context.pipeline.topics]


def _hand_over(context: PipelineContext, source: KafkaSource) -> HandOver:
    ledger, count = read_ledger(context.generation, source.name)
    if ledger is None:
        return _expected(context, context.plan.topic_of(source.name))
    start = context.switch_state.start_of(source.name)
    firsts = [entry.first_ms for entry in ledger.entries if entry.first_ms is not None]
    looked_up_ms = None if start is None else start.time_ms
    read_to = _read_to(context, source)
    return HandOver(
        source=source.name,
        previous=None if ledger.previous is None else ledger.previous.source,
        is_made=True,
        decided_by=_decided_by(ledger.decided_by),
        rule=ledger.rule,
        complete_through_ms=_complete_through(ledger),
        start_ms=min(firsts, default=looked_up_ms),
        partitions=[_line(entry, count, read_to) for entry in ledger.entries],
    )


def _complete_through(ledger: Ledger) -> int | None:
    return None if ledger.previous is None else ledger.previous.complete_through_ms


def _line(entry: LedgerEntry, count: SeamCount | None, read_to: Offsets) -> PartitionLine:
    partition = TopicPartition(entry.topic, entry.partition)
    return PartitionLine(
        **entry.model_dump(),
        rows=None if count is None else count.rows.get(partition, 0),
        removed=None if count is None else count.removed.get(partition, 0),
        read_to=read_to.get(partition),
    )


def _expected(context: PipelineContext, part: TopicPlan) -> HandOver:
    """Return a hand-over that is not made yet, as the plan expects it."""
    start, context = part.expected_start, context.of_source(part.source)
    names = [each.name for each in context.pipeline.sources]
    before = names[: names.index(part.source)]
    ends = context.switch_state.ends_before(part.source)
    return HandOver(
        source=part.source,
        previous=before[-1] if before else None,
        is_made=False,
        decided_by=_decided_by(start.evidence),
        rule=part.seam_rule,
        complete_through_ms=ends[-1].complete_through_ms if ends else start.time_ms,
        start_ms=start.time_ms,
        partitions=_expected_lines(start, part.seam_end),
    )


def _expected_lines(start: StartPosition, seam_end: Offsets) -> list[PartitionLine]:
    return [
        PartitionLine(
            topic=partition.topic,
            partition=partition.partition,
            log_start=each.log_start,
            start=each.start,
            why=each.reason,
            first_offset=None,
            first_ms=None,
            seam_end=max(seam_end.get(partition, each.start), each.start),
            overlap=max(seam_end.get(partition, each.start) - each.start, 0),
        )
        for partition, each in sorted(start.partitions.items())
    ]


def _read_to(context: PipelineContext, source: KafkaSource) -> Offsets:
    """Return the first offset of each partition that the live run has not read, as it reported."""
    if source.boundedness is Boundedness.BOUNDED:
        return {}
    beat = read_heartbeat(context.generation, context.pipeline.run_of(source.name))
    return {} if beat is None or beat.offsets is None else beat.offsets


def _decided_by(evidence: Evidence) -> str:
    return "event time" if evidence == "timestamp" else evidence
