"""A hand-over, made and checked: start position and ledger first, then what must hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sources.common.positions import Offsets, StartPosition
from sources.common.state import digests
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, SeamError, StateError
from sources.hybrid import Boundedness, SourceSwitchContext, SwitchState
from sources.kafka.client import KafkaLog
from sources.kafka.retention import RetentionWatch
from sources.kafka.seam import seam_rule
from sources.ledger import Ledger, ledger_name, make_ledger
from sources.planning.approval import require_approved
from sources.planning.context import PipelineContext
from sources.planning.plan import Plan, require_plan
from sources.planning.topic_plan import (
    TopicPlan,
    fit_sample,
    read_sample,
    require_same_topics,
    start_factory,
)
from sources.planning.topic_range import decide_range, seam_end_after

CHECKS = {
    "no_gap": "Every record after what history holds is read.",
    "no_overlap": "What files and topic both hold arrives once.",
    "retention": "The log holds every record from the start offsets on.",
    "schema": "The records fit the columns of history.",
}


@dataclass(frozen=True)
class Check:
    """One check of a hand-over.

    Attributes:
        name: One of :data:`CHECKS`.
        passed: Whether it holds.
        accepted: It does not hold, but the pipeline says so: the launch goes on.
        text: What was found, in words.
        numbers: The figures behind it.
    """

    name: str
    passed: bool
    text: str
    numbers: Mapping[str, int]
    accepted: bool = False


def hand_over(loaded: LoadedPipeline, source: KafkaSource, log: KafkaLog | None = None) -> Ledger:
    """Decide where a source starts, once, and write the ledger; and where it ends, if it does.

    Args:
        loaded: The pipeline.
        source: The source.
        log: Its look-ups, if they are open.

    Raises:
        StateError: A source before it has not finished.
        GapError: Records are in neither history nor log.
        SeamError: Start or end can't be decided, or are not in the log.
    """
    ledger = _hand_over(loaded, source, log)
    if source.boundedness is Boundedness.BOUNDED:
        decide_range(PipelineContext.require(loaded), source)
    return ledger


def _hand_over(loaded: LoadedPipeline, source: KafkaSource, log: KafkaLog | None) -> Ledger:
    generation = loaded.require_generation()
    enumerator = SwitchState(loaded.pipeline.hybrid_source(), generation)
    enumerator.require_turn(source.name)
    declared = digests({"start": source.model_dump(mode="json", include={"start"})})["start"]
    if (known := generation.read(ledger_name(source.name), Ledger)) is not None:
        if known.declared != declared:
            message = f"`start` of source `{source.name}` changed after the hand-over was made."
            raise StateError(message, "Undo the change, or start over with a new state folder.")
        return known
    log = log or KafkaLog(source)
    plan = require_plan(generation)
    planned = plan.topic_of(source.name)
    require_same_topics(planned, log)
    ends = enumerator.ends_before(source.name)
    seam_end = seam_end_after(generation, plan, ends[-1].source) if ends else {}

    def as_planned(_: SourceSwitchContext) -> StartPosition:
        return planned.expected_start

    # What comes first and has an end was decided by the plan, as a listing of files is.
    is_decided = not ends and planned.range is not None
    if not is_decided:
        require_approved(PipelineContext(loaded, generation))
    factory = as_planned if is_decided else start_factory(loaded, source, seam_end)
    start = enumerator.switch(source.name, factory, log)
    rule = seam_rule(loaded.pipeline, ends, start, seam_end)
    ledger = make_ledger(start, ends, rule, seam_end, log, declared=declared)
    return generation.put_if_absent(ledger_name(source.name), ledger)


def check_hand_over(
    loaded: LoadedPipeline,
    source: KafkaSource,
    reached: Offsets | None = None,
    log: KafkaLog | None = None,
) -> list[Check]:
    """Check a hand-over that was made, as the log stands now.

    Args:
        loaded: The pipeline.
        source: The source that was handed over to.
        reached: First offsets not yet read, where its run has begun: what lies before them may be
            deleted.
        log: Its look-ups, if they are open.

    Raises:
        StateError: It was not made.
    """
    generation = loaded.require_generation()
    enumerator = SwitchState(loaded.pipeline.hybrid_source(), generation)
    start = enumerator.require_start(source.name)
    log = log or KafkaLog(source)
    ledger = hand_over(loaded, source, log)
    plan = require_plan(generation)
    planned = plan.topic_of(source.name)
    require_same_topics(planned, log)
    needed = {**start.offsets(), **(reached or {})}
    begun = log.log_start()
    left = {at: max(offset, begun[at]) for at, offset in needed.items() if at in begun}
    return [
        _no_gap(ledger),
        _no_overlap(ledger),
        _retention(RetentionWatch(source, log, left), needed, begun),
        _schema(source, plan, planned, log, left),
    ]


def require_sound(loaded: LoadedPipeline, source: KafkaSource, log: KafkaLog | None = None) -> None:
    """Refuse a launch whose hand-over does not pass its checks.

    Args:
        loaded: The pipeline.
        source: The source.
        log: Its look-ups, if they are open.

    Raises:
        SeamError: Names the check and what it found.
    """
    for check in check_hand_over(loaded, source, log=log):
        if not check.passed and not check.accepted:
            message = f"Check `{check.name}` of source `{source.name}` fails: {check.text}"
            raise SeamError(message, "Nothing was started.")


def _no_gap(ledger: Ledger) -> Check:
    gaps = [entry for entry in ledger.entries if entry.gap is not None]
    text = f"{len(ledger.entries)} partitions start where history ends."
    if gaps:
        text = f"topic `{gaps[0].topic}`, partition {gaps[0].partition}: {gaps[0].gap}"
    numbers = {"partitions": len(ledger.entries), "gaps": len(gaps)}
    # A gap that was not accepted never gets as far as a ledger.
    return Check("no_gap", not gaps, text, numbers, accepted=True)


def _no_overlap(ledger: Ledger) -> Check:
    overlap = sum(entry.overlap for entry in ledger.entries)
    told = {
        "none": "history tells its offsets, or there is none",
        "sequence": "changes that the snapshot holds are dropped",
        "replay": "changes that the snapshot may hold are applied once more, in their order",
        "key": "rows whose key history holds are dropped",
        "event_time": "rows that are not later than history are dropped",
        "off": "`seam_filter: off`: rows in both come twice",
    }[ledger.rule]
    passed = ledger.rule != "off" or overlap == 0
    text = f"{overlap:,} offsets in the seam; {told}."
    return Check("no_overlap", passed, text, {"offsets in the seam": overlap}, accepted=True)


def _retention(watch: RetentionWatch, needed: Offsets, begun: Offsets) -> Check:
    gone = sorted(set(needed) - set(begun))
    lost = {at: begun[at] - offset for at, offset in needed.items() if begun.get(at, 0) > offset}
    numbers = {"offsets lost": sum(lost.values()), "partitions gone": len(gone)}
    if gone:
        text = f"There is no {gone[0]} any more."
        return Check("retention", passed=False, text=text, numbers=numbers)
    rooms = watch.look()
    if rooms:
        numbers["headroom (s)"] = rooms[0].left_ms // 1000
    if lost:
        at, count = next(iter(lost.items()))
        text = f"{at}: Kafka deleted {count:,} offsets from the start on."
        return Check("retention", passed=False, text=text, numbers=numbers)
    text = f"{rooms[0]}." if rooms else "Kafka keeps the records."
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
    return Check(
        "schema", passed=True, text=" ".join(["The records fit.", *warnings]), numbers=numbers
    )
