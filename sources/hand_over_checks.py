"""Checks of a completed hand-over: gaps, duplicates, retention, schema; they write nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sources.common.counting import counted
from sources.common.positions import Offsets
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, SeamError
from sources.kafka.client.kafka_log import KafkaLog, missing_in_words
from sources.kafka.retention import RetentionWatch
from sources.ledger import Ledger, require_ledger
from sources.planning.context import PipelineContext
from sources.planning.topics.topic_plan import TopicPlan, require_same_topics
from sources.planning.topics.topic_sample import fit_sample, read_sample

CHECKS = {
    "no_gap": "Every record that is not in history is read from the topic.",
    "no_duplicates": "Rows that are in both the files and the topic appear once in the target.",
    "retention": "Kafka still has every record from the start offsets on.",
    "schema": "The records fit the columns of history.",
}
"""The checks of a hand-over, by name: the condition that each one is about, as a sentence."""
# What to do after a failure that no declaration accepts.
_ADVICE = {
    "retention": (
        "Nothing was started; the lost records would be missing from the table. If files hold "
        "these records, begin a new generation, which reads these files: `hybrid generation new "
        "P`. Raise the topic's retention first, so that Kafka keeps the records until they are "
        "read."
    ),
    "schema": (
        "Nothing was started. Correct the source's `format`, `schema` or `select`, or the records' "
        "producer, then run `hybrid run P` again."
    ),
}
_SEAM_RULES = {
    "none": "no row is in both: history records its offsets, or there is no history",
    "sequence": "changes that the snapshot contains are dropped",
    "replay": "changes that history may contain are applied again, in their order",
    "key": "rows whose key is in history are dropped, and refused if their values differ",
    "event_time": "rows with an event time at or before the end of history are dropped",
    "off": "`seam_filter: off`: rows in both come twice",
}


@dataclass(frozen=True)
class Check:
    """Result of one check of a hand-over to a Kafka source.

    Attributes:
        name: ``no_gap``, ``no_duplicates``, ``retention`` or ``schema``.
        passed: Whether the condition holds.
        text: What was found, as a sentence.
        numbers: The figures behind the finding, by name, such as ``offsets lost``.
        accepted: Whether the declaration accepts a failure of this check (``on_gap: accept``,
            ``seam_filter: off``), so that it does not prevent the launch.
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
    """Check a hand-over against the Kafka topic as it is now; nothing is written.

    Args:
        context: The pipeline and its state.
        source: The Kafka source that was handed over to.
        reached: First offset of each partition that the source's run has not committed yet; Kafka
            may delete the records before them. Empty or None before the first commit.
        log: Look-ups on its topics; opened here if left out.

    Returns:
        Results of ``no_gap``, ``no_duplicates``, ``retention`` and ``schema``, in this order.

    Raises:
        StateError: The hand-over was not made, or ``start`` was changed since.
        SeamError: The topics are no longer those that were planned.
        UnavailableError: A broker does not answer.
        InputError: A broker refuses.
    """
    context = context.of_source(source.name)
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
        _no_gap(ledger, log),
        _no_duplicates(ledger),
        _retention(RetentionWatch(source, log, unread), needed, log_start),
        _schema(context, source, planned, log, unread),
    ]


def find_refusal(source: KafkaSource, checks: Sequence[Check]) -> SeamError | None:
    """Return the error of the first check that forbids to launch a source; None if none does.

    The error is returned, not raised. A check forbids the launch if it failed and the declaration
    does not accept that.

    Args:
        source: The Kafka source to be launched.
        checks: Results of the checks of the hand-over to it.
    """
    for check in checks:
        if not check.passed and not check.accepted:
            message = f"Check `{check.name}` of source `{source.name}` fails: {check.text}"
            return SeamError(message, _ADVICE[check.name], source=source.name)
    return None


def require_sound(
    context: PipelineContext, source: KafkaSource, log: KafkaLog | None = None
) -> None:
    """Refuse the first launch of a Kafka source whose hand-over fails its checks.

    Args:
        context: The pipeline and its state.
        source: The Kafka source to be launched.
        log: Look-ups on its topics; opened here if left out.

    Raises:
        SeamError: A check fails that the declaration does not accept (Kafka deleted records from
            the start offset on, or records do not fit the columns of history); or the topics are
            no longer those that were planned.
        StateError: The hand-over was not made, or ``start`` was changed since.
        UnavailableError: A broker does not answer.
        InputError: A broker refuses.
    """
    if (refusal := find_refusal(source, check_hand_over(context, source, log=log))) is not None:
        raise refusal


def _no_gap(ledger: Ledger, log: KafkaLog) -> Check:
    gaps = [entry for entry in ledger.entries if entry.gap is not None]
    start = counted(len(ledger.entries), "partition starts", "partitions start")
    text = f"{start} where history ends."
    if log.missing:
        text = f"{text} Source `{ledger.source}` waits: {missing_in_words(log.missing)}"
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
        text=f"{counted(overlap, 'offset')} in the seam; {_SEAM_RULES[ledger.rule]}.",
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
        text = f"{missing[0]} no longer exists in Kafka."
        return Check("retention", passed=False, text=text, numbers=numbers)
    headrooms = watch.look()
    if headrooms:
        numbers["headroom (s)"] = headrooms[0].left_ms // 1000
    if lost:
        partition, count = next(iter(lost.items()))
        text = f"{partition}: Kafka deleted {counted(count, 'offset')} from the start offset on."
        return Check("retention", passed=False, text=text, numbers=numbers)
    text = f"{headrooms[0]}." if headrooms else "Kafka keeps the records."
    return Check("retention", passed=True, text=text, numbers=numbers)


def _schema(
    context: PipelineContext,
    source: KafkaSource,
    planned: TopicPlan,
    log: KafkaLog,
    starts: Offsets,
) -> Check:
    sample, plan = read_sample(log, starts), context.plan
    before = plan.files[-1].source if plan.files else plan.topics[0].source
    numbers = {"records looked at": len(sample)}
    try:
        warnings, absent = fit_sample(context.loaded.pipeline, source, before, planned.read, sample)
    except InputError as error:
        return Check("schema", passed=False, text=error.message, numbers=numbers)
    text = " ".join(["The records fit.", *warnings, *absent])
    return Check("schema", passed=True, text=text, numbers=numbers)
