"""The plan: what will be read, in which order, and where the next source is expected to start.

Made once per generation, before anything runs; every refusal that can be known beforehand
happens here.
"""

from __future__ import annotations

import time
import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sources.contract import check_key, compare_declared, compare_sample
from sources.document import LoadedPipeline
from sources.errors import InputError, StateError
from sources.file_source import FileSource, OffsetColumns
from sources.files import FileListing, check_event_time, find_files, list_splits
from sources.functions import load_function
from sources.held import held_by_columns, held_by_names
from sources.hybrid import SourceFactory, SourceSwitchContext
from sources.kafka import KafkaLog
from sources.kafka_source import KafkaSource
from sources.offsets import factory_for, needed_offsets
from sources.pipeline import Pipeline
from sources.positions import EndPosition, HeldOffsets, Offsets, Part, Record, StartPosition
from sources.retention import Headroom, RetentionWatch, retention_ms
from sources.schema import names_and_types, parse_schema
from sources.seam import SeamRule, check_compaction, seam_rule, seam_warnings
from sources.state import Generation

SAMPLE_RECORDS = 100


class FilePlan(Part):
    """Plan of one file source; its splits are a Parquet table beside this document.

    Attributes:
        splits, bytes, rows: How much there is; ``rows`` is None where the format does not tell.
        splits_file: The table of splits, relative to the generation's folder.
        columns: Column names and Spark SQL types.
        disorder_ms: How far a split can reach back behind the ones read before it.
        end: The end position to expect.
    """

    source: str
    format: str
    splits_file: str
    splits: int
    bytes: int
    rows: int | None
    event_min_ms: int
    columns: dict[str, str]
    disorder_ms: int
    end: EndPosition


class TopicPlan(Part):
    """Plan of the Kafka source.

    Attributes:
        topics: Names of the topics.
        columns: Column names and Spark SQL types that its values are read with.
        seam_end: Offset after the last record of each partition, open transactions included,
            read right after history was listed.
        log_start: Log start of each partition.
        expected_start: Where it would start by today's look-up.
        needed: First offset that has to be in the log when the hand-over is made.
        seam_rule: How rows that history has delivered will be told.
        timestamp_type: ``CreateTime`` or ``LogAppendTime``, by topic.
        retention_ms: By topic; None if it keeps records for ever.
        headroom: How long the records to be read afterwards are safe; the partitions that Kafka
            may delete from, the most urgent first.
    """

    source: str
    topics: list[str]
    columns: dict[str, str]
    seam_end: Offsets
    log_start: Offsets
    expected_start: StartPosition
    needed: Offsets
    seam_rule: SeamRule
    timestamp_type: dict[str, str]
    retention_ms: dict[str, int | None]
    headroom: list[Headroom]


class Plan(Record):
    """The plan of a generation."""

    VERSION = 2

    pipeline: str
    created_ms: int
    files: list[FilePlan]
    topic: TopicPlan | None
    warnings: list[str]

    def files_of(self, source: str) -> FilePlan:
        """The plan of one file source."""
        return next(part for part in self.files if part.source == source)

    @property
    def columns(self) -> pa.Schema:
        """The columns that the transform sees: those of the first source."""
        first = self.files[0].columns if self.files else None
        if first is None:
            assert self.topic is not None
            first = self.topic.columns
        return parse_schema(first)


def make_plan(loaded: LoadedPipeline) -> Plan:
    """The plan of the current generation: read if it was made before, else made and kept.

    A pipeline that is refused leaves no state behind.

    Raises:
        InputError: Something declared can't be run; names it.
        SeamError: The topic no longer reaches back to where history ends.
        StateError: The declaration changed in a way that the checkpoint can't follow.
    """
    generation = loaded.open_generation(create=False)
    if generation is not None and (kept := generation.read("plan.json", Plan)) is not None:
        return kept
    plan, listings = draft_plan(loaded)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    for name, listing in listings.items():
        keep_splits(plan.files_of(name), listing, generation)
    return generation.put_if_absent("plan.json", plan)


def require_plan(generation: Generation) -> Plan:
    """The plan of a generation.

    Raises:
        StateError: None was made.
    """
    plan = generation.read("plan.json", Plan)
    if plan is None:
        message = f"Generation {generation.info.generation} has no plan."
        raise StateError(message, "Make the plan first.")
    return plan


def keep_splits(plan: FilePlan, listing: FileListing, generation: Generation) -> None:
    """Write the table of splits of a planned source, in order."""
    path = generation.path(plan.splits_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(listing.splits, path)


def read_splits(plan: FilePlan, generation: Generation) -> pa.Table:
    """The table of splits of a planned source (:data:`sources.files.SPLITS`), in order."""
    return pq.read_table(generation.path(plan.splits_file))


def draft_plan(loaded: LoadedPipeline) -> tuple[Plan, dict[str, FileListing]]:
    """Look at all sources and check them against each other; nothing is written.

    Returns:
        The plan, and the splits of each file source by name.
    """
    pipeline = loaded.pipeline
    # Reach the broker first: a wrong address should not cost a listing of all files.
    live = pipeline.sources[-1]
    log = KafkaLog(live) if isinstance(live, KafkaSource) else None
    listings = {
        source.name: list_splits(source, pipeline.event_time, find_files(source, loaded.folder))
        for source in pipeline.sources
        if isinstance(source, FileSource)
    }
    warnings: list[str] = []
    files = []
    for name, listing in listings.items():
        part, said = plan_files(loaded, name, listing)
        files.append(part)
        warnings += said
    _check_columns(pipeline, {part.source: listings[part.source].columns for part in files})
    topic_plan = None
    if log is not None and isinstance(live, KafkaSource):
        topic_plan, said = _topic_plan(loaded, live, log, files)
        warnings += said
    plan = Plan(
        pipeline=pipeline.name,
        created_ms=time.time_ns() // 1_000_000,
        files=files,
        topic=topic_plan,
        warnings=warnings,
    )
    return plan, listings


def start_factory(loaded: LoadedPipeline, source: KafkaSource) -> SourceFactory:
    """The hand-over that a pipeline declares for a source."""
    lateness_ms = int(loaded.pipeline.allowed_lateness.total_seconds() * 1000)
    return factory_for(
        source, lateness_ms, lambda name: load_function(loaded, "start.factory", name)
    )


def plan_files(
    loaded: LoadedPipeline, name: str, listing: FileListing, earlier: pa.Table | None = None
) -> tuple[FilePlan, list[str]]:
    """Plan of the files of one listing, and what people should know about it.

    Args:
        loaded: The pipeline.
        name: The source.
        listing: Its splits.
        earlier: Splits of the same source that were planned before: what the source's end says
            of offsets holds for all of them together.

    Raises:
        InputError: No row has a time, or the files do not tell their offsets as declared.
    """
    pipeline = loaded.pipeline
    source = pipeline.source(name)
    assert isinstance(source, FileSource)
    splits = listing.splits
    if splits["event_max_us"].null_count == len(splits):
        message = f"Source `{name}`: its {len(splits)} files hold no rows with a time."
        raise InputError(message, f"History needs at least one row with `{pipeline.event_time}`.")
    end_ms = pc.max(splits["event_max_us"]).as_py() // 1000
    rows = None if splits["rows"].null_count else pc.sum(splits["rows"]).as_py()
    every = splits if earlier is None else pa.concat_tables([earlier, splits])
    held, warnings = _held(pipeline, source, every)
    part = FilePlan(
        source=name,
        format=source.format,
        splits_file=f"splits/{name}-{uuid.uuid4().hex[:12]}.parquet",
        splits=len(splits),
        bytes=pc.sum(splits["size"]).as_py(),
        rows=rows,
        event_min_ms=pc.min(splits["event_min_us"]).as_py() // 1000,
        columns=names_and_types(listing.columns),
        disorder_ms=_disorder_ms(splits),
        end=EndPosition(
            source=name,
            event_time_ms=end_ms,
            complete_through_ms=_complete_through_ms(pipeline, source, end_ms),
            event_times="exact" if listing.exact else "sampled",
            offsets=held,
            sequence=source.sequence,
            splits=len(splits),
            rows=rows,
        ),
    )
    if part.disorder_ms:
        warnings.append(
            f"Source `{name}`: splits overlap in event time by up to "
            f"{part.disorder_ms / 1000:,.0f} s; a watermark delay below that can drop rows."
        )
    return part, warnings


def _complete_through_ms(pipeline: Pipeline, source: FileSource, end_ms: int) -> int:
    if source.complete_through is not None:
        return int(source.complete_through.timestamp() * 1000)
    return end_ms - int(pipeline.allowed_lateness.total_seconds() * 1000)


def _held(
    pipeline: Pipeline, source: FileSource, splits: pa.Table
) -> tuple[HeldOffsets | None, list[str]]:
    if source.offsets is None:
        return None, []
    paths = splits["path"].to_pylist()
    if isinstance(source.offsets, OffsetColumns):
        live = pipeline.sources[-1]
        if not isinstance(live, KafkaSource) or len(live.topics) != 1:
            message = f"Source `{source.name}`: `offsets` by columns needs one topic to belong to."
            raise InputError(message, "Name a single `topic`, or use `offsets: names`.")
        columns = source.offsets
        return held_by_columns(paths, live.topics[0], columns.partition, columns.offset)
    return held_by_names(paths, splits["rows"].to_pylist())


def _disorder_ms(splits: pa.Table) -> int:
    dated = splits.filter(pc.is_valid(splits["event_min_us"]))
    highest = pc.cumulative_max(dated["event_max_us"].combine_chunks())
    back = pc.subtract(highest[:-1], dated["event_min_us"].combine_chunks()[1:])
    worst = pc.max(back).as_py() if len(back) else 0
    return max(worst // 1000, 0)


def _check_columns(pipeline: Pipeline, columns: dict[str, pa.Schema]) -> None:
    first: tuple[str, pa.Schema] | None = None
    for source in pipeline.sources:
        found = columns.get(source.name)
        if found is None and source.columns:
            found = parse_schema(source.columns)
        if found is None:
            continue
        if first is None:
            first = (source.name, found)
            check_event_time(found, pipeline.event_time, f"source `{source.name}`")
            check_key(found, pipeline.key, source.name)
        else:
            compare_declared(first[0], first[1], source.name, found)


def _topic_plan(
    loaded: LoadedPipeline, source: KafkaSource, log: KafkaLog, files: list[FilePlan]
) -> tuple[TopicPlan, list[str]]:
    # Right after the listing: nothing appended from here on can be in the files.
    seam_end, log_start = log.high_watermark(), log.log_start()
    columns = source.columns or files[0].columns
    before = files[-1].source if files else source.name
    sample = log.read(log_start, SAMPLE_RECORDS, log.log_end())
    compare_sample(before, parse_schema(columns), sample)
    settings = log.settings()
    check_compaction(loaded.pipeline, source, settings)
    previous = files[-1].end if files else None
    # Files that arrive while history runs may still close a gap.
    may_close = source.on_gap == "extend"
    judged = source.model_copy(update={"on_gap": "accept"}) if may_close else source
    start = start_factory(loaded, judged)(SourceSwitchContext(previous, log))
    rule = seam_rule(loaded.pipeline, previous, start)
    lateness_ms = int(loaded.pipeline.allowed_lateness.total_seconds() * 1000)
    needed = needed_offsets(log, start, previous, lateness_ms)
    headroom = RetentionWatch(source, log, needed).look()
    plan = TopicPlan(
        source=source.name,
        topics=log.topics,
        columns=columns,
        seam_end=seam_end,
        log_start=log_start,
        expected_start=start,
        needed=needed,
        seam_rule=rule,
        timestamp_type={name: of["message.timestamp.type"] for name, of in settings.items()},
        retention_ms={name: retention_ms(of) for name, of in settings.items()},
        headroom=headroom,
    )
    warnings = seam_warnings(loaded.pipeline, rule, previous, start, sample)
    if headroom:
        warnings.append(f"Retention: {headroom[0]}.")
    return plan, warnings
