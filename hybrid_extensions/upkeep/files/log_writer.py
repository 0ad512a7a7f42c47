"""Writer of commits to Delta's log that replace files of a table by others with the same rows.

As Delta's OPTIMIZE, such a commit says of each file that no data changes (``dataChange: false``),
so streams that read the table pass over it. Another writer's commit in between does no harm unless
it is about the same files: then nothing is exchanged
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file).
"""

from __future__ import annotations

import json
import time
from typing import Any

from hybrid_extensions.generations.files.table_snapshot import TableSnapshot
from sources.storage.tables.delta_log import commit_name

_OPERATION = "OPTIMIZE"


class OtherTableError(Exception):
    """Error: another writer has changed the table's columns or protocol, or compacts it.

    Changed properties raise it, too.
    """


class LogWriter:
    """Writer of commits that replace files of a table by others with the same rows.

    It follows the commits of other writers from the version at which the table was read.

    Args:
        table: The table as it was read.
    """

    def __init__(self, table: TableSnapshot) -> None:
        self._folder = table.folder
        self._read = self._version = table.version
        self._removed: set[str] = set()
        self._transactions: dict[str, int] = {}

    def exchange(
        self,
        old: list[dict[str, Any]],
        new: list[dict[str, Any]],
        transaction: tuple[str, int],
    ) -> bool:
        """Replace files in one commit, retrying while others commit.

        Args:
            old: ``add`` actions of the files that are removed.
            new: ``add`` actions of the files with the same rows, with ``dataChange: false``.
            transaction: Delta application id and version of the commit.

        Returns:
            Whether they were replaced; False, with nothing changed, if another writer has removed
            or rewritten one of the files (:meth:`has_changed`).

        Raises:
            OtherTableError: Another writer has changed the table itself, or compacts it.
            StateError: The log can't be written.
            UnavailableError: The store does not answer.
        """
        data = self._lines(old, new, transaction)
        while not self.has_changed(old):
            if self._transactions.get(transaction[0], -1) >= transaction[1]:
                raise OtherTableError
            place = self._folder.location(commit_name(self._version + 1))
            with self._folder.writing():
                is_written = self._folder.documents.put_if_absent(place, data)
            self._version += 1
            if is_written is not None:
                self._removed.update(each["path"] for each in old)
                return True
            self._see(self._folder.read_bytes(commit_name(self._version)) or b"")
        return False

    def has_changed(self, files: list[dict[str, Any]]) -> bool:
        """Return whether another writer's commit has removed or rewritten one of some files.

        Only commits that :meth:`exchange` has met are known; the log is not read here.

        Args:
            files: Their ``add`` actions.
        """
        return any(each["path"] in self._removed for each in files)

    def _see(self, commit: bytes) -> None:
        """Note what another writer's commit is about."""
        for line in commit.splitlines():
            action = json.loads(line) if line.strip() else {}
            if "metaData" in action or "protocol" in action:
                raise OtherTableError
            # A file with a new deletion vector is removed, and added again.
            for kind in ("remove", "add"):
                if kind in action:
                    self._removed.add(action[kind]["path"])
            if "txn" in action:
                self._transactions[action["txn"]["appId"]] = int(action["txn"]["version"])

    def _lines(
        self, old: list[dict[str, Any]], new: list[dict[str, Any]], transaction: tuple[str, int]
    ) -> bytes:
        now_ms = int(time.time() * 1000)
        info = {
            "timestamp": now_ms,
            "operation": _OPERATION,
            "operationParameters": {"predicate": "[]"},
            "readVersion": self._read,
            "isolationLevel": "SnapshotIsolation",
            "isBlindAppend": False,
            "operationMetrics": {
                "numRemovedFiles": str(len(old)),
                "numAddedFiles": str(len(new)),
                "numRemovedBytes": str(sum(each["size"] for each in old)),
                "numAddedBytes": str(sum(each["size"] for each in new)),
            },
        }
        app_id, number = transaction
        actions: list[dict[str, Any]] = [
            {"commitInfo": info},
            {"txn": {"appId": app_id, "version": number, "lastUpdated": now_ms}},
            *({"remove": _removed(each, now_ms)} for each in old),
            *({"add": each} for each in new),
        ]
        return "".join(f"{json.dumps(each)}\n" for each in actions).encode()


def _removed(add: dict[str, Any], now_ms: int) -> dict[str, Any]:
    return {
        "path": add["path"],
        "deletionTimestamp": now_ms,
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": add["partitionValues"],
        "size": add["size"],
    }
