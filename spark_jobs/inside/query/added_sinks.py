"""Parts of a query that extensions add around its sink: copied files, and the catalog's entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sources.config.loader import LoadedPipeline
from sources.extensions import required
from sources.planning.files.copied_files import copying
from sources.storage.folder import Folder
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.inside.sink.sink import BatchFunction
from spark_jobs.table.commit_position import CommitPositions
from spark_jobs.table.ownership.target_guard import TargetGuard


class AddedSink(Protocol):
    """Sink of an extension, to which a query's rows go instead of the project's own."""

    def stream(
        self, rows: DataFrame, reporting: Callable[[BatchFunction], BatchFunction]
    ) -> DataStreamWriter:
        """Return the writer of a query into this sink; the caller sets checkpoint and trigger."""


class CatalogEntry(Protocol):
    """Entry of the target in the catalog of Spark's session, for readers."""

    def require_free(self, spark: SparkSession) -> None:
        """Refuse a name that is taken or can't be created; called before the target is created.

        Raises:
            InputError: Another table or a view has the name, or there is no such schema.
            UnavailableError: The catalog does not answer.
        """

    def register(self, spark: SparkSession) -> None:
        """Create the entry unless it exists; called once the target exists; raises the same."""


def require_copying(query: QueryDeclaration) -> None:
    """Refuse a run that is to copy files where no installed extension does; nothing is written.

    Nothing is checked for an unbounded query, which copies no files.

    Raises:
        InputError: Names ``sink.copy_files``.
    """
    if query.is_bounded:
        copying(query.context.pipeline, "copying_sink")


def copying_sink(
    query: QueryDeclaration, target: Folder, guard: TargetGuard, positions: CommitPositions
) -> AddedSink | None:
    """Return the sink that copies files of history into the target (``sink.copy_files``).

    None without ``sink.copy_files``, with ``sample``, and for an unbounded query: rows are then
    written.

    Args:
        query: Declaration of the query.
        target: The table's folder.
        guard: Refuses a micro-batch that does not follow what the target holds.
        positions: Says the positions of micro-batches, for their commits.

    Raises:
        InputError: Files are to be copied, and no installed extension copies files.
    """
    make = copying(query.context.pipeline, "copying_sink") if query.is_bounded else None
    found: AddedSink | None = None if make is None else make(query, target, guard, positions)
    return found


def catalog_entry(loaded: LoadedPipeline, table: Folder) -> CatalogEntry | None:
    """Return the entry of the table that a query writes to (``sink.table``); None if it has none.

    A candidate's table has none: a promotion brings its rows into the table that has.

    Args:
        loaded: The pipeline.
        table: Folder of the table that the query writes to.

    Raises:
        InputError: No installed extension knows the catalog.
    """
    name = loaded.pipeline.sink.table
    if name is None or table.url != loaded.target.url:
        return None
    does, otherwise = "makes entries in the catalog of Spark's session", "remove `sink.table`"
    make = required("catalog_entry", does, otherwise, field="sink.table", value=name)
    found: CatalogEntry = make(name, table)
    return found
