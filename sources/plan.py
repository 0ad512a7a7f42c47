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
from pydantic import BaseModel, ConfigDict

from sources.contract import check_key, compare_declared, compare_sample
from sources.document import LoadedPipeline
from sources.errors import InputError
from sources.files import FileListing, check_event_time, list_splits
from sources.hybrid import SourceSwitchContext
from sources.kafka import KafkaTopic
from sources.offsets import factory_for
from sources.pipeline import FileSource, KafkaSource, Pipeline
from sources.positions import EndPosition, Record, StartPosition
from sources.schema import names_and_types, parse_schema
from sources.state import Generation

SAMPLE_RECORDS = 100


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FilePlan(_Part):
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


class TopicPlan(_Part):
    """Plan of the Kafka source.

    Attributes:
        columns: Column names and Spark SQL types that its values are read with.
        seam_end: Log end of each partition, read right after history was listed.
        log_start: Log start of each partition.
        expected_start: Where it would start by today's look-up.
        timestamp_type: ``CreateTime`` or ``LogAppendTime``.
        retention_ms: The topic's; None if it keeps records for ever.
    """

    source: str
    topic: str
    columns: dict[str, str]
    seam_end: dict[int, int]
    log_start: dict[int, int]
    expected_start: StartPosition
    timestamp_type: str
    retention_ms: int | None


class Plan(Record):
    """The plan of a generation."""

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
        path = generation.path(plan.files_of(name).splits_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(listing.splits, path)
    return generation.put_if_absent("plan.json", plan)


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
    topic = (
        KafkaTopic(live.bootstrap_servers, live.topic) if isinstance(live, KafkaSource) else None
    )
    listings = {
        source.name: list_splits(source, loaded.folder, pipeline.event_time)
        for source in pipeline.sources
        if isinstance(source, FileSource)
    }
    files = [_file_plan(name, listing, pipeline) for name, listing in listings.items()]
    _check_columns(pipeline, {part.source: listings[part.source].columns for part in files})
    topic_plan = None
    if topic is not None and isinstance(live, KafkaSource):
        topic_plan = _topic_plan(live, topic, files)
    plan = Plan(
        pipeline=pipeline.name,
        created_ms=time.time_ns() // 1_000_000,
        files=files,
        topic=topic_plan,
        warnings=[text for part in files for text in _warnings(part)],
    )
    return plan, listings


def _file_plan(name: str, listing: FileListing, pipeline: Pipeline) -> FilePlan:
    splits = listing.splits
    if splits["event_max_us"].null_count == len(splits):
        message = f"Source `{name}`: its {len(splits)} files hold no rows with a time."
        raise InputError(message, f"History needs at least one row with `{pipeline.event_time}`.")
    end_ms = pc.max(splits["event_max_us"]).as_py() // 1000
    rows = None if splits["rows"].null_count else pc.sum(splits["rows"]).as_py()
    lateness_ms = int(pipeline.allowed_lateness.total_seconds() * 1000)
    source = pipeline.source(name)
    assert isinstance(source, FileSource)
    return FilePlan(
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
            complete_through_ms=end_ms - lateness_ms,
            evidence="exact" if listing.exact else "sampled",
            splits=len(splits),
            rows=rows,
        ),
    )


def _disorder_ms(splits: pa.Table) -> int:
    dated = splits.filter(pc.is_valid(splits["event_min_us"]))
    highest = pc.cumulative_max(dated["event_max_us"].combine_chunks())
    back = pc.subtract(highest[:-1], dated["event_min_us"].combine_chunks()[1:])
    worst = pc.max(back).as_py() if len(back) else 0
    return max(worst // 1000, 0)


def _warnings(part: FilePlan) -> list[str]:
    if part.disorder_ms == 0:
        return []
    return [
        f"Source `{part.source}`: splits overlap in event time by up to "
        f"{part.disorder_ms / 1000:,.0f} s; a watermark delay below that can drop rows."
    ]


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


def _topic_plan(source: KafkaSource, topic: KafkaTopic, files: list[FilePlan]) -> TopicPlan:
    # Right after the listing: nothing appended from here on can be in the files.
    seam_end, log_start = topic.log_end(), topic.log_start()
    columns = source.columns or files[0].columns
    before = files[-1].source if files else source.name
    sample = topic.read(log_start, SAMPLE_RECORDS, seam_end)
    compare_sample(before, parse_schema(columns), topic.topic, sample)
    settings = topic.settings()
    retention_ms = int(settings["retention.ms"])
    previous = files[-1].end if files else None
    return TopicPlan(
        source=source.name,
        topic=topic.topic,
        columns=columns,
        seam_end=seam_end,
        log_start=log_start,
        expected_start=factory_for(source, topic)(SourceSwitchContext(previous)),
        timestamp_type=settings["message.timestamp.type"],
        retention_ms=None if retention_ms < 0 else retention_ms,
    )
