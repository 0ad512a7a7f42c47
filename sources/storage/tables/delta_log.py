"""Names in the log of a Delta table (https://github.com/delta-io/delta/blob/master/PROTOCOL.md)."""

from __future__ import annotations

from sources.storage.folder import Folder

LOG = "_delta_log"
"""Folder of the log, in the folder of the table."""


def commit_name(version: int) -> str:
    """Return the path, below a Delta table, of the file of a version's commit.

    ``_delta_log/`` and the version in 20 digits with ``.json``.
    """
    return f"{LOG}/{version:020d}.json"


def has_log(table: Folder) -> bool:
    """Return whether a folder has a Delta log, even a damaged one; without, it is no table.

    Raises:
        UnavailableError: The table's store does not answer.
    """
    return not table.folder(LOG).is_empty()
