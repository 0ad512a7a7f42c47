"""Plan of a pipeline: what is read, in which order, and where each topic is expected to start.

It is made once per generation, before anything runs. Whatever can be refused beforehand is refused
here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pyarrow as pa

from sources.common.database_snapshot import BinlogSnapshot
from sources.common.schema import check_event_time, parse_schema
from sources.common.state_document import Record
from sources.common.times import iso, now_ms, to_ms
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.exported_source import ExportedFiles
from sources.config.source.file_source import FileSource
from sources.errors import StateError
from sources.files.listing.source_listing import list_source
from sources.files.listing.split_table import FileListing
from sources.kafka.client.create_topics import create_missing_topics
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.declaration_digests import keep_declaration
from sources.planning.exports import with_required_exports
from sources.planning.files.aligned_batches import with_ticks
from sources.planning.files.copied_files import plan_copies
from sources.planning.files.file_plan import (
    FilePlan,
    FoundFiles,
    keep_splits,
    plan_files,
    plans_alike,
)
from sources.planning.files.folder_plan import plan_folder
from sources.planning.schema_check import check_key, check_sequence, compare_declared
from sources.planning.topics.topic_plan import Earlier, TopicPlan, plan_topics
from sources.state.generation import PLAN, Generation
from sources.storage.folder import Folder
from sources.storage.probe import require_writable


class Plan(Record):
    """Plan of a generation, which is one computation of the whole table.

    Of several inputs it has the sources of all, one input after the other; :meth:`of_sources` is
    the plan of one of them.

    Attributes:
        pipeline: Name of the pipeline.
        created_ms: When planning began, in Unix milliseconds; the bounds of event times of its
            files are computed from this time.
        files: Plans of the bounded file sources, in reading order.
        archives: Plans of the bounded Kafka sources before the last source, in reading order.
        topic: Plan of the last source if it reads topics; None if it reads files.
        warnings: Sentences that people should read before they run the pipeline.
        folder: Files that were listed for the last source, if that is a folder that keeps growing;
            else None.
    """

    VERSION = 5

    pipeline: str
    created_ms: int
    files: list[FilePlan]
    archives: list[TopicPlan]
    topic: TopicPlan | None
    warnings: list[str]
    folder: FoundFiles | None = None

    @property
    def topics(self) -> list[TopicPlan]:
        """Plans of all Kafka sources in reading order: ``archives``, then ``topic``."""
        return [*self.archives, *([] if self.topic is None else [self.topic])]

    def of_sources(self, names: Collection[str]) -> Plan:
        """Return the plan of some of the sources: of those of one input.

        All other attributes, such as ``warnings``, are those of the whole plan.

        Args:
            names: Names of the sources.
        """
        files = [part for part in self.files if part.source in names]
        topics = [part for part in self.topics if part.source in names]
        archives = [part for part in topics if part.range is not None]
        followed = next((part for part in topics if part.range is None), None)
        return self.model_copy(update={"files": files, "archives": archives, "topic": followed})

    def topic_of(self, source: str) -> TopicPlan:
        """Return the plan of a Kafka source, by the source's name.

        Raises:
            KeyError: The plan has no such Kafka source.
        """
        return {part.source: part for part in self.topics}[source]

    def files_of(self, source: str) -> FilePlan:
        """Return the plan of a bounded file source, by the source's name.

        Raises:
            KeyError: The plan has no such file source.
        """
        return {part.source: part for part in self.files}[source]

    @property
    def columns(self) -> pa.Schema:
        """Columns that the transform gets, as an Arrow schema: those of the first source."""
        return parse_schema(self.columns_by_name)

    @property
    def absent(self) -> list[str]:
        """Those of ``warnings`` about declared column names that have no value in a sample.

        Empty without such warnings.
        """
        of_files = [each for part in self.listed for each in part.absent]
        return of_files + [each for part in self.topics for each in part.absent]

    @property
    def listed(self) -> list[FoundFiles]:
        """Listings of all file sources: the bounded ones in order, then the growing folder."""
        return [*self.files, *([] if self.folder is None else [self.folder])]

    def is_whole(self, folder: Folder) -> bool:
        """Return whether the split table of every file source exists in the generation's folder.

        If False, the plan can't be read, and a new one is needed.

        Args:
            folder: State folder of the generation.

        Raises:
            UnavailableError: The state's store does not answer.
        """
        return all(folder.exists(each.splits_file) for each in self.listed)

    @property
    def columns_by_name(self) -> dict[str, str]:
        """Columns that the transform gets, those of the first source: Spark SQL types by name."""
        if self.files:
            return self.files[0].columns
        return self.topics[0].columns if self.folder is None else self.folder.columns


Draft = Callable[[LoadedPipeline], tuple[Plan, dict[str, FileListing]]]
"""Makes a plan without writing anything, and the listing of each file source by name."""


def make_plan(
    loaded: LoadedPipeline,
    drop_outdated: Callable[[], None] | None = None,
    check: Callable[[Plan], None] = lambda _: None,
    draft: Draft | None = None,
) -> Plan:
    """Return the newest generation's plan; if there is none, make it, check it and write it.

    The first call also creates the first generation. All reading and checking comes before the
    first write, so that a pipeline that is refused leaves no state behind.

    Args:
        loaded: The pipeline.
        drop_outdated: None to keep a plan that exists. Otherwise a new plan is made; this function
            then removes the old one, and is called after all checks have passed.
        check: Refuses a new plan by raising an error, before anything is written; not called for a
            plan that is kept.
        draft: Makes the plan of something else than all sources as they are declared; by default
            :func:`draft_plan` of these.

    Raises:
        InputError: The declaration does not fit the data, or a broker or store refuses.
        UnavailableError: A broker, store or registry does not answer.
        SeamError: A topic's hand-over could not be made: for example, the Kafka log no longer
            reaches back to where history ends, or a declared offset is not in it.
        StateError: The declaration changed in a way that the checkpoint can't follow, a database
            snapshot or an export is not complete, or the state folder can't be written.
    """
    # Where its plan is outdated, its exports are, too.
    generation = loaded.open_generation(create=False) if drop_outdated is None else None
    if generation is not None and (kept := find_plan(generation)) is not None:
        return kept
    loaded = with_required_exports(loaded, generation)
    plan, listings = (draft or draft_plan)(loaded)
    check(plan)
    require_writable(loaded.state, "state")
    require_writable(loaded.target, "sink.path")
    if drop_outdated is not None:
        drop_outdated()
    generation = loaded.open_generation(create=True)
    if generation is None:
        state = loaded.pipeline.state
        message = f"The state folder {state} of pipeline `{plan.pipeline}` could not be created."
        hint = "Make the folder writable, then plan again: `hybrid plan P`."
        raise StateError(message, hint, pipeline=plan.pipeline, file=state)
    keep_declaration(loaded, generation)
    for part in plan.listed:
        keep_splits(part, listings[part.source], generation)
    return generation.put_if_absent(PLAN, plan)


def log_server(generation: Generation, source: str | None = None) -> str:
    """Return the id of the MySQL server whose binlog the planned snapshot's position refers to.

    Called before a connector's place in that log is compared with the snapshot.

    Empty for other databases, for snapshots of earlier versions, and before there is a plan.

    Args:
        generation: State of the generation.
        source: Name of the source with the snapshot; None for the first one.

    Raises:
        StateError: The plan is damaged.
        UnavailableError: The state's store does not answer.
    """
    plan = find_plan(generation)
    files = [] if plan is None else plan.files
    taken = [part.end.snapshot for part in files if source in (None, part.source)]
    return next((each.server for each in taken if isinstance(each, BinlogSnapshot)), "")


def find_plan(generation: Generation) -> Plan | None:
    """Return the plan of a generation from its state folder; None if it has none yet.

    Args:
        generation: State of the generation.

    Raises:
        StateError: The plan is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(PLAN, Plan)


def require_plan(generation: Generation) -> Plan:
    """Return the plan of a generation from its state folder; refuse a generation without one.

    A generation is one computation of the whole table; its plan lists what is read, in which order.

    Args:
        generation: State of the generation.

    Raises:
        StateError: The generation has no plan yet, or the plan is damaged or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    plan = find_plan(generation)
    if plan is None:
        name = generation.info.generation
        message = f"Generation {name} has no plan yet in {generation.url}."
        hint = (
            "Make the plan first: `hybrid plan P`; or run the pipeline, which plans first: `hybrid "
            "run P`."
        )
        raise StateError(message, hint, generation=name, file=generation.url)
    return plan


def draft_plan(loaded: LoadedPipeline) -> tuple[Plan, dict[str, FileListing]]:
    """Make a plan of all sources and check them against each other, without writing state.

    Topics that do not exist yet are created first, where the declaration says so. Each of several
    inputs is planned by itself.

    Returns:
        The plan, and the listing of each file source by the source's name, with its table of
        splits.

    Raises:
        InputError, UnavailableError, SeamError, StateError: As :func:`make_plan`.
    """
    if not loaded.pipeline.inputs:
        return _draft_chain(loaded)
    listings: dict[str, FileListing] = {}
    plans: list[Plan] = []
    for own in loaded.by_input.values():
        part, listed = _draft_chain(own)
        plans.append(part)
        listings |= listed
    listings |= _aligned(loaded.pipeline, listings)
    warnings = [warning for part in plans for warning in part.warnings]
    topics = [topic for part in plans for topic in part.topics]
    plan = plans[0].model_copy(
        update={
            "files": [_parsed(files, loaded.pipeline) for part in plans for files in part.files],
            "archives": topics[:-1],
            "topic": topics[-1] if topics else None,
            "warnings": [*dict.fromkeys(warnings)],
        }
    )
    return plan, listings


def _aligned(pipeline: Pipeline, listings: dict[str, FileListing]) -> dict[str, FileListing]:
    """Return the listings of several inputs' files, with the micro-batches that read them."""
    found: dict[str, FileListing] = {}
    for source in pipeline.bounded_files:
        turn = [each for each in pipeline.turn_of(source.name) if isinstance(each, FileSource)]
        if source.name not in found:
            splits = {each.name: listings[each.name].splits for each in turn}
            ticks = with_ticks(splits, {each.name: each for each in turn})
            found |= {name: replace(listings[name], splits=table) for name, table in ticks.items()}
    return found


def _parsed(part: FilePlan, pipeline: Pipeline) -> FilePlan:
    """Return the plan of one of several inputs' files, which this project's tasks parse.

    A micro-batch of Spark's own reader can't be empty.
    """
    source = pipeline.file_source(part.source)
    return part.model_copy(update={"parsed": part.parsed or source.shown_place})


def _draft_chain(loaded: LoadedPipeline) -> tuple[Plan, dict[str, FileListing]]:
    """Make the plan of one chain of sources, as :func:`draft_plan`."""
    pipeline = loaded.pipeline
    pipeline.require_default_expressions()
    clock_ms = now_ms()
    # Ask the broker first: with a wrong address, files need not be listed.
    for topic_source in pipeline.topics:
        create_missing_topics(topic_source)
        KafkaLog(topic_source)
    listings = {
        source.name: list_source(loaded, source, clock_ms=clock_ms)
        for source in pipeline.bounded_files
    }
    warnings: list[str] = []
    files: list[FilePlan] = []
    for source in pipeline.bounded_files:
        alike = [listings[part.source].splits for part in plans_alike(pipeline, source, files)]
        otherwise_ms = _end_of_part_ms(loaded, source)
        part, hints = plan_files(loaded, source, listings[source.name], alike, otherwise_ms)
        warnings += [*hints, *_reaching_back(source.name, part.event_min_ms, files)]
        copied = plan_copies(loaded, source, listings[source.name])
        files.append(part.model_copy(update={"copied": copied}))
    folder = None
    if (last := pipeline.growing_folder) is not None:
        folder, listings[last.name], hints = plan_folder(loaded, last, listings, clock_ms)
        begin_ms = folder.times.lowest_ms
        warnings += (
            hints if begin_ms is None else [*hints, *_reaching_back(last.name, begin_ms, files)]
        )
    columns = {name: listing.columns for name, listing in listings.items()}
    warnings += _check_columns(pipeline, columns)
    topics, hints = _plan_all_topics(loaded, files)
    warnings += [*hints, *_about_stores(loaded)]
    # Files never come after a topic: where there are topics, the last one is the last source.
    topic = topics.pop() if topics else None
    plan = Plan(
        pipeline=pipeline.name,
        created_ms=clock_ms,
        files=files,
        archives=topics,
        topic=topic,
        warnings=warnings,
        folder=folder,
    )
    return plan, listings


def _end_of_part_ms(loaded: LoadedPipeline, source: FileSource) -> int | None:
    """Return the event time (ms) at which a source ends that turns out to have no rows.

    That through which an export says to be complete; of a range that is recomputed, or of a trial,
    its last one, as rows may be between those that were sampled, or nowhere, and no topic starts
    where the source ends. Otherwise None.
    """
    if isinstance(source, ExportedFiles) and source.complete_through is not None:
        return to_ms(source.complete_through)
    until = source.time_range.until
    if until is None or loaded.kept is None or loaded.kept.generation is not None:
        return None
    return None if loaded.pipeline.topics else to_ms(until) - 1


def _about_stores(loaded: LoadedPipeline) -> list[str]:
    """Return warnings about the places of state and target."""
    state, target, stores = loaded.state, loaded.target, loaded.pipeline.stores
    warnings = [
        *stores.bucket_warnings(state, "state"),
        *stores.bucket_warnings(target, "sink.path"),
    ]
    if state.is_local != target.is_local:
        local, shared = ("state", "sink.path") if state.is_local else ("sink.path", "state")
        warnings.append(
            f"`{shared}` is in a store that other machines reach, `{local}` is a path of this one: "
            "runs and readers on other machines need the same path there, on a shared disk."
        )
    within = state.url.removeprefix(f"{target.url}/")
    if within != state.url and within[0] not in "_.":
        warnings.append(
            f"The state {state.url} is in the folder of the table: a VACUUM by others deletes all "
            "that is none of the table's files. Declare a `state` outside of it, or one in a "
            "folder there whose name begins with `_`."
        )
    return warnings


def _plan_all_topics(
    loaded: LoadedPipeline, files: Sequence[FilePlan]
) -> tuple[list[TopicPlan], list[str]]:
    """Return the plans of all Kafka sources, in order, and warnings."""
    # Created again, as files may hold a partition that was added during the listing.
    logs = [KafkaLog(source) for source in loaded.pipeline.topics]
    earlier = [Earlier(part.source, part.columns, part.end) for part in files]
    plans: list[TopicPlan] = []
    warnings: list[str] = []
    for number, (source, log) in enumerate(zip(loaded.pipeline.topics, logs, strict=True)):
        after = logs[number + 1] if number + 1 < len(logs) else None
        part, hints = plan_topics(loaded, source, log, earlier, after)
        plans.append(part)
        warnings += hints
        if part.range is not None:
            earlier.append(Earlier(part.source, part.columns, part.range.end))
    return plans, warnings


def _reaching_back(name: str, begin_ms: int, before: list[FilePlan]) -> list[str]:
    if not before or begin_ms > before[-1].end.event_time_ms:
        return []
    return [
        f"Source `{name}` begins at {iso(begin_ms)}, source `{before[-1].source}` "
        f"before it ends at {iso(before[-1].end.event_time_ms)}: rows that are in both come twice, "
        "and a watermark delay shorter than the overlap can drop rows."
    ]


def _check_columns(pipeline: Pipeline, columns: dict[str, pa.Schema]) -> list[str]:
    """Refuse columns that do not fit the declaration or each other; return warnings about rules."""
    warnings: list[str] = []
    first: tuple[str, pa.Schema] | None = None
    declared = {
        source.name: parse_schema(source.selected(source.declared_columns))
        for source in pipeline.topics
        if source.declared_columns
    }
    for source in pipeline.sources:
        known = columns.get(source.name, declared.get(source.name))
        if known is None:
            continue
        if first is None:
            first = (source.name, known)
            check_event_time(known, pipeline.event_time.column, f"source `{source.name}`")
            check_key(known, pipeline.key, source.name)
            check_sequence(known, pipeline.sequence, source.name)
            if pipeline.sample is not None:
                pipeline.sample.require_columns(known)
            warnings = pipeline.row_rules.require_columns(known)
        else:
            compare_declared(first[0], first[1], source.name, known)
    return warnings
