"""Commits in a Delta table's log: who made each, whether it changed rows, removed ones.

The format is Delta's own (https://github.com/delta-io/delta/blob/master/PROTOCOL.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sources.storage.folder import Folder
from sources.storage.tables.delta_log import commit_name

RESTORE = "RESTORE"
_OF_COLUMNS = {"DROP COLUMNS", "RENAME COLUMN", "REPLACE COLUMNS"}
REMOVED = "unknown, since Delta has removed the commit from the log"


@dataclass(frozen=True)
class Commit:
    """One commit of a Delta table.

    Attributes:
        version: Version of the table that it made.
        at_ms: When, in Unix milliseconds, by the writer's clock; 0 if the log does not say.
        operation: Delta's name of the change, such as ``DELETE``.
        restored_to: For a ``RESTORE``: the version whose rows the table got back; None otherwise,
            or if the command named a time.
        transactions: Transaction versions by application id that it sets.
        changes_rows: Whether it adds or removes rows, or columns of them; compaction does not.
        user_metadata: What its writer says of it; None if it says nothing.
    """

    version: int
    at_ms: int = 0
    operation: str = "unknown"
    restored_to: int | None = None
    transactions: dict[str, int] = field(default_factory=dict)
    changes_rows: bool = False
    user_metadata: str | None = None


class CommitLog:
    """Reader of a Delta table's commits.

    Args:
        table: Folder of the table.
    """

    def __init__(self, table: Folder) -> None:
        self._table = table

    def read(self, version: int) -> Commit | None:
        """Return one commit of the table's log.

        Args:
            version: Version of the table that the commit made.

        Returns:
            None if the log does not hold it: it was not made yet, or Delta has removed it.

        Raises:
            OSError: It is there and can't be read.
        """
        text = self._table.read_bytes(commit_name(version))
        return None if text is None else parse_commit(version, text)

    def holds(self, version: int) -> bool:
        """Return whether the log still contains the commit of a version, even an unreadable one."""
        return self._table.exists(commit_name(version))

    def between(self, after: int, last: int) -> list[Commit]:
        """Return the commits after a version, up to and including another one, in order.

        A commit that Delta has removed from the log (after ``delta.logRetentionDuration``) is
        returned as one that may have changed rows: that is unknown by then. Empty if the last is
        not after the first.

        Args:
            after: Version whose commit is not among them.
            last: Version of the last of them.

        Raises:
            OSError: A commit is there and can't be read.
        """
        return [
            self.read(number) or Commit(number, operation=REMOVED, changes_rows=True)
            for number in range(after + 1, last + 1)
        ]


def parse_commit(version: int, text: bytes) -> Commit:
    """Parse the content of a commit file of a Delta log.

    Args:
        version: Number of the commit.
        text: Content of the file: one JSON object, an action, in each line.

    Raises:
        ValueError: A line is no JSON.
    """
    info: dict[str, Any] = {}
    transactions: dict[str, int] = {}
    changes_rows = False
    for line in text.splitlines():
        # A commit can hold thousands of files; one that changes rows is enough.
        if changes_rows and line.startswith((b'{"add"', b'{"remove"')):
            continue
        action = json.loads(line) if line.strip() else {}
        if "commitInfo" in action:
            info = action["commitInfo"]
        if "txn" in action:
            transactions[action["txn"]["appId"]] = int(action["txn"]["version"])
        parts = (action.get("add"), action.get("remove"))
        changes_rows |= any(part is not None and part.get("dataChange", True) for part in parts)
    operation = str(info.get("operation", "unknown"))
    to = (info.get("operationParameters") or {}).get("version") if operation == RESTORE else None
    return Commit(
        version=version,
        at_ms=int(info.get("timestamp") or 0),
        operation=operation,
        restored_to=None if to is None else int(to),
        transactions=transactions,
        changes_rows=changes_rows or operation in _OF_COLUMNS,
        user_metadata=info.get("userMetadata"),
    )
