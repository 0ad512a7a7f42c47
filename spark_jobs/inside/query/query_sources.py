"""Declaration of a run's query: which sources it reads, which are drained or wait, in order.

Spark's checkpoint knows its sources by their place in the plan. A source whose turn has not come
is an empty placeholder, one whose turn is over is drained; so the same query, launched again on
the same checkpoint with the next source in its place, resumes with all its state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sources.common.positions import EndPosition
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
from sources.planning.topics.topic_range import find_range, planned_of, require_range
from sources.state.generation import Generation
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.places.followed_topic_stream import Prepared
from spark_jobs.inside.query.places.growing_folder import GrowingFolderPlace
from spark_jobs.inside.query.places.history import EarlierSources, Planned
from spark_jobs.inside.query.places.open_snapshot import OpenSnapshotPlace
from spark_jobs.inside.query.places.place import Growing, Reached, SourcePlace, WaitingPlace
from spark_jobs.inside.query.places.planned_files import PlannedFilesPlace
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

    A place is the fixed position of a source in the query: in its only union, or, with several
    inputs, in the unions of all inputs, one after the other.

    Attributes:
        context: The pipeline and its state.
        source: The source that this run reads, and is named by.
        index: Number of its place, from 0.
        rate: The rate limit of the source when the query was declared.
        places: The places of all sources of the pipeline, in order: earlier sources are drained,
            this one is read, later ones are empty placeholders.
        history: The sources of its chain, up to and including this one, that are read from a plan.
        beside: The sources of other inputs that the run reads together with this one: their rate
            limits by the numbers of their places.
    """

    context: PipelineContext
    source: FileSource | KafkaSource
    index: int
    rate: RateLimit
    places: tuple[SourcePlace, ...]
    history: EarlierSources
    beside: Mapping[int, RateLimit] = field(default_factory=dict)

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
    def read_places(self) -> dict[int, SourcePlace]:
        """The places that this run reads, by their numbers: that of the source first."""
        return {number: self.places[number] for number in (self.index, *self.beside)}

    def require_same_logs(self) -> None:
        """Refuse topics of this run that were created again or truncated; raises as a place does.

        :meth:`spark_jobs.inside.query.places.place.SourcePlace.require_same_log` says what.
        """
        for place in self.read_places.values():
            place.require_same_log()

    @property
    def growing(self) -> Growing | None:
        """The place whose files keep arriving; None without one. A run has one at most."""
        return next((place.growing for place in self.places if place.growing is not None), None)

    def settle(self) -> str | None:
        """Record that all files of the growing place are read, by the checkpoint as it is now.

        Returns:
            A sentence about it, the first time; else None.

        Raises:
            StateError: The checkpoint is damaged, or the state can't be written.
            UnavailableError: The state's store does not answer.
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

    def committed(self, place: int | None = None) -> Any:
        """Return the offset up to which the source is committed, from the checkpoint as it is now.

        Args:
            place: Number of another place that this run reads; None for that of the source.

        Returns:
            Spark's offset, decoded from JSON; None if the source was never read.

        Raises:
            StateError: The file with the offsets of the last committed micro-batch is missing or
                damaged.
            UnavailableError: The state's store does not answer.
        """
        place = self.index if place is None else place
        return offset_log.committed_offset(self.generation.checkpoint, place)

    def is_drained(self) -> bool:
        """Return whether every planned split of all that the run reads was read and committed.

        By the checkpoint as it is now; always False for a source without an end.

        Raises:
            StateError: The file with the offsets of the last committed micro-batch is missing or
                damaged.
            UnavailableError: The state's store does not answer.
        """
        places = self.read_places.items()
        return all(place.is_drained(self.committed(number)) for number, place in places)

    def reached(self, offset_of: Callable[[int], Any]) -> Reached:
        """Return how far the sources that the run reads were read, together.

        Splits and rows are their sums, None unless known of all; the event time is the highest one;
        the offsets are those of the source alone.

        Args:
            offset_of: Returns Spark's offset of a place, decoded from JSON; None if never read.
        """
        places = self.read_places.items()
        found = [place.reached(offset_of(number)) for number, place in places]
        splits = [each.splits for each in found if each.splits is not None]
        rows = [each.rows for each in found if each.rows is not None]
        times = [each.event_time_ms for each in found if each.event_time_ms is not None]
        return Reached(
            splits=sum(splits) if len(splits) == len(found) else None,
            rows=sum(rows) if len(rows) == len(found) else None,
            event_time_ms=max(times, default=None),
            offsets=found[0].offsets,
        )

    @property
    def ends(self) -> list[EndPosition]:
        """End positions of the sources that the run reads, in their turns; empty without ends."""
        ends = {each.source: each for p in self.read_places.values() if (each := p.end) is not None}
        turn = self.context.pipeline.turn_of(self.source.name)
        return [ends[each.name] for each in turn if each.name in ends]

    @property
    def seams(self) -> list[Seam]:
        """The seams of the topics that this run reads; empty for files."""
        return [each.seam for each in self.read_places.values() if each.seam is not None]

    def seams_to_count(self) -> list[Seam]:
        """Return the seams that were read past and whose rows are not counted yet; empty for none.

        By the checkpoint as it is now; call it for a source with an end once it is drained. The
        :meth:`Seam.count` of each is then due.

        Raises:
            StateError: The checkpoint or the count of a seam's rows is damaged.
            UnavailableError: The state's store does not answer.
        """
        return [
            place.seam
            for number, place in self.read_places.items()
            if place.seam is not None and place.has_uncounted_seam(self.committed(number))
        ]

    def has_new_rate(self) -> bool:
        """Return whether a rate limit was changed since the query was declared.

        Read from the state folder at each call. The query has to be declared and built again to
        apply it.

        Raises:
            StateError: A document with a limit is damaged, or of another version.
            UnavailableError: The state's store does not answer.
        """
        sources = self.context.pipeline.sources
        return any(
            rate_of(self.generation, sources[number].name, sources[number].rate) != rate
            for number, rate in {self.index: self.rate, **self.beside}.items()
        )


def declare_query(
    context: PipelineContext, name: str, prepared: Prepared | None = None
) -> QueryDeclaration:
    """Resolve the query of a run that reads one source; nothing is built yet.

    The query holds every source of the pipeline in its fixed place: the named one is read, earlier
    ones are drained (their plans hold nothing more to read), later ones are empty. With
    several inputs, sources of other inputs are read together with it.

    Args:
        context: The pipeline and its state.
        name: Name of the source to read.
        prepared: DataFrame of the source's rows, built by this driver while history was still
            read; None if there is none. It is used only if it still fits.

    Raises:
        InputError: The pipeline has no source of this name, or Spark can't read a file that arrived
            after the plan.
        StateError: A source before it has not finished, the decision where it starts (its
            hand-over) was not made, or the state is damaged.
        UnavailableError: The state's store does not answer.
    """
    context.require_turn(name)
    pipeline = context.pipeline
    order = pipeline.hybrid_source()
    source = pipeline.source(name)
    read = pipeline.turn_of(name)
    rates = {
        pipeline.place_of(each.name): rate_of(context.generation, each.name, each.rate)
        for each in read
    }
    places: dict[int, SourcePlace] = {}
    history = EarlierSources((), ())
    for chain in pipeline.chains:
        own = context.of_source(chain[0].name)
        columns, planned = own.plan.columns.names, list[Planned]()
        for each in chain:
            number = pipeline.place_of(each.name)
            is_over = order.index(each.name) < order.index(read[0].name)
            turn = Turn(each, number, rates.get(number), is_over=is_over and number not in rates)
            earlier = EarlierSources(tuple(planned), columns)
            place, readable = make_place(own, turn, earlier, prepared)
            places[number] = place
            if readable is not None:
                planned.append(readable)
        if source in chain:
            history = EarlierSources(tuple(planned), columns)
    index = pipeline.place_of(name)
    rate = rates.pop(index)
    in_order = tuple(places[number] for number in sorted(places))
    return QueryDeclaration(context, source, index, rate, in_order, history, rates)


@dataclass(frozen=True)
class Turn:
    """Place of a source in the query, and whether this run reads it, or an earlier one did.

    Attributes:
        source: The source.
        index: Number of the source's place in the query, from 0.
        rate: Its rate limit if it is read by this run; None if it was read before or comes later.
        is_over: Whether the source was read to its end by an earlier run.
    """

    source: FileSource | KafkaSource
    index: int
    rate: RateLimit | None
    is_over: bool


def make_place(
    context: PipelineContext, turn: Turn, earlier: EarlierSources, prepared: Prepared | None
) -> tuple[SourcePlace, Planned | None]:
    """Make the place of a source, by its kind and by whether it is read now, before or later.

    This is the only function that asks which kind of source it is. Nothing is read yet.

    Args:
        context: The pipeline and its state, as the input of the source sees it.
        turn: The source's place, and whether its turn has come.
        earlier: The sources before it that are read from a plan.
        prepared: DataFrame of a followed topic's rows that this driver built before, or None.

    Returns:
        The place; and the source as it is read from its plan, or None if its turn has not come or
        it is a topic that is followed without end.

    Raises:
        InputError: Spark can't read a file that arrived after the plan.
        StateError: The source's hand-over was not made, or the state is damaged.
        UnavailableError: The state's store does not answer.
    """
    source = turn.source
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
        return WaitingPlace(context, source.selection, context.plan.topic_of(source.name)), None
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
    seam_end = planned_of(generation, plan, ends[-1].source).seam_end if ends else {}
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
