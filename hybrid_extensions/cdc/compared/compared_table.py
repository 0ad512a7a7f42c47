"""Which rows and columns of database and target are compared: renamed, gone, deleted, by shard."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from sources.common.sql.sql_names import literal, quoted
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError
from sources.planning.context import PipelineContext
from sources.planning.files.open_snapshot import require_whole
from sources.serving import target_of
from sources.storage.folder import Folder


class ComparedTable(NamedTuple):
    """A database table and the target of the pipeline that captures it.

    Attributes:
        dsn: Connection string of the database.
        table: Name of the database table, ``schema.table``.
        columns: Columns to compare, by their names in the target, and their Spark SQL types.
        path: Folder of the target.
        names: By name in the target: the name in the database of columns that have another one
            there.
        present: SQL condition on rows of the target that stand for a row of the database, such as
            those that are no delete markers.
        shard: Topic of the shard whose table it is; empty without shards.
    """

    dsn: str
    table: str
    columns: Mapping[str, str]
    path: Folder
    names: Mapping[str, str] = MappingProxyType({})
    present: str = "true"
    shard: str = ""


def compared_table(loaded: LoadedPipeline) -> ComparedTable:
    """Return the database table and the target that a pipeline without shards declares.

    As :func:`compared_tables` does; only call it for a pipeline with one captured table.

    Raises:
        InputError, StateError, UnavailableError: As that.
    """
    (asked,) = compared_tables(loaded)
    return asked


def compared_tables(loaded: LoadedPipeline) -> list[ComparedTable]:
    """Return the database table and the target that a pipeline declares, for a comparison.

    Columns that the generation's runs have adopted since are among them. Columns that the table has
    lost are not among them.

    Returns:
        One, or the table of each shard with its rows of the target; the first one also has rows
        that are of no shard, which no database holds.

    Raises:
        InputError: The pipeline captures no table.
        StateError: The declaration changed in a way that the checkpoint can't follow; or chunks of
            the snapshot are still being read.
        UnavailableError: The state's store does not answer.
    """
    if (context := PipelineContext.find(loaded)) is not None:
        # It knows the columns that were followed.
        loaded = context.loaded
        require_whole(context, "compared with the database")
    asked: list[ComparedTable] = []
    for options, topic in _captured_tables(loaded):
        table = topic.changes
        assert table is not None  # a `snapshot` before the topic needs it
        columns = table.current(topic.value_columns)
        asked.append(
            ComparedTable(
                options.dsn,
                table.table,
                {name: kind for name, kind in columns.items() if name not in table.gone_columns},
                target_of(loaded),
                {name: table.name_in_table(name) for name in table.renamed_columns},
                _present(loaded.pipeline, topic, is_first=not asked),
                options.topic or "",
            )
        )
    return asked


def _present(pipeline: Pipeline, topic: KafkaSource, *, is_first: bool) -> str:
    """Return the SQL condition of rows of the target that stand for rows of one database."""
    present, shards = pipeline.sink.present, pipeline.shards
    if not shards:
        return present
    column = quoted(next(name for name in topic.topic_columns if name in pipeline.sink.key))
    is_of = f"coalesce({column} IN ({', '.join(map(literal, topic.topics))}), false)"
    if is_first:
        of_any = f"coalesce({column} IN ({', '.join(map(literal, shards))}), false)"
        is_of = f"({is_of} OR NOT {of_any})"
    return f"({present}) AND {is_of}"


def _captured_tables(loaded: LoadedPipeline) -> list[tuple[SnapshotOptions, KafkaSource]]:
    """Return how to reach each database of the captured table, and the topic of its changes."""
    found = [
        (source.snapshot, topic)
        for source in loaded.pipeline.file_sources
        if source.snapshot is not None
        and (topic := loaded.pipeline.changes_after(source.name)) is not None
    ]
    if found:
        return found
    message = (
        f"Pipeline `{loaded.pipeline.name}` captures no database table: none of its sources "
        "declares a `snapshot` and is followed by the topic of the table's changes."
    )
    hint = "Compare the target with the pipeline's raw input instead: `hybrid audit P`."
    raise InputError(message, hint, pipeline=loaded.pipeline.name, field="snapshot")
