"""Checks of a hand-over that was made: they read its ledger and the log, and write nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sources.common.positions import Offsets
from sources.config.kafka_source import KafkaSource
from sources.errors import InputError, SeamError
from sources.kafka.client import KafkaLog
from sources.kafka.retention import RetentionWatch
from sources.ledger import Ledger, require_ledger
from sources.planning.context import PipelineContext
from sources.planning.plan import Plan
from sources.planning.topic_plan import TopicPlan, fit_sample, read_sample, require_same_topics

CHECKS = {
    "no_gap": "Every record that is not in history is read from the topic.",
    "no_duplicates": "Rows that are in both the files and the topic appear once in the target.",
    "retention": "Kafka still has every record from the start offsets on.",
    "schema": "The records fit the columns of history.",
}
_SEAM_RULES = {
    "none": "no row is in both: history records its offsets, or there is no history",
    "sequence": "changes that the snapshot contains are dropped",
    "replay": "changes that the snapshot may contain are applied again, in their order",
    "key": "rows whose key is in history are dropped",
    "event_time": "rows with an event time at or before the end of history are dropped",
    "off": "`seam_filter: off`: rows in both come twice",
}


@dataclass(frozen=True)
class Check:
    """Result of one check of a hand-over.

    Attributes:
        name: One of :data:`CHECKS`.
        passed: Whether the condition holds.
        text: The finding, in words.
        numbers: The figures behind it.
        accepted: The declaration accepts a failure of this check, so it does not stop a launch.
    """

    name: str
    passed: bool
    text: str
    numbers: Mapping[str, int]
    accepted: bool = False


def check_hand_over(
    context: PipelineContext,
    source: KafkaSource,
    reached: Offsets | None = None,
    log: KafkaLog | None = None,
) -> list[Check]:
    """Check a hand-over against the log as it is now; nothing is written.

    Args:
        context: The pipeline and its state.
        source: The source that was handed over to.
        reached: First offset of each partition that its run has not committed yet; records before
            them may have been deleted. Empty before the first commit.
        log: Look-ups on its topics; opened here if left out.

    Raises:
        StateError: The hand-over was not made, or `start` was changed since.
    """
    start = context.switch_state.require_start(source.name)
    ledger = require_ledger(context.generation, source)
    log = log or KafkaLog(source)
    planned = context.plan.topic_of(source.name)
    require_same_topics(planned, log)
    needed = {**start.offsets(), **(reached or {})}
    log_start = log.log_start()
    unread = {
        partition: max(offset, log_start[partition])
        for partition, offset in needed.items()
        if partition in log_start
    }
    return [
        _no_gap(ledger),
        _no_duplicates(ledger),
        _retention(RetentionWatch(source, log, unread), needed, log_start),
        _schema(source, context.plan, planned, log, unread),
    ]


def find_refusal(source: KafkaSource, checks: Sequence[Check]) -> SeamError | None:
    """Return why a source may not be launched: the first failed check that is not accepted."""
    for check in checks:
        if not check.passed and not check.accepted:
            message = f"Check `{check.name}` of source `{source.name}` fails: {check.text}"
            return SeamError(message, "Nothing was started.", source=source.name)
    return None


def require_sound(
    context: PipelineContext, source: KafkaSource, log: KafkaLog | None = None
) -> None:
    """Refuse a first launch whose hand-over does not pass its checks.

    Args:
        context: The pipeline and its state.
        source: The source to be launched.
        log: Look-ups on its topics; opened here if left out.

    Raises:
        SeamError: Names the check and its finding.
        StateError: The hand-over was not made, or `start` was changed since.
    """
    if (refusal := find_refusal(source, check_hand_over(context, source, log=log))) is not None:
        raise refusal


def _no_gap(ledger: Ledger) -> Check:
    gaps = [entry for entry in ledger.entries if entry.gap is not None]
    text = f"{len(ledger.entries)} partitions start where history ends."
    if gaps:
        text = f"topic `{gaps[0].topic}`, partition {gaps[0].partition}: {gaps[0].gap}"
    numbers = {"partitions": len(ledger.entries), "gaps": len(gaps)}
    # A ledger is written only if each gap in it was accepted.
    return Check("no_gap", not gaps, text, numbers, accepted=True)


def _no_duplicates(ledger: Ledger) -> Check:
    overlap = sum(entry.overlap for entry in ledger.entries)
    return Check(
        "no_duplicates",
        passed=ledger.rule != "off" or overlap == 0,
        text=f"{overlap:,} offsets in the seam; {_SEAM_RULES[ledger.rule]}.",
        numbers={"offsets in the seam": overlap},
        accepted=True,
    )


def _retention(watch: RetentionWatch, needed: Offsets, log_start: Offsets) -> Check:
    missing = sorted(set(needed) - set(log_start))
    lost = {
        partition: log_start[partition] - offset
        for partition, offset in needed.items()
        if log_start.get(partition, 0) > offset
    }
    numbers = {"offsets lost": sum(lost.values()), "partitions gone": len(missing)}
    if missing:
        text = f"{missing[0]} no longer exists."
        return Check("retention", passed=False, text=text, numbers=numbers)
    headrooms = watch.look()
    if headrooms:
        numbers["headroom (s)"] = headrooms[0].left_ms // 1000
    if lost:
        partition, count = next(iter(lost.items()))
        text = f"{partition}: Kafka deleted {count:,} offsets from the start offset on."
        return Check("retention", passed=False, text=text, numbers=numbers)
    text = f"{headrooms[0]}." if headrooms else "Kafka keeps the records."
    return Check("retention", passed=True, text=text, numbers=numbers)


def _schema(
    source: KafkaSource, plan: Plan, planned: TopicPlan, log: KafkaLog, starts: Offsets
) -> Check:
    sample = read_sample(log, starts)
    before = plan.files[-1].source if plan.files else plan.topics[0].source
    numbers = {"records looked at": len(sample)}
    try:
        warnings = fit_sample(source, before, planned.read, sample)
    except InputError as error:
        return Check("schema", passed=False, text=error.message, numbers=numbers)
    text = " ".join(["The records fit.", *warnings])
    return Check("schema", passed=True, text=text, numbers=numbers)
