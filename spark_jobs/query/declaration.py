"""What the query of one run reads: every source of the chain in its fixed place.

Spark's checkpoint knows its sources by their place in the plan. A source whose turn has not come
is an empty placeholder, one whose turn is over is drained; so the same query, launched again on
the same checkpoint with the next source in its place, resumes with all its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sources.common.state import Generation
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.rate_limit import RateLimit, rate_of
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.planning.discovery import GrowingFolder
from sources.planning.file_plan import FoundFiles
from sources.planning.plan import Plan
from sources.planning.rounds import history_of
from sources.planning.topic_range import find_range, require_range, seam_end_after
from spark_jobs.checkpoint import offset_log
from spark_jobs.query.file_places import GrowingFolderPlace, PlannedFilesPlace
from spark_jobs.query.followed_topic import Prepared
from spark_jobs.query.history import EarlierSources, Planned
from spark_jobs.query.place import Place, PlaceholderPlace
from spark_jobs.query.seam import Seam
from spark_jobs.query.topic_places import FollowedTopicPlace, ReadRangePlace, TopicRangePlace
from spark_jobs.readers.parse_records import record_columns
from spark_jobs.readers.planned_files import PlannedSource
from spark_jobs.readers.planned_topic import PlannedTopic


@dataclass(frozen=True)
class QueryDeclaration:
    """The query of one run, as it was resolved from the pipeline and its state.

    Attributes:
        context: The pipeline and its state.
        source: The source that this run reads.
        index: Its place in the union, from 0.
        rate: The limit that was in force.
        places: The places of all sources, in order.
        history: The sources up to and including this one that are read from a plan.
    """

    context: PipelineContext
    source: FileSource | KafkaSource
    index: int
    rate: RateLimit
    places: tuple[Place, ...]
    history: EarlierSources

    @property
    def generation(self) -> Generation:
        """The state of the pipeline."""
        return self.context.generation

    @property
    def plan(self) -> Plan:
        """The plan of the generation."""
        return self.context.plan

    @property
    def place(self) -> Place:
        """The place of the source that this run reads."""
        return self.places[self.index]

    @property
    def is_bounded(self) -> bool:
        """Whether the source has an end."""
        return self.source.boundedness is Boundedness.BOUNDED

    def committed(self) -> Any:
        """Return the end offset of the source in the last committed micro-batch, or None."""
        return offset_log.committed_offset(self.generation.checkpoint, self.index)

    def is_drained(self) -> bool:
        """Return whether everything that is planned of the source was read and committed."""
        return self.place.is_drained(self.committed())

    def has_new_rate(self) -> bool:
        """Return whether another limit is in force now."""
        return rate_of(self.generation, self.source.name, self.source.rate) != self.rate


def declare_query(
    context: PipelineContext, name: str, prepared: Prepared | None = None
) -> QueryDeclaration:
    """Resolve the query that reads a source.

    Args:
        context: The pipeline and its state.
        name: Name of the source.
        prepared: Rows of the source that the same driver made before the switch, if it did.

    Raises:
        StateError: It is not this source's turn, or its hand-over was not made.
    """
    context.switch_state.require_turn(name)
    chain = context.pipeline.hybrid_source()
    index = chain.index(name)
    source = chain.sources[index]
    rate = rate_of(context.generation, name, source.rate)
    columns = context.plan.columns.names
    places: list[Place] = []
    planned: list[Planned] = []
    for number in range(len(chain.sources)):
        turn = Turn(number, rate if number == index else None, is_over=number < index)
        earlier = EarlierSources(tuple(planned), columns)
        place, readable = place_of(context, turn, earlier, prepared)
        places.append(place)
        if readable is not None:
            planned.append(readable)
    history = EarlierSources(tuple(planned), columns)
    return QueryDeclaration(context, source, index, rate, tuple(places), history)


@dataclass(frozen=True)
class Turn:
    """A source's place in the union, and whether its turn has come.

    Attributes:
        index: Place of the source in the union, from 0.
        rate: The limit in force, if it is its turn; else None.
        is_over: Whether it was read to its end before.
    """

    index: int
    rate: RateLimit | None
    is_over: bool


def place_of(
    context: PipelineContext, turn: Turn, earlier: EarlierSources, prepared: Prepared | None
) -> tuple[Place, Planned | None]:
    """Choose the place of a source by its kind and by whether its turn has come.

    This is the only function that asks which kind of source it is.

    Returns:
        The place; and the source as it is read from its plan, if it has one and its turn has come.
    """
    source = context.pipeline.sources[turn.index]
    if isinstance(source, KafkaSource):
        return _topic_place(context, source, turn, earlier, prepared)
    plan = context.plan
    is_folder = plan.folder is not None and plan.folder.source == source.name
    folder = plan.folder if is_folder else None
    if turn.rate is None and not turn.is_over:
        part = folder or plan.files_of(source.name)
        return PlaceholderPlace(context, source.selection, part), None
    if folder is not None and turn.rate is not None:
        growing = GrowingFolder(context)
        files = _planned_files(context, source, growing.parts)
        place = GrowingFolderPlace(context, growing, files, index=turn.index, rate=turn.rate)
        return place, files
    history = history_of(context.generation, plan, source.name)
    files = _planned_files(context, source, history.parts)
    bounded = PlannedFilesPlace(context, source, history, files, index=turn.index, rate=turn.rate)
    return bounded, files


def _planned_files(
    context: PipelineContext, source: FileSource, parts: Sequence[FoundFiles]
) -> PlannedSource:
    pipeline = context.pipeline
    return PlannedSource(source, parts, context.generation, pipeline.event_time, pipeline.stores)


def _topic_place(
    context: PipelineContext,
    source: KafkaSource,
    turn: Turn,
    earlier: EarlierSources,
    prepared: Prepared | None,
) -> tuple[Place, Planned | None]:
    if turn.rate is None and not turn.is_over:
        part = context.plan.topic_of(source.name)
        return PlaceholderPlace(context, source.selection, part), None
    rate, index = turn.rate, turn.index
    if source.boundedness is not Boundedness.BOUNDED and rate is not None:
        seam = _seam(context, source, earlier)
        place = FollowedTopicPlace(context, source, seam, index=index, rate=rate, prepared=prepared)
        return place, None
    decided = require_range(context.generation, source.name)
    columns = record_columns(context.plan, source)
    planned = PlannedTopic(source, decided, context.generation, columns)
    if rate is None:
        return ReadRangePlace(context, planned), planned
    seam = _seam(context, source, earlier)
    return TopicRangePlace(context, source, planned, seam, index=index, rate=rate), planned


def _seam(context: PipelineContext, source: KafkaSource, earlier: EarlierSources) -> Seam:
    """Return the seam of a source whose start was decided, which is for good."""
    state, generation, plan = context.switch_state, context.generation, context.plan
    ends = state.ends_before(source.name)
    seam_end = seam_end_after(generation, plan, ends[-1].source) if ends else {}
    if (decided := find_range(generation, source.name)) is not None:
        limits = decided.ends
        seam_end = {at: min(end, limits.get(at, end)) for at, end in seam_end.items()}
    return Seam(
        context,
        source,
        ends=ends,
        start=state.require_start(source.name),
        seam_end=seam_end,
        history=earlier,
    )
