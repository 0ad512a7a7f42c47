"""Range of a bounded topic (Kafka source): decided once, when its turn comes, and kept.

It is for a topic what the table of splits is for files (FLIP-27: the split enumerator): first and
last offsets of each partition, cut into splits, in batches.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa

from sources.common.positions import EndPosition, Offsets, TopicPartition
from sources.common.state_document import Record
from sources.common.times import now_ms
from sources.config.source.kafka_source import KafkaSource
from sources.errors import StateError
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.ranges.batching import cut_range
from sources.kafka.ranges.cut_ranges import Ranges, splits_of
from sources.kafka.ranges.end_offsets import end_position, newest_read, resolve_ends
from sources.kafka.seam_end import seam_end_after_range, seam_end_now
from sources.kafka.start.log_checks import check_not_truncated
from sources.planning.context import PipelineContext
from sources.planning.files.rounds import History, history_of
from sources.planning.plan import Plan
from sources.planning.topics.topic_plan import is_continued
from sources.state.generation import Generation
from sources.state.state_table import read_state_table, write_state_table

RANGE_SPLITS = pa.schema(
    [
        ("batch", pa.int64()),  # from 0
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("end", pa.int64()),  # after the last offset
    ]
)
"""Columns of the table of splits of a range: each row is a split, and rows are in reading order."""


class TopicRange(Record):
    """Range of offsets that a bounded Kafka source reads, once it is decided.

    Attributes:
        source: Name of the source.
        starts: First offset of each partition that is read.
        ends: First offset of each partition that is not read any more (exclusive end).
        splits_file: Path of the table of splits, relative to the generation's folder.
        batches: Number of micro-batches.
        clock_ms: When the range was decided, in Unix milliseconds. All of its records were in the
            log by then, so event times are compared with this clock.
        end: End position of the source once all of the range is read.
        seam_end: First offset of each partition of the next source that lies beyond the seam:
            nothing from it on is in this range or in earlier sources. Empty if no topic follows.
    """

    VERSION = 2

    source: str
    starts: Offsets
    ends: Offsets
    clock_ms: int
    splits_file: str
    batches: int
    end: EndPosition
    seam_end: Offsets


def find_range(generation: Generation, source: str) -> TopicRange | None:
    """Return the range of a bounded Kafka source from the state, or None if it is not decided yet.

    Args:
        generation: State of the generation.
        source: Name of the source.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(f"ranges/{source}.json", TopicRange)


def require_range(generation: Generation, source: str) -> TopicRange:
    """Return the range of offsets that a bounded Kafka source reads, from the state.

    Args:
        generation: State of the generation.
        source: Name of the source.

    Raises:
        StateError: The range is not decided yet: that is done in the hand-over to the source.
        UnavailableError: The state's store does not answer.
    """
    decided = find_range(generation, source)
    if decided is None:
        message = f"The range of offsets that source `{source}` reads is not decided yet."
        hint = (
            f"Make the hand-over to the source first: `hybrid step P {source}_handover`, or "
            "`hybrid run P`, which does all steps."
        )
        raise StateError(message, hint, source=source, generation=generation.info.generation)
    return decided


def read_range_splits(decided: TopicRange, generation: Generation) -> pa.Table:
    """Read the table of splits of a range from the generation's folder.

    Args:
        decided: The range, which names the file.
        generation: State of the generation.

    Returns:
        A table of schema :data:`RANGE_SPLITS`, in reading order.

    Raises:
        StateError: The file is missing or can't be read.
        UnavailableError: The state's store does not answer.
    """
    return read_state_table(generation, decided.splits_file)


def planned_of(generation: Generation, plan: Plan, source: str) -> TopicRange | History:
    """Return what is planned of a bounded source so far: a topic's range, or files with rounds.

    Its ``end`` is the end position that the source has once all of that is read; its ``seam_end``
    the end of the seam before the topic that follows (:mod:`sources.kafka.seam_end`), empty if none
    does.

    Args:
        generation: State of the generation.
        plan: Plan of the generation.
        source: Name of a bounded source, of files or topics.

    Raises:
        KeyError: It is neither a planned file source, nor a Kafka source whose range is
            decided.
        StateError: A range or a round is damaged.
        UnavailableError: The state's store does not answer.
    """
    decided = find_range(generation, source)
    return history_of(generation, plan, source) if decided is None else decided


def decide_range(context: PipelineContext, source: KafkaSource) -> TopicRange:
    """Decide which offsets a bounded Kafka source reads, and write that to the state.

    Part of the hand-over to the source, once its start is decided. A range that was decided before
    is returned as it is. For the first source of a chain the plan has decided the end already.

    Args:
        context: The pipeline and its state.
        source: The bounded Kafka source.

    Raises:
        StateError: The source's start position is not decided yet, there is no plan, or the state
            folder can't be written.
        SeamError: The declared or planned end is in the future or not in the log, the next source
            would need an end time that is not known, or ``align`` is not possible.
        UnavailableError: The broker does not answer.
        InputError: The broker refuses, or only some topics are those of the next source.
    """
    generation, pipeline = context.generation, context.pipeline
    if (known := find_range(generation, source.name)) is not None:
        return known
    start = context.switch_state.require_start(source.name).offsets()
    ends_before = context.switch_state.ends_before(source.name)
    log = KafkaLog(source)
    clock_ms = now_ms()
    planned = context.plan.topic_of(source.name).range
    if ends_before or planned is None:
        ends = resolve_ends(source, log, start, clock_ms)
    else:
        ends = planned.ends
        check_not_truncated(ends, log.high_watermark())
    begun = log.log_start()
    # A partition that was added since the start was decided is read from its beginning.
    starts = {partition: start.get(partition, begun[partition]) for partition in ends}
    batches = cut_range(source, log, starts, ends, clock_ms)
    table = _table(batches)
    after = pipeline.next_topic(source.name)
    following = None if after is None else KafkaLog(after)
    continued = is_continued(source, log, following)
    previous = ends_before[-1] if ends_before else None
    end = end_position(
        source,
        newest_read(log, starts, ends, clock_ms),
        ends,
        previous,
        lateness_ms=pipeline.lateness_ms,
        is_continued=continued,
    )
    seam_end: Offsets = {}
    if following is not None and not continued:
        seam_end = seam_end_now(following)
    elif following is not None:
        earlier = previous and planned_of(generation, context.plan, previous.source)
        seam_end = seam_end_after_range(ends, earlier.seam_end if earlier else {})
    made = TopicRange(
        source=source.name,
        starts=starts,
        ends=ends,
        clock_ms=clock_ms,
        splits_file=f"splits/{source.name}-{uuid.uuid4().hex[:12]}.parquet",
        batches=len(batches),
        end=end.model_copy(update={"splits": len(table)}),
        seam_end=seam_end,
    )
    write_state_table(generation, made.splits_file, table)
    return generation.put_if_absent(f"ranges/{source.name}.json", made)


def _table(batches: Sequence[Ranges]) -> pa.Table:
    rows = [
        {"batch": number, **split.partition._asdict(), "first": split.first, "end": split.end}
        for number, batch in enumerate(batches)
        for split in splits_of(batch)
    ]
    return pa.Table.from_pylist(rows, RANGE_SPLITS)


def first_unread_offsets(splits: pa.Table, batches_done: int) -> dict[TopicPartition, int]:
    """Return the first offset of each partition that no completed micro-batch has read.

    Partitions that are read to their end are left out.

    Args:
        splits: A table of schema :data:`RANGE_SPLITS`, in reading order.
        batches_done: Number of completed micro-batches.
    """
    first: dict[TopicPartition, int] = {}
    for row in splits.to_pylist():
        if row["batch"] >= batches_done:
            first.setdefault(TopicPartition(row["topic"], row["partition"]), row["first"])
    return first
