"""Take-over: all rows of a Delta table are replaced by another table's, or an older version's.

Nothing is rewritten: the next version of the log lists the files of the other table, with columns,
protocol features and deletion vectors, instead of the files before. Files of a table inside the
folder are listed where they lie; those of a table elsewhere are linked into the folder first.
Readers see the one version or the other. What Delta's RESTORE does within one table
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hybrid_extensions.generations.files.linked_files import link_files, missing_file
from hybrid_extensions.generations.files.table_protocol import CARRIED
from hybrid_extensions.generations.files.table_snapshot import (
    TableSnapshot,
    data_files,
    identity,
    read_snapshot,
    with_paths_below,
)
from sources.errors import InputError, StateError
from sources.files.tables.table_commits import RESTORED
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import commit_name, is_absolute
from spark_jobs.table.delta_table import USER_METADATA

_LAYOUT = "delta.columnMapping."
"""Prefix of the properties that say how files store the columns: they come with the files."""
_CONSTRAINT = "delta.constraints."
_CLUSTERING = "delta.clustering"


class OutdatedError(StateError):
    """Error of a take-over: another writer committed to the table since it was checked.

    Nothing was replaced; it may succeed if it is prepared again.
    """


@dataclass(frozen=True)
class TakeOver:
    """Take-over of a table: all its rows are replaced by another's; made by :func:`prepare`.

    Nothing is changed before :meth:`commit`.

    Attributes:
        table: The table whose rows are replaced, as it is now.
        other: The table with the rows; it may be the same table at an older version.
    """

    table: TableSnapshot
    other: TableSnapshot

    def commit(
        self,
        transactions: Mapping[str, int],
        properties: Mapping[str, str],
        user_metadata: str | None = None,
    ) -> None:
        """Link the other table's files, then replace rows, columns and properties in one commit.

        Args:
            transactions: Transaction versions by application id that the commit sets, by which
                writers recognize what they have written.
            properties: Table properties that the commit sets.
            user_metadata: What the commit says in ``userMetadata``; None for nothing.

        Raises:
            StateError: A file of the other table is missing. The table is unchanged then.
            OutdatedError: Another writer has committed to the table since this was prepared.
        """
        self._bring()
        actions = self._actions(transactions, properties)
        if user_metadata is not None:
            actions[0]["commitInfo"][USER_METADATA] = user_metadata
        lines = [json.dumps(each) for each in actions]
        target = self.table.folder
        name = commit_name(self.table.version + 1)
        # Refused if that version exists, so of two writers one wins, as Delta demands.
        with target.writing():
            data = "\n".join([*lines, ""]).encode()
            is_written = target.documents.put_if_absent(target.location(name), data)
        if is_written is None:
            message = (
                f"Another writer has committed to the table {target} in the meantime; its rows "
                "were not replaced."
            )
            hint = "End what writes to the table, then run `hybrid generation finish P`."
            raise OutdatedError(message, hint, transient=True, table=target.url)

    def undo(self) -> None:
        """Remove the other table's linked files again, unless the table as prepared lists them.

        Call it after :meth:`commit` has failed.

        Raises:
            StateError: A file can't be deleted.
            UnavailableError: The table's store does not answer.
        """
        if not self._is_elsewhere:
            return
        listed = {name for add in self.table.files for name in data_files(add)}
        for name in set(self._files()) - listed:
            self.table.folder.delete(name)
            # A copy that was interrupted.
            folder, _, last = name.rpartition("/")
            self.table.folder.delete(f"{folder}/.{last}.part".lstrip("/"))

    @property
    def _is_elsewhere(self) -> bool:
        """Whether the other table's files are not in the folder yet."""
        table, other = self.table.folder, self.other.folder
        return table.url != other.url and other.name_in(table) is None

    def _bring(self) -> None:
        if self._is_elsewhere:
            names = self._files()
            link_files(self.other.folder, self.table.folder, dict(zip(names, names, strict=True)))

    def _files(self) -> list[str]:
        """Names of the files of the other table, relative to its folder."""
        names = (name for add in self.other.files for name in data_files(add))
        return [name for name in dict.fromkeys(names) if not is_absolute(name)]

    def _actions(
        self, transactions: Mapping[str, int], properties: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        now_ms = int(time.time() * 1000)
        table, other = self.table, self.other
        info: dict[str, Any] = {
            "timestamp": now_ms,
            "operation": "WRITE",
            "operationParameters": {"mode": "Overwrite"},
        }
        if table.folder.url == other.folder.url:
            # Followers of the table read on after this commit.
            info[RESTORED] = other.version
        actions: list[dict[str, Any]] = [{"commitInfo": info}]
        if (joined := table.protocol.joined(other.protocol)) != table.protocol:
            actions.append({"protocol": joined.action()})
        kept = {k: v for k, v in table.configuration.items() if not k.startswith(_LAYOUT)}
        layout = {k: v for k, v in other.configuration.items() if k.startswith(_LAYOUT)}
        metadata = {
            **table.metadata,
            "schemaString": other.metadata["schemaString"],
            "configuration": {**kept, **layout, **properties},
        }
        if metadata != table.metadata:
            actions.append({"metaData": metadata})
        actions += [
            {"txn": {"appId": each, "version": number, "lastUpdated": now_ms}}
            for each, number in transactions.items()
        ]
        # A commit must not remove and add the same file, so what both versions have stays.
        inside = other.folder.name_in(table.folder)
        listed = (
            other.files
            if inside is None
            else [with_paths_below(inside, add) for add in other.files]
        )
        before = {identity(add): add for add in table.files}
        after = {identity(add): add for add in listed}
        actions += [_remove(before[each], now_ms) for each in before.keys() - after.keys()]
        actions += [
            {"add": {**after[each], "dataChange": True}} for each in after.keys() - before.keys()
        ]
        return actions


def prepare(target: Folder, source: Folder, version: int | None) -> TakeOver:
    """Check whether a table can take over the rows of another; return that, and change nothing.

    Args:
        target: The table's folder.
        source: Folder of the other table; it may be the same table, at an older version.
        version: Version of the other table; None for the newest.

    Returns:
        The replacement, which is yet to be committed.

    Raises:
        InputError: One of the tables can't be read, they are partitioned differently, or one of
            them has a feature of Delta, a constraint or a property that forbids it.
        StateError: A file of the other table is missing.
        UnavailableError: The table's store does not answer.
    """
    table, other = read_snapshot(target), read_snapshot(source, version)
    _require_partitions(table, other)
    _require_features(table)
    _require_features(other)
    _require_free(table, other)
    there = {each.path for each in source.documents.listing(source.url)}
    for name in (name for add in other.files for name in data_files(add)):
        path = name.removeprefix("file://") if is_absolute(name) else source.location(name)
        if path not in there and not source.documents.exists(path):
            raise missing_file(path)
    return TakeOver(table, other)


def _require_partitions(table: TableSnapshot, other: TableSnapshot) -> None:
    if other.partitions == table.partitions:
        return
    message = (
        f"The table {other.folder} is partitioned by {', '.join(other.partitions) or 'nothing'}, "
        f"but {table.folder}, whose rows it is to replace, by "
        f"{', '.join(table.partitions) or 'nothing'}. Readers' queries rely on the partitioning, "
        "so the rows were not replaced."
    )
    names = ", ".join(table.partitions)
    first = f"Declare `sink.partition_by: [{names}]`" if names else "Remove `sink.partition_by`"
    hint = (
        f"{first}, discard the generation "
        "that can't be promoted (`hybrid generation discard P`), and begin another one: "
        "`hybrid generation new P`. Or name another `sink.path` for a table with the new "
        "partitioning."
    )
    raise InputError(message, hint, table=table.folder.url, field="sink.partition_by")


def _require_features(table: TableSnapshot) -> None:
    """Refuse a table with features whose meaning lies in more than its files and columns."""
    if not (unknown := sorted(table.protocol.features - CARRIED)):
        return
    names = ", ".join(f"`{each}`" for each in unknown)
    message = (
        f"The table {table.folder} has, at version {table.version}, the Delta features {names}, "
        "which can't be carried from one table or version to another. Nothing was replaced."
    )
    hint = (
        f"Remove each from the table with Spark (ALTER TABLE delta.`{table.folder}` DROP FEATURE "
        f"{unknown[0]}), then try again. If an older version of the table has them, compute its "
        "rows again in a new generation: `hybrid generation new P`."
    )
    raise InputError(message, hint, table=table.folder.url)


def _require_free(table: TableSnapshot, other: TableSnapshot) -> None:
    """Refuse a table that forbids the removal of rows, or whose constraints were never checked."""
    of, path = table.configuration, table.folder
    if of.get("delta.appendOnly", "false").lower() == "true":
        message = (
            f"The table {path} has the property `delta.appendOnly`, so its rows must not be "
            "replaced. Nothing was."
        )
        hint = (
            f"Set it to false with Spark (ALTER TABLE delta.`{path}` SET TBLPROPERTIES "
            "('delta.appendOnly' = 'false')), then try again."
        )
        raise InputError(message, hint, table=path.url)
    for each in (table, other):
        columns = json.loads(each.domains.get(_CLUSTERING, "{}")).get("clusteringColumns")
        if columns:
            message = (
                f"The table {each.folder} is clustered at version {each.version}. Clustering can't "
                "be carried from one table or version to another; nothing was replaced."
            )
            hint = (
                f"Remove it with Spark (ALTER TABLE delta.`{each.folder}` CLUSTER BY NONE), then "
                "try again. If an older version of the table is clustered, compute its rows again "
                "in a new generation: `hybrid generation new P`."
            )
            raise InputError(message, hint, table=each.folder.url)
    for name, expression in of.items():
        if name.startswith(_CONSTRAINT) and other.configuration.get(name) != expression:
            short = name.removeprefix(_CONSTRAINT)
            message = (
                f"The table {path} has the constraint `{short}` ({expression}), which the rows "
                "that are to replace its own were never checked against. Nothing was replaced."
            )
            hint = (
                f"Drop it with Spark (ALTER TABLE delta.`{path}` DROP CONSTRAINT {short}), try "
                "again, then add it again: Spark then checks all rows."
            )
            raise InputError(message, hint, table=path.url)


def _remove(add: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Return the action that removes a file."""
    same = {
        name: add[name]
        for name in ("path", "partitionValues", "size", "deletionVector")
        if name in add
    }
    removed = {"deletionTimestamp": now_ms, "dataChange": True, "extendedFileMetadata": True}
    return {"remove": {**same, **removed}}
