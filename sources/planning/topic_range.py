"""Range of a bounded Kafka source: decided once, when its turn comes, and written to the state.

It is for a topic what the table of splits is for files (FLIP-27: the split enumerator): first and
last offsets of each partition, cut into splits, in batches.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from sources.common.positions import EndPosition, Offsets, Record, TopicPartition, now_ms
from sources.common.state import Generation
from sources.config.kafka_source import KafkaSource
from sources.errors import StateError
from sources.kafka.batching import cut_range
from sources.kafka.client import KafkaLog
from sources.kafka.end_offsets import end_position, newest_read, resolve_ends
from sources.kafka.ranges import Ranges, splits_of
from sources.planning.context import PipelineContext
from sources.planning.plan import Plan
from sources.planning.rounds import history_of
from sources.planning.topic_plan import is_continued

# Columns of the table of splits, in reading order; each row is a split.
RANGE_SPLITS = pa.schema(
    [
        ("batch", pa.int64()),  # from 0
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("end", pa.int64()),  # after the last offset
    ]
)


class TopicRange(Record):
    """Range of a bounded Kafka source.

    Attributes:
        source: Name of the source.
        starts: First offset of each partition that is read.
        ends: First offset of each partition that is not read.
        splits_file: Path of the table of splits, relative to the generation's folder.
        batches: Number of micro-batches.
        end: End position, once all of it is read.
        seam_end: First offset of the next source beyond the seam: nothing later is in this range.
    """

    source: str
    starts: Offsets
    ends: Offsets
    splits_file: str
    batches: int
    end: EndPosition
    seam_end: Offsets


def find_range(generation: Generation, source: str) -> TopicRange | None:
    """Return the range of a source, or None if it is not decided yet."""
    return generation.read(f"ranges/{source}.json", TopicRange)


def require_range(generation: Generation, source: str) -> TopicRange:
    """Return the range of a source.

    Raises:
        StateError: It is not decided yet.
    """
    decided = find_range(generation, source)
    if decided is None:
        message = f"It is not decided yet which offsets source `{source}` reads."
        hint = f"Make the hand-over to `{source}` first."
        raise StateError(message, hint, source=source, generation=generation.info.generation)
    return decided


def read_range_splits(decided: TopicRange, generation: Generation) -> pa.Table:
    """Return the table of splits of a range (:data:`RANGE_SPLITS`), in order."""
    return pq.read_table(generation.path(decided.splits_file))


def seam_end_after(generation: Generation, plan: Plan, source: str) -> Offsets:
    """Return the first offsets of the next topic beyond its seam with a bounded source."""
    decided = find_range(generation, source)
    return history_of(generation, plan, source).seam_end if decided is None else decided.seam_end


def end_planned(generation: Generation, plan: Plan, source: str) -> EndPosition:
    """Return the end position of a bounded source, as far as it is planned by now."""
    decided = find_range(generation, source)
    return history_of(generation, plan, source).end if decided is None else decided.end


def decide_range(context: PipelineContext, source: KafkaSource) -> TopicRange:
    """Decide what a bounded source reads, or return what was decided before.

    Its start has to be decided. For the first source of a chain the plan has decided the end, too.

    Args:
        context: The pipeline and its state.
        source: The bounded Kafka source.

    Raises:
        StateError: Its hand-over was not made.
        SeamError: The end can't be resolved, or the range can't be cut by time.
        UnavailableError: The broker does not answer.
    """
    generation, pipeline = context.generation, context.pipeline
    if (known := find_range(generation, source.name)) is not None:
        return known
    start = context.switch_state.require_start(source.name).offsets()
    ends_before = context.switch_state.ends_before(source.name)
    log = KafkaLog(source)
    planned = context.plan.topic_of(source.name).range
    if ends_before or planned is None:
        ends = resolve_ends(source, log, start, now_ms())
    else:
        ends = planned.ends
    begun = log.log_start()
    # A partition that was added since the start was decided is read from its beginning.
    starts = {partition: start.get(partition, begun[partition]) for partition in ends}
    batches = cut_range(source, log, starts, ends)
    table = _table(batches)
    after = pipeline.next_topic(source.name)
    following = None if after is None else KafkaLog(after)
    continued = is_continued(source, log, following)
    previous = ends_before[-1] if ends_before else None
    end = end_position(
        source,
        newest_read(log, starts, ends),
        ends,
        previous,
        lateness_ms=pipeline.lateness_ms,
        is_continued=continued,
    )
    seam_end: Offsets = {}
    if following is not None and not continued:
        # After the ends: nothing appended from here on can be in the range.
        seam_end = following.high_watermark()
    elif following is not None:
        before = (
            {} if previous is None else seam_end_after(generation, context.plan, previous.source)
        )
        seam_end = {
            partition: max(offset, before.get(partition, 0)) for partition, offset in ends.items()
        }
    made = TopicRange(
        source=source.name,
        starts=starts,
        ends=ends,
        splits_file=f"splits/{source.name}-{uuid.uuid4().hex[:12]}.parquet",
        batches=len(batches),
        end=end.model_copy(update={"splits": len(table)}),
        seam_end=seam_end,
    )
    path = generation.path(made.splits_file)
    with generation.writing(path):
        pq.write_table(table, path)
    return generation.put_if_absent(f"ranges/{source.name}.json", made)


def _table(batches: Sequence[Ranges]) -> pa.Table:
    splits = [(number, split) for number, batch in enumerate(batches) for split in splits_of(batch)]
    columns = [
        [number for number, _ in splits],
        [split.partition.topic for _, split in splits],
        [split.partition.partition for _, split in splits],
        [split.first for _, split in splits],
        [split.end for _, split in splits],
    ]
    arrays = [pa.array(of, field.type) for of, field in zip(columns, RANGE_SPLITS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=RANGE_SPLITS)


def unread(splits: pa.Table, batches_done: int) -> dict[TopicPartition, int]:
    """Return the first offset of each partition that no finished batch has read.

    Args:
        splits: A table of schema :data:`RANGE_SPLITS`.
        batches_done: Number of finished batches.
    """
    first: dict[TopicPartition, int] = {}
    for row in splits.to_pylist():
        if row["batch"] >= batches_done:
            first.setdefault(TopicPartition(row["topic"], row["partition"]), row["first"])
    return first
