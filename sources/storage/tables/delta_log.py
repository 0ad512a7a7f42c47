"""The log of a Delta table: names of its files, and whether there is one.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import hashlib
import re

from sources.storage.folder import Folder

_ABSOLUTE = re.compile(r"/|[a-zA-Z][a-zA-Z0-9+.-]*:/")
LOG = "_delta_log"
"""Folder of the log, in the folder of the table."""


OWNER = "hybrid.generation"
"""Property of a table: the transaction id of the generation that writes to it."""


def commit_name(version: int) -> str:
    """Return the path, below a Delta table, of the file of a version's commit.

    ``_delta_log/`` and the version in 20 digits with ``.json``.
    """
    return f"{LOG}/{version:020d}.json"


def commit_digest(commit: bytes | None) -> str:
    """Return the SHA-256 of a commit's file, in hexadecimal; empty for None, a commit that is gone.

    It distinguishes a version from one of the same number of a table that was created again.
    """
    return "" if commit is None else hashlib.sha256(commit).hexdigest()


def has_log(table: Folder) -> bool:
    """Return whether a folder has a Delta log, even a damaged one; without, it is no table.

    Raises:
        UnavailableError: The table's store does not answer.
    """
    return not table.folder(LOG).is_empty()


def is_absolute(name: str) -> bool:
    """Return whether a path in a Delta log is absolute, or a URI, not relative to the folder."""
    return _ABSOLUTE.match(name) is not None
