"""The plan: what will be read, in which order, and where the next source is expected to start.

Made once per generation, before anything runs; every refusal that can be known beforehand
happens here.
"""

from __future__ import annotations

import time

import pyarrow as pa

from sources.contract import check_key, check_sequence, compare_declared
from sources.document import LoadedPipeline
from sources.errors import StateError
from sources.file_plan import FilePlan, keep_splits, plan_files, told_alike
from sources.file_source import FileSource
from sources.files import FileListing, list_source
from sources.kafka import KafkaLog
from sources.kafka_source import KafkaSource
from sources.pipeline import Pipeline
from sources.positions import Record, iso
from sources.schema import check_event_time, parse_schema
from sources.state import Generation
from sources.topic_plan import TopicPlan, plan_topics


class Plan(Record):
    """The plan of a generation."""

    VERSION = 3

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


def draft_plan(loaded: LoadedPipeline) -> tuple[Plan, dict[str, FileListing]]:
    """Look at all sources and check them against each other; nothing is written.

    Returns:
        The plan, and the splits of each file source by name.
    """
    pipeline = loaded.pipeline
    # Reach the broker first: a wrong address should not cost a listing of all files.
    live = pipeline.sources[-1]
    if isinstance(live, KafkaSource):
        KafkaLog(live)
    listings = {
        source.name: list_source(loaded, source)
        for source in pipeline.sources
        if isinstance(source, FileSource)
    }
    warnings: list[str] = []
    files: list[FilePlan] = []
    for name, listing in listings.items():
        told = [listings[part.source].splits for part in told_alike(pipeline, name, files)]
        part, said = plan_files(loaded, name, listing, told)
        warnings += [*said, *_reaching_back(part, files)]
        files.append(part)
    _check_columns(pipeline, {part.source: listings[part.source].columns for part in files})
    topic_plan = None
    if isinstance(live, KafkaSource):
        # Opened anew: a partition that appeared during the listing may be in the files.
        topic_plan, said = plan_topics(loaded, live, KafkaLog(live), files)
        warnings += said
    plan = Plan(
        pipeline=pipeline.name,
        created_ms=time.time_ns() // 1_000_000,
        files=files,
        topic=topic_plan,
        warnings=warnings,
    )
    return plan, listings


def _reaching_back(part: FilePlan, before: list[FilePlan]) -> list[str]:
    if not before or part.event_min_ms > before[-1].end.event_time_ms:
        return []
    return [
        f"Source `{part.source}` begins at {iso(part.event_min_ms)}, source `{before[-1].source}` "
        f"before it ends at {iso(before[-1].end.event_time_ms)}: rows in both come twice, and a "
        "watermark delay below the overlap can drop rows."
    ]


def _check_columns(pipeline: Pipeline, columns: dict[str, pa.Schema]) -> None:
    first: tuple[str, pa.Schema] | None = None
    for source in pipeline.sources:
        found = columns.get(source.name)
        if found is None and isinstance(source, KafkaSource) and source.declared_columns:
            found = parse_schema(source.declared_columns)
        if found is None:
            continue
        if first is None:
            first = (source.name, found)
            check_event_time(found, pipeline.event_time, f"source `{source.name}`")
            check_key(found, pipeline.key, source.name)
            check_sequence(found, pipeline.sequence, source.name)
        else:
            compare_declared(first[0], first[1], source.name, found)
