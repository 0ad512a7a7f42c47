"""Files of the table that hold history, and those that replaced ranges have removed."""

from __future__ import annotations

from dataclasses import replace

from sources.common.state_document import Record
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.serving import require_in_service
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.run_state.requested_state import read_requested
from spark_jobs.table.delta_table import open_table, paths_of
from spark_jobs.table.history_files import HistoryFiles, has_history_files, read_history_files

RANGES = "ranges"
"""Folder of a generation with a folder for each backfill."""
REMOVED = "removed-files.json"
"""Name of the document :class:`RemovedFiles` in the folder of a backfill."""


class RemovedFiles(Record):
    """State document of a backfill: files of history that it removes from the target.

    Written before the backfill commits.

    Attributes:
        paths: Their paths, as the log of the target has them.
    """

    paths: list[str]


def history_files(context: PipelineContext, target: Folder) -> HistoryFiles:
    """Return the files of the serving table that hold history: all until a stream has started.

    From then on they are those that were there when it started; those that backfills have removed
    since are listed apart.

    Args:
        context: The serving generation.
        target: Folder of the table that it writes to.

    Raises:
        InputError: The table can't be read.
        StateError: The stream was requested, but has not started yet; or the state is damaged.
        UnavailableError: The table's store does not answer.
    """
    generation, last = context.generation, context.pipeline.sources[-1]
    opened = open_table(target)
    # In this order: a stream that was not requested by now has written nothing that was read.
    is_all_there_is = last.boundedness is Boundedness.BOUNDED or read_requested(generation) is None
    if is_all_there_is and not has_history_files(generation):
        return HistoryFiles(set(paths_of(opened)), set())
    found = read_history_files(generation, opened)
    ranges = generation.folder(RANGES)
    gone = set(found.gone)
    for name in ranges.names(f"*/{REMOVED}"):
        # A process that was killed may have left the record of a commit that it never made.
        transaction = range_transaction(generation, name.partition("/")[0])
        if opened.transaction_version(transaction) is None:
            continue
        if (document := ranges.read(name, RemovedFiles)) is not None:
            gone.update(document.paths)
    return replace(found, gone=gone)


def keep_removed(context: PipelineContext, folder: Folder, paths: list[str]) -> None:
    """Record which files of the table a backfill removes; call it before each attempt to commit.

    Args:
        context: The generation.
        folder: State folder of the backfill.
        paths: Their paths, as the log of the target has them.

    Raises:
        StateError: Another generation serves by now, as after a promotion while this process was
            suspended and its lock expired; or the state can't be written.
        UnavailableError: The state's store does not answer.
    """
    require_in_service(context.loaded, context.generation)
    folder.replace(REMOVED, RemovedFiles(paths=paths))


def range_transaction(generation: Generation, folder: str) -> str:
    """Return Delta's application id of the commit that replaces a range.

    Args:
        generation: State of the generation.
        folder: Name of the backfill's folder in :data:`RANGES`.
    """
    return f"{generation.info.transaction_id}-range-{folder}"
