"""Table that a repair is about: whether a captured table can be repaired in place, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hybrid_extensions.cdc.compared.compared_table import compared_table
from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.record_columns import Included
from sources.errors import StateError
from sources.kept_definitions import kept_declaration
from sources.planning.context import PipelineContext
from sources.serving import target_of
from sources.storage.folder import Folder
from spark_jobs.launch.questions.transform_check import TransformCheck
from spark_jobs.table.delta_table import open_table
from spark_jobs.table.plain_table import is_plain

_WAY = (
    "Compute the table again: take a snapshot into another folder, write its `path` into the "
    "pipeline's file, and run `hybrid rerun P`."
)


@dataclass(frozen=True)
class RepairedTable:
    """A captured table whose rows may be written from a snapshot of its database.

    Attributes:
        context: The pipeline and its generation.
        captured: The table as a snapshot reads it: columns by their names in the database.
        names: By name in the database: the name in the target, of each column that the target has.
        parts: By name of each further column of the target: the part of a change's record in it.
        topic: Topic of the table's changes.
        target: Folder of the target.
    """

    context: PipelineContext
    captured: CapturedTable
    names: Mapping[str, str]
    parts: Mapping[str, Included]
    topic: KafkaSource
    target: Folder

    @property
    def key(self) -> list[str]:
        """Columns that identify a row."""
        return self.context.pipeline.sink.key

    @property
    def position(self) -> str:
        """Column with the log position of the change that a row is of."""
        return self.context.pipeline.sink.order[0]

    @property
    def deletes(self) -> Folder | None:
        """Folder of the table with keys and positions of deletes; None if rows are only marked."""
        removes = self.context.pipeline.sink.removes_rows
        return self.context.generation.folder("deletes") if removes else None

    @property
    def columns(self) -> dict[str, str]:
        """Columns that the database has, by name in the target, with their Spark SQL types."""
        return {here: self.captured.columns[there] for there, here in self.names.items()}


def require_repairable(loaded: LoadedPipeline) -> RepairedTable:
    """Return the captured table of a pipeline; refuse one that can't be repaired in place.

    The transform has to pass on all rows and columns as they are, since a repaired row is what a
    snapshot would have written. That is known from its analysis, which a short Spark process makes
    if the kept one is of another transform.

    Args:
        loaded: The pipeline, with the declaration of the generation to repair.

    Raises:
        InputError: The pipeline captures no table, or the target can't be read.
        StateError: The table can't be repaired in place, and why; or nothing was planned yet, or
            the snapshot is still being read.
        UnavailableError: A store does not answer.
    """
    context = PipelineContext.require(loaded)
    if shards := context.pipeline.shards:
        rows = f"it has rows of {len(shards)} shards ({', '.join(shards)}), each with its own log"
        raise _refused(context, rows, "snapshot.topic")
    asked = compared_table(context.loaded)
    source, topic = _sources(context.loaded)
    if (why := _declared_otherwise(context, topic)) is not None:
        raise _refused(context, why, "sink")
    if context.switch_state.start_of(topic.name) is None:
        message = (
            f"`{asked.table}` can't be repaired yet: its snapshot is still being read. Nothing was "
            "written."
        )
        hint = "Wait until the run follows the changes (`hybrid status P`), then repair again."
        raise StateError(message, hint, transient=True, table=asked.table)
    target = target_of(context.loaded, context.generation.name)
    opened = open_table(target)
    if not is_plain(opened):
        why = "its Delta table has features, such as deletion vectors, that only Spark writes"
        raise _refused(context, why, "sink.path")
    there = [field.name for field in opened.schema().fields]
    known = {*asked.columns, *topic.include, *_dropped(topic)}
    if others := [name for name in there if name not in known]:
        why = f"its transform makes the column `{others[0]}`, which the database does not have"
        raise _refused(context, why, "transform")
    _require_passed_on(context, there)
    captured = CapturedTable.of(context.loaded, source, topic)
    renamed = {asked.names.get(name, name): name for name in asked.columns}
    return RepairedTable(
        context,
        replace(captured, columns={old: asked.columns[name] for old, name in renamed.items()}),
        {old: name for old, name in renamed.items() if name in there},
        {name: part for name, part in topic.include.items() if name in there},
        topic,
        target,
    )


def _sources(loaded: LoadedPipeline) -> tuple[FileSource, KafkaSource]:
    """Return the snapshot and the topic after it, which :func:`compared_table` has found."""
    for source in loaded.pipeline.sources:
        topic = loaded.pipeline.topic_after(source.name)
        if isinstance(source, FileSource) and source.snapshot is not None and topic is not None:
            return source, topic
    raise AssertionError("a pipeline without them is refused before")


def _declared_otherwise(context: PipelineContext, topic: KafkaSource) -> str | None:
    """Return why what is declared can't be repaired, as a clause; None if it can."""
    pipeline, sink = context.pipeline, context.pipeline.sink
    if sink.mode != "merge":
        return "it keeps every change, and no row of it is the present one (`sink.mode: append`)"
    if sink.history is not None:
        return "it keeps every version of a row (`sink.history`), and a snapshot has one"
    if sink.order != [topic.envelope_column("position")]:
        return (
            "`sink.sequence` is not the column that `include` fills with `position`, by which a "
            "repaired row is older than each later change"
        )
    if pipeline.rules or pipeline.sample is not None:
        return f"`{'rules' if pipeline.rules else 'sample'}` may leave out rows of the database"
    return None


def _dropped(topic: KafkaSource) -> list[str]:
    return [] if topic.changes is None else topic.changes.gone_columns


def _require_passed_on(context: PipelineContext, there: list[str]) -> None:
    """Refuse a transform that does more than to leave out or reorder columns."""
    generation = context.generation
    with TransformCheck(kept_declaration(context.loaded, generation.name)) as check:
        analysis = check.current(context.plan, generation)
    if analysis.warning is not None:
        why = f"whether its transform passes on rows as they are is unknown: {analysis.warning}"
        raise _refused(context, why.rstrip("."), "transform")
    if analysis.passed is None or not {*there} <= {*analysis.passed}:
        name = context.pipeline.transform.name
        why = f"`transform: {name}` does more than to pass on rows and columns as they are"
        raise _refused(context, why, "transform")


def _refused(context: PipelineContext, why: str, field: str) -> StateError:
    name = context.pipeline.name
    message = (
        f"The table of pipeline `{name}` can't be repaired in place: {why}. Nothing was written."
    )
    return StateError(message, _WAY, pipeline=name, field=field)
