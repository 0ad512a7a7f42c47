"""The hand-over to a Kafka source: decide where it starts and ends, once, and write that down.

What was written is checked in :mod:`sources.hand_over_checks`, which only reads.
"""

from __future__ import annotations

from sources.common.positions import StartPosition
from sources.config.source.kafka_source import KafkaSource
from sources.files.held_offsets import check_same_log
from sources.hybrid import Boundedness, SourceFactory, SourceSwitchContext
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.seam import seam_rule
from sources.kafka.seam_checks import SeamOf, check_event_time_filter
from sources.ledger import Ledger, find_ledger, ledger_name, make_ledger
from sources.planning.approval import require_approved
from sources.planning.context import PipelineContext
from sources.planning.topics.topic_plan import require_same_topics, start_factory
from sources.planning.topics.topic_range import decide_range, planned_of


def hand_over(context: PipelineContext, source: KafkaSource, log: KafkaLog | None = None) -> Ledger:
    """Hand over to a Kafka source: decide its start offsets, and its end offsets if it is bounded.

    Writes the start position and the ledger, which says for each partition where it starts and
    why. Safe to repeat: what was decided before is read, and steps that are missing are completed.

    Args:
        context: The pipeline and its state.
        source: The Kafka source to hand over to.
        log: Look-ups on its topics; opened here if left out and needed.

    Returns:
        The ledger of the hand-over, now or earlier written.

    Raises:
        StateError: An earlier source has not finished, the plan is not approved, or ``start`` was
            changed since the hand-over.
        GapError: Records are missing from both history and the Kafka topic, and ``on_gap`` does
            not accept that.
        SeamError: Start or end can't be decided, or are outside the offsets that the topic has; or
            the offsets that history holds are those of another log.
        UnavailableError: A broker does not answer.
        InputError: A broker refuses, or records do not fit the columns.
    """
    context.switch_state.require_turn(source.name)
    # What another input has read says nothing of where this one's topic starts.
    context = context.of_source(source.name)
    ledger = find_ledger(context.generation, source)
    if ledger is None:
        ledger = _decide(context, source, log or KafkaLog(source))
    if source.boundedness is Boundedness.BOUNDED:
        decide_range(context, source)
    return ledger


def _decide(context: PipelineContext, source: KafkaSource, log: KafkaLog) -> Ledger:
    state, plan = context.switch_state, context.plan
    planned = plan.topic_of(source.name)
    require_same_topics(planned, log)
    ends = state.ends_before(source.name)
    seam_end = planned_of(context.generation, plan, ends[-1].source).seam_end if ends else {}

    def as_planned(_: SourceSwitchContext) -> StartPosition:
        return planned.expected_start

    # The plan decides a bounded topic that comes first, as it decides a listing of files.
    factory: SourceFactory = as_planned
    if ends or planned.range is None:
        require_approved(context)
        factory = start_factory(context.loaded, source, seam_end, planned.expected_start)

    def checked(switch: SourceSwitchContext) -> StartPosition:
        start = factory(switch)
        if seam_rule(context.pipeline, ends, start, seam_end) == "event_time":
            seam = SeamOf(ends, start, seam_end)
            check_event_time_filter(source, planned.read, context.pipeline, log, seam)
        check_same_log(context.pipeline, source, planned.read, log, ends, start)
        return start

    start = state.switch(source.name, checked, log)
    rule = seam_rule(context.pipeline, ends, start, seam_end)
    ledger = make_ledger(start, ends, rule, seam_end, log, source)
    return context.generation.put_if_absent(ledger_name(source.name), ledger)
