"""Delta tables: open and inspect them, and commit exactly once though an answer was lost."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table, unreadable_table

_COMMIT = "hybridCommit"
USER_METADATA = "userMetadata"
"""Field of ``commitInfo``, and option of Spark's writer, for what a writer says of its commit."""
# Commits of others, between ours and the look at the log.
_LOOKED_AT = 20
NO_MORE = 2**62
"""Transaction version beyond any micro-batch: a writer with that id writes nothing more."""


def transactions_of(
    table: Folder, ids: Sequence[str], version: int | None = None
) -> dict[str, int]:
    """Return the last transaction version that a Delta table records for some application ids.

    Args:
        table: The table's folder.
        ids: Application ids (Delta's ``txn.appId``).
        version: Version of the table; None for the newest.

    Returns:
        Transaction versions by application id; ids that have written nothing are missing.

    Raises:
        InputError: The table can't be read.
        UnavailableError: The table's store does not answer.
    """
    opened = open_table(table, version)
    versions = {each: opened.transaction_version(each) for each in ids}
    return {each: number for each, number in versions.items() if number is not None}


def version_of(table: Folder) -> int:
    """Return the number of a Delta table's newest version, read from its log.

    Raises:
        InputError: The table can't be read.
        UnavailableError: The table's store does not answer.
    """
    return int(open_table(table).version())


def paths_of(table: DeltaTable) -> list[str]:
    """Return the paths of a table's data files, as its log names them (URI-encoded); maybe none."""
    return [str(name) for name in pa.table(table.get_add_actions())["path"].to_pylist()]


def open_table(folder: Folder, version: int | None = None) -> DeltaTable:
    """Open a Delta table by delta-rs, to read its log or to commit; no file is read.

    Args:
        folder: The table's folder.
        version: Version of the table; None for the newest.

    Raises:
        InputError: There is no table, or it can't be read at that version.
        UnavailableError: The table's store does not answer.
    """
    try:
        return delta_table(folder, version)
    except (DeltaError, OSError) as error:
        at = "" if version is None else f" at version {version}"
        repair = (
            "If the folder is not the pipeline's table, correct `sink.path`. If it is, restore its "
            "folder `_delta_log` and the files that are missing. Without a backup, move its folder "
            "away and compute the table again: `hybrid generation new P`, `hybrid run P`, "
            "`hybrid generation promote P`."
        )
        what = f"The table {folder} can't be read{at}"
        raise unreadable_table(what, folder, error, repair) from None


def commit_once(
    commit: Callable[[CommitProperties], object],
    table: Folder,
    transaction: Transaction,
    user_metadata: str | None = None,
) -> None:
    """Commit with a transaction id by delta-rs, exactly once even if the answer is lost.

    delta-rs repeats a request without an answer. If a store had done the first one, delta-rs meets
    its own commit, and refuses to make it again because of the transaction id.

    Args:
        commit: Makes the commit, with the properties that it is given.
        table: The table's folder.
        transaction: Application id and version of the commit.
        user_metadata: What the commit says in ``userMetadata``; None for nothing.

    Raises:
        CommitFailedError: Another writer has committed this transaction, or has changed what the
            commit is about.
        UnavailableError: The table's store does not answer.
    """
    mark = uuid.uuid4().hex
    said = {_COMMIT: mark}
    if user_metadata is not None:
        said[USER_METADATA] = user_metadata
    try:
        commit(CommitProperties(app_transactions=[transaction], custom_metadata=said))
    except CommitFailedError:
        latest = delta_table(table).history(_LOOKED_AT)
        if not any(each.get(_COMMIT) == mark for each in latest):
            raise
    if table.is_local:
        # Hadoop's checksum of a pointer to the last checkpoint that Rust may just have replaced.
        table.delete("_delta_log/._last_checkpoint.crc")


def commit_nothing(table: DeltaTable, properties: CommitProperties) -> None:
    """Make an empty commit to a table, for the transaction in its properties.

    Raises:
        CommitFailedError: Another writer has committed this transaction.
    """
    commit_files(table, [], properties)


def commit_files(
    table: DeltaTable, actions: Sequence[AddAction | RemoveAction], properties: CommitProperties
) -> None:
    """Add files to a table, and remove others from it, in one commit; no file is written.

    Args:
        table: The table.
        actions: What the commit lists.
        properties: Transactions and further properties of the commit.

    Raises:
        CommitFailedError: Another writer's commit conflicts with it, or has this transaction.
    """
    table.create_write_transaction(
        list(actions),
        "append",
        table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=properties,
    )
