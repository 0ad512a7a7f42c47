"""Position of a version of a table: up to where its rows come from the sources, by its commits."""

from __future__ import annotations

from sources.errors import StateError
from sources.serving import OWNER
from sources.storage.folder import Folder
from spark_jobs.table.commit_log import RESTORE, Commit, CommitLog
from spark_jobs.table.commit_position import CommitPosition
from spark_jobs.table.delta_table import open_table

_WAY = (
    "Declare the position instead, by offsets or by a time. Or compute the table again: name "
    "another `sink.path`, and run `hybrid run P`."
)


def find_position(table: Folder, version: int | None = None) -> CommitPosition:
    """Return the position of a version of a table, by its commits.

    It is that of the newest micro-batch in it. Commits after that one may have changed no row, or
    be the pipeline's own that add nothing of the sources: ranges, repairs, barriers.

    Args:
        table: Folder of the table.
        version: Number of the version; None for the newest.

    Raises:
        StateError: The commits do not contain it; the message names the version, and why.
        InputError: The table can't be read.
        UnavailableError: The table's store does not answer.
    """
    opened = open_table(table, version)
    owner = opened.metadata().configuration.get(OWNER)
    log, number = CommitLog(table), int(opened.version())
    while number >= 0:
        if (commit := log.read(number)) is None:
            raise _unknown(table, number, "Delta has removed its commit from the log")
        if (position := CommitPosition.of(commit)) is not None:
            return position
        if commit.operation == RESTORE:
            if commit.restored_to is None:
                raise _unknown(table, number, "it is a RESTORE to a time, which names no version")
            number = commit.restored_to
            continue
        if commit.changes_rows and not _is_aside(commit, owner):
            why = f"its {commit.operation} changed rows and says no position"
            raise _unknown(table, number, why)
        number -= 1
    raise _unknown(table, 0, "no commit since then says one")


def _is_aside(commit: Commit, owner: str | None) -> bool:
    """Return whether a commit is the pipeline's own, beside its micro-batches."""
    return owner is not None and any(each.startswith(f"{owner}-") for each in commit.transactions)


def _unknown(table: Folder, version: int, why: str) -> StateError:
    message = (
        f"The commits of the table {table} don't tell up to where its rows come from the sources: "
        f"version {version}: {why}. The table was not changed."
    )
    return StateError(message, _WAY, table=table.url)
