"""Member tables of a cut: pipelines that declare the same cuts on one database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hybrid_extensions.cdc.databases.replication_slot import watched_slot
from hybrid_extensions.cdc.tables.template import Template, is_template
from hybrid_extensions.cuts.declare import Cuts, CutsSection, overlap
from sources.common.positions import Offsets
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError, StateError
from sources.generations import acting_on
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext
from sources.planning.files.open_snapshot import open_source
from sources.serving import target_of
from sources.storage.folder import Folder
from sources.storage.stores import Stores
from spark_jobs.checkpoint.offset_log import initial_kafka_offsets, next_offsets


@dataclass(frozen=True)
class CutTable:
    """Table of a cut: the pipeline that captures it, and its serving generation.

    Attributes:
        name: Name of the table in the database.
        context: The pipeline and its state.
    """

    name: str
    context: PipelineContext

    @property
    def generation(self) -> Folder:
        """State folder of the generation."""
        return self.context.generation

    @property
    def target(self) -> Folder:
        """Delta table that the generation writes to.

        Raises:
            StateError: The state is damaged.
            UnavailableError: The state's store does not answer.
        """
        return target_of(self.context.loaded, self.context.generation.name)

    @property
    def follows(self) -> bool:
        """Whether the whole snapshot is read and the hand-over to the changes is done.

        Raises:
            StateError: The state is damaged.
            UnavailableError: The state's store does not answer.
        """
        has_start = self.context.switch_state.start_of(self._source.name) is not None
        return has_start and open_source(self.context) is None

    def log_end(self) -> Offsets:
        """Return the end offset of each partition of the topic, by asking the broker.

        Raises:
            InputError: The broker does not know the topic, or refuses.
            UnavailableError: The broker does not answer.
        """
        return self._log.log_end()

    def unread(self, ends: Offsets) -> int | None:
        """Return how many offsets before a cut's end offsets the table has not committed yet.

        Args:
            ends: End offsets, as :meth:`log_end` returned them.

        Returns:
            None if the topic is not read yet, as the snapshot still is.

        Raises:
            StateError: The checkpoint is damaged.
            UnavailableError: The checkpoint's store does not answer.
        """
        place = len(self.context.pipeline.sources) - 1
        checkpoint = self.context.generation.checkpoint
        if (begun := initial_kafka_offsets(checkpoint, place)) is None:
            return None
        committed = {**begun, **next_offsets(checkpoint, place)}
        return sum(max(end - committed.get(each, 0), 0) for each, end in ends.items())

    @cached_property
    def _source(self) -> KafkaSource:
        last = self.context.pipeline.sources[-1]
        # Refused in the declaration, where `cuts` is declared.
        assert isinstance(last, KafkaSource)
        return last

    @cached_property
    def _log(self) -> KafkaLog:
        return KafkaLog(self._source)


@dataclass(frozen=True)
class CutGroup:
    """Pipelines whose tables belong to the same cuts.

    Attributes:
        pipelines: By the name of the captured table, in the order in which they were named.
        cuts: The declaration; all pipelines have the same.
        database: How the database is reached, and the slot or the connector; all have the same.
        folder: Folder of the Delta table of the cuts.
    """

    pipelines: dict[str, LoadedPipeline]
    cuts: Cuts
    database: SnapshotOptions
    folder: Folder

    @property
    def stores(self) -> Stores:
        """Clients of the tables' storages, to open a cut."""
        return next(iter(self.pipelines.values())).pipeline.stores

    def tables(self) -> list[CutTable]:
        """Return the tables, in the order given, with the generations that serve now.

        Raises:
            InputError: The kept declaration of a generation is not valid, or a state's store
                refuses.
            StateError: A pipeline was never planned or run, or its state is damaged.
            UnavailableError: A state's store does not answer.
        """
        return [
            CutTable(name, PipelineContext.require(acting_on(loaded)))
            for name, loaded in self.pipelines.items()
        ]


def load_group(paths: Sequence[Path]) -> CutGroup:
    """Return the pipelines of a cut, loaded from their files.

    Args:
        paths: Files of pipelines, or a file with ``tables`` for all of these; at least one.

    Raises:
        InputError: A file is not valid; a pipeline declares no cuts, or others; two capture the
            same table, or different databases; or the cuts' path overlaps a pipeline's table.
        StateError: A file is the copy of a generation, and the note of its origin is damaged.
    """
    loaded = [each for path in paths for each in _load(path)]
    first = loaded[0]
    cuts, database = _declared(first)
    folder = first.place(cuts.path).called("table of the cuts")
    pipelines: dict[str, LoadedPipeline] = {}
    for each in loaded:
        own, reached_by = _declared(each)
        _require_same(each, first, "cuts.path", (each.place(own.path).url, folder.url))
        for field in ("dsn", "slot", "connector"):
            both = getattr(reached_by, field), getattr(database, field)
            _require_same(each, first, f"snapshot.{field}", both)
        if overlap(each.target.url, folder.url):
            message = (
                f"`cuts.path` {folder} overlaps the table {each.target} of pipeline "
                f"`{each.pipeline.name}`."
            )
            hint = (
                "Give the table of the cuts a folder of its own (`cuts.path`), then publish again."
            )
            raise InputError(message, hint, field="cuts.path", value=cuts.path)
        captured = each.pipeline.topics[-1].changes
        assert captured is not None  # `cuts` needs the position of changes
        table = captured.table
        if (other := pipelines.get(table)) is not None:
            message = (
                f"Table `{table}` is captured by {other.path.name} and by {each.path.name}, and a "
                "cut has each table once."
            )
            hint = "Name only one of these two files in the command."
            raise InputError(message, hint, table=table)
        pipelines[table] = each
    return CutGroup(pipelines, cuts, database, folder)


def _load(path: Path) -> list[LoadedPipeline]:
    if not is_template(path):
        return [load_pipeline(path)]
    template = Template(path)
    if not (tables := template.tables()):
        message = f"{path.name} has no pipeline of a table yet, so it has no cuts."
        hint = "Look for the tables in the database, `hybrid tables P`, then start their runs."
        raise InputError(message, hint, file=str(path))
    return [template.load(table) for table in tables]


def _declared(loaded: LoadedPipeline) -> tuple[Cuts, SnapshotOptions]:
    cuts, database = loaded.section(CutsSection).cuts, watched_slot(loaded)
    if cuts is None or database is None:
        message = f"Pipeline `{loaded.pipeline.name}` declares no `cuts`."
        hint = (
            f"Add `cuts: {{path: <folder>}}` to {loaded.path.name}, the same in all pipelines of "
            "the database, and restart its run: `hybrid stop P`, `hybrid resume P`."
        )
        raise InputError(message, hint, pipeline=loaded.pipeline.name, field="cuts")
    return cuts, database


def _require_same(
    loaded: LoadedPipeline, first: LoadedPipeline, field: str, values: tuple[str | None, str | None]
) -> None:
    """Refuse two pipelines whose values of a field differ, of which cuts have only one."""
    ours, theirs = values
    if ours != theirs:
        message = (
            f"`{field}` of pipeline `{loaded.pipeline.name}` is {_shown(ours)}, and that of "
            f"pipeline `{first.pipeline.name}` is {_shown(theirs)}: all tables of a cut are "
            "captured from one database by one connector, and their cuts are in one table."
        )
        hint = (
            f"If the two pipelines do not belong together, publish the cuts of each by a command "
            f"that does not name the other one. If they do, declare the same `{field}` in "
            f"{first.path.name} and {loaded.path.name}."
        )
        raise InputError(message, hint, pipeline=loaded.pipeline.name, field=field)


def _shown(value: str | None) -> str:
    return "not declared" if value is None else f"`{value}`"


def require_following(tables: Sequence[CutTable]) -> None:
    """Refuse tables that are still reading their snapshot, which have no cut yet.

    Raises:
        StateError: Names those tables.
    """
    if reading := [each.name for each in tables if not each.follows]:
        verb = "reads its snapshot" if len(reading) == 1 else "read their snapshots"
        message = f"No cut yet: {', '.join(reading)} still {verb} of the database."
        hint = "Publish again once the run of each table follows its changes: `hybrid status P`."
        raise StateError(message, hint, table=reading[0])
