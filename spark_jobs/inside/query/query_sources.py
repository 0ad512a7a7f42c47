"""Declaration of one run's query: every source of the chain in its fixed place.

Spark's checkpoint knows its sources by their place in the plan. A source whose turn has not come
is an empty placeholder, one whose turn is over is drained; so the same query, launched again on
the same checkpoint with the next source in its place, resumes with all its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.rate_limit import RateLimit, rate_of
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.files.file_plan import FoundFiles
from sources.planning.files.open_snapshot import OpenSnapshot, open_source
from sources.planning.files.rounds import history_of
from sources.planning.plan import Plan
from sources.planning.topics.topic_range import find_range, require_range, seam_end_after
from sources.state.generation import Generation
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.places.file_places import (
    GrowingFolderPlace,
    OpenSnapshotPlace,
    PlannedFilesPlace,
)
from spark_jobs.inside.query.places.followed_topic import Prepared
from spark_jobs.inside.query.places.history import EarlierSources, Planned
from spark_jobs.inside.query.places.place import Growing, SourcePlace, WaitingPlace
from spark_jobs.inside.query.places.topic_places import (
    FollowedTopicPlace,
    ReadRangePlace,
    TopicRangePlace,
)
from spark_jobs.inside.query.seam.topic_seam import Seam
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from spark_jobs.inside.readers.topics.parse_records import record_columns
from spark_jobs.inside.readers.topics.planned_topic import PlannedTopic


@dataclass(frozen=True)
class QueryDeclaration:
    """Query of one run, resolved from the pipeline and its state. Immutable.

    A place is the fixed position of a source in the query's union.

    Attributes:
        context: The pipeline and its state.
        source: The source that this run reads.
        index: Number of its place in the union, from 0.
        rate: The rate limit of the source when the query was declared.
        places: The places of all sources of the chain, in order: earlier sources are drained, this
            one is read, later ones are empty placeholders.
        history: The sources up to and including this one that are read from a plan.
    """

    context: PipelineContext
    source: FileSource | KafkaSource
    index: int
    rate: RateLimit
    places: tuple[SourcePlace, ...]
    history: EarlierSources

    @property
    def generation(self) -> Generation:
        """State of the generation (one computation of the whole table)."""
        return self.context.generation

    @property
    def plan(self) -> Plan:
        """The plan of the generation, read once by the context."""
        return self.context.plan

    @property
    def place(self) -> SourcePlace:
        """The place of the source that this run reads."""
        return self.places[self.index]

    @property
    def growing(self) -> Growing | None:
        """The place whose files keep arriving; None without one. A run has one at most."""
        return next((place.growing for place in self.places if place.growing is not None), None)

    def settle(self) -> str | None:
        """Record that all files of the growing place are read, by the checkpoint as it is now.

        Returns:
            A sentence about it, the first time; else None.
        """
        for index, place in enumerate(self.places):
            if place.growing is not None:
                checkpoint = self.generation.checkpoint
                return place.growing.settle(offset_log.committed_offset(checkpoint, index))
        return None

    @property
    def is_bounded(self) -> bool:
        """Whether the source that this run reads has an end, by its declaration."""
        return self.source.boundedness is Boundedness.BOUNDED

    def committed(self) -> Any:
        """Return the offset up to which the source is committed, from the checkpoint as it is now.

        Returns:
            Spark's offset, decoded from JSON; None if the source was never read.
        """
        return offset_log.committed_offset(self.generation.checkpoint, self.index)

    def is_drained(self) -> bool:
        """Return whether every planned split of the source was read and committed.

        By the checkpoint as it is now; always False for a source without an end.
        """
        return self.place.is_drained(self.committed())

    def seam_to_count(self) -> Seam | None:
        """Return the source's seam if it was read past and its rows are not counted yet.

        By the checkpoint as it is now; call it for a source with an end once it is drained.

        Returns:
            The seam, whose :meth:`Seam.count` is then due; None if nothing is to be counted.
        """
        return self.place.seam if self.place.has_uncounted_seam(self.committed()) else None

    def has_new_rate(self) -> bool:
        """Return whether the source's rate limit was changed since the query was declared.

        Read from the state folder at each call. The query has to be declared and built again to
        apply it.
        """
        return rate_of(self.generation, self.source.name, self.source.rate) != self.rate


def declare_query(
    context: PipelineContext, name: str, prepared: Prepared | None = None
) -> QueryDeclaration:
    """Resolve the query of a run that reads one source; nothing is built yet.

    The query holds every source of the chain in its fixed place: the named one is read, earlier
    ones are drained (their plans hold nothing more to read), later ones are empty.

    Args:
        context: The pipeline and its state.
        name: Name of the source to read.
        prepared: DataFrame of the source's rows, built by this driver while history was still
            read; None if there is none. It is used only if it still fits.

    Raises:
        StateError: A source before it has not finished, or the decision where it starts (its
            hand-over) was not made.
    """
    context.switch_state.require_turn(name)
    chain = context.pipeline.hybrid_source()
    index = chain.index(name)
    source = chain.sources[index]
    rate = rate_of(context.generation, name, source.rate)
    columns = context.plan.columns.names
    places: list[SourcePlace] = []
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
    """Place of a source in the query's union, and whether this run reads it, or an earlier one did.

    Attributes:
        index: Number of the source's place in the union, from 0.
        rate: Its rate limit if it is read by this run; None if it was read before or comes later.
        is_over: Whether the source was read to its end by an earlier run.
    """

    index: int
    rate: RateLimit | None
    is_over: bool


def place_of(
    context: PipelineContext, turn: Turn, earlier: EarlierSources, prepared: Prepared | None
) -> tuple[SourcePlace, Planned | None]:
    """Make the place of a source, by its kind and by whether it is read now, before or later.

    This is the only function that asks which kind of source it is. Nothing is read yet.

    Args:
        context: The pipeline and its state.
        turn: The source's place, and whether its turn has come.
        earlier: The sources before it that are read from a plan.
        prepared: DataFrame of a followed topic's rows that this driver built before, or None.

    Returns:
        The place; and the source as it is read from its plan, or None if its turn has not come or
        it is a topic that is followed without end.
    """
    source = context.pipeline.sources[turn.index]
    if isinstance(source, KafkaSource):
        return _topic_place(context, source, turn, earlier, prepared)
    plan = context.plan
    is_folder = plan.folder is not None and plan.folder.source == source.name
    folder = plan.folder if is_folder else None
    if turn.rate is None and not turn.is_over:
        part = folder or plan.files_of(source.name)
        return WaitingPlace(context, source.selection, part), None
    if folder is not None and turn.rate is not None:
        growing = GrowingFolder(context)
        files = _planned_files(context, source, growing.parts)
        place = GrowingFolderPlace(context, growing, files, index=turn.index, rate=turn.rate)
        return place, files
    if turn.is_over and open_source(context) is source:
        snapshot = OpenSnapshot(context, source)
        # So that changes wait for no more than one chunk.
        batch = source.batch.model_copy(update={"files": 1})
        chunk_by_chunk = source.model_copy(update={"batch": batch})
        files = _planned_files(context, chunk_by_chunk, snapshot.parts)
        return OpenSnapshotPlace(context, snapshot, files, index=turn.index), files
    history = history_of(context.generation, plan, source.name)
    files = _planned_files(context, source, history.parts)
    bounded = PlannedFilesPlace(context, source, history, files, index=turn.index, rate=turn.rate)
    return bounded, files


def _planned_files(
    context: PipelineContext, source: FileSource, parts: Sequence[FoundFiles]
) -> PlannedSource:
    pipeline = context.pipeline
    return PlannedSource(
        source, parts, context.generation, pipeline.event_time, pipeline.stores, pipeline.row_rules
    )


def _topic_place(
    context: PipelineContext,
    source: KafkaSource,
    turn: Turn,
    earlier: EarlierSources,
    prepared: Prepared | None,
) -> tuple[SourcePlace, Planned | None]:
    if turn.rate is None and not turn.is_over:
        part = context.plan.topic_of(source.name)
        return WaitingPlace(context, source.selection, part), None
    rate, index = turn.rate, turn.index
    if source.boundedness is not Boundedness.BOUNDED and rate is not None:
        seam = _seam(context, source, earlier)
        place = FollowedTopicPlace(context, source, seam, index=index, rate=rate, prepared=prepared)
        return place, None
    decided = require_range(context.generation, source.name)
    columns = record_columns(context.plan, source)
    event_time = context.pipeline.event_time
    planned = PlannedTopic(
        source, decided, context.generation, columns, event_time, context.pipeline.row_rules
    )
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
