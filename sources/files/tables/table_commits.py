"""Commits of a Delta table after a version: the files that each one appends.

A source that follows a table reads every row once, so only commits that append are followed. What
removes or rewrites rows, or is no longer in the log, is refused: the rows that were read before are
in the target already. Compaction leaves the rows as they are, and is skipped. So is what a rollback
has undone: it says which version it has brought back. Before a commit that says which range of
event times it has replaced, reading waits until that range has followed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from deltalake.exceptions import DeltaError, TableNotFoundError

from sources.errors import InputError
from sources.files.columns.mapped_columns import MappedColumns
from sources.files.tables.replaced_range import ReplacedRange, replaced_range
from sources.files.tables.table_position import TablePosition
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table, unreadable_table
from sources.storage.tables.delta_log import OWNER, commit_digest, commit_name

RESTORED = "hybridRestoredVersion"
"""Field of Delta's ``commitInfo`` with the earlier version whose rows the commit brings back."""
_FOLLOW = (
    "Let this pipeline's table follow: `hybrid follow P`, which recomputes that range and reads "
    "on. Where that is refused, compute the whole table again: `hybrid rerun P`."
)
_GONE = (
    "Restore the table, then run this pipeline again: `hybrid run P`. If it was created again, "
    "compute the whole table of this pipeline again: `hybrid rerun P`."
)
_WAY_OUT = (
    "Compute the whole table again in a new generation, which reads that table as it is now and "
    "follows it from there, while the present one serves: `hybrid rerun P`. Or step by step: "
    "`hybrid generation new P`, `hybrid run P`, `hybrid generation promote P`."
)


class Appended(NamedTuple):
    """What commits after a position append.

    Attributes:
        position: The version after the last of these commits.
        paths: The files, as the log has them: as URIs, relative if they are in the table's folder.
        commits: Number of commits that append files.
        replaced: Range that the commit after ``position`` has replaced, before which reading waits;
            None if there is no such commit.
        mapping: Names by which the plan reads columns inside the files; None if they are those of
            the table.
    """

    position: TablePosition
    paths: frozenset[str]
    commits: int
    replaced: ReplacedRange | None = None
    mapping: MappedColumns | None = None


class TableCommits:
    """Reader of a table's commits after a position.

    Args:
        source: Name of the source, for messages.
        table: Folder of the table.
    """

    def __init__(self, source: str, table: Folder) -> None:
        self._source = source
        self._table = table

    def position(self, table_id: str, version: int) -> TablePosition:
        """Return the position of a version that was just read from the table.

        Args:
            table_id: Id of the table in its log.
            version: The version, whose commit is read; it may be gone from the log.

        Raises:
            UnavailableError: The store does not answer.
        """
        commit = self._read(version)
        return TablePosition(
            place=self._table.url, table_id=table_id, version=version, commit=commit_digest(commit)
        )

    def appended_after(
        self, position: TablePosition, *, to_read: bool, until: int | None = None
    ) -> Appended:
        """Return what the commits after a position append; nothing if there is none.

        Commits that a rollback has undone are passed: reading goes on after the rollback.

        Args:
            position: The position.
            to_read: Whether the files are to be read from the table at the position returned. It
                then lies before a compaction of files that are among those returned: at a later
                version the rows are in other files, together with rows of older ones. It lies
                before a replaced range, too, which is refused otherwise; and if there are files,
                before a commit that removes or rewrites rows: the next look refuses that one.
            until: The last version that is looked at; None for the newest one.

        Raises:
            InputError: A commit removes or rewrites rows, or is no longer in the log; or the table
                is another one than that of the position, or gone.
            UnavailableError: The store does not answer.
        """
        self._require_same(position)
        paths: set[str] = set()
        commits = 0
        at = position
        resumed_at = -1
        for version, text in self._after(position.version, until):
            if version < resumed_at:
                continue
            found = _actions(text)
            if version == resumed_at:
                at = _moved(at, version, text)
                continue
            # Also one that only adds, where nothing was: its rows are of times that are long past.
            if to_read and found.replaced is not None and not found.metadata:
                return Appended(at, frozenset(paths), commits, found.replaced)
            rearranged = {str(each["path"]) for each in found.rearranged}
            if to_read and (paths & rearranged or (paths and found.removed)):
                break
            if found.removed and (brought_back := self._brought_back(version)) is not None:
                resumed_at = brought_back
                continue
            self._require_append(position, version, found)
            commits += bool(found.added)
            paths.update(str(each["path"]) for each in found.added)
            at = _moved(at, version, text)
        return Appended(at, frozenset(paths), commits)

    def _after(self, version: int, until: int | None) -> Iterator[tuple[int, bytes]]:
        """Yield the commits after a version, up to another one; None for all that there are."""
        version += 1
        while until is None or version <= until:
            if (text := self._read(version)) is None:
                return
            yield version, text
            version += 1

    def _brought_back(self, version: int) -> int | None:
        """Return the later commit that has brought back the rows before a version; None if none."""
        for later, text in self._after(version, None):
            if _actions(text).restored == version - 1:
                return later
        return None

    def _require_same(self, position: TablePosition) -> None:
        """Refuse a table whose log does not continue the position."""
        commit = self._read(position.version)
        if commit is not None:
            if position.commit and commit_digest(commit) != position.commit:
                self._refuse(
                    position,
                    f"has another commit {position.version} than the one that was read: it was "
                    "deleted and created again, or restored from a backup",
                )
            return
        try:
            newest = delta_table(self._table).version()
        except TableNotFoundError as error:
            self._refuse(position, f"is gone: {str(error).strip().removesuffix('.')}", _GONE)
        except (DeltaError, OSError) as error:
            what = f"Source `{self._source}`: the table {self._table.url} can't be read"
            raise unreadable_table(what, self._table, error, _WAY_OUT) from None
        if newest < position.version:
            self._refuse(
                position,
                f"ends at version {newest}: it was deleted and created again, or restored from a "
                "backup",
            )
        if newest > position.version and self._read(position.version + 1) is None:
            self._refuse(
                position,
                f"has version {newest} by now, and its log no longer has the commit of version "
                f"{position.version + 1} (`delta.logRetentionDuration`): what was appended since "
                "then is not known",
            )

    def _require_append(self, position: TablePosition, version: int, found: _Actions) -> None:
        for metadata in found.metadata:
            if metadata.get("id") != position.table_id:
                self._refuse(position, f"was created again by the commit of version {version}")
        if found.replaced is not None:
            what = f"a recomputed range, {found.replaced}"
            self._refuse(position, f"got version {version} by {what}", _FOLLOW)
        if found.removed:
            owners = [each.get("configuration", {}).get(OWNER) for each in found.metadata]
            what = (
                "the promotion or rollback of a generation, which replaces all rows"
                if any(owners)
                else f"a commit ({found.operation}) that removes or rewrites rows"
            )
            self._refuse(position, f"got version {version} by {what}")

    def _refuse(self, position: TablePosition, what: str, way_out: str = _WAY_OUT) -> NoReturn:
        message = (
            f"Source `{self._source}`: the table {position.place} {what}. Its rows were read up to "
            f"version {position.version}, and only what is appended can be followed; nothing after "
            "that version was read."
        )
        raise InputError(message, way_out, source=self._source, table=position.place)

    def _read(self, version: int) -> bytes | None:
        return self._table.read_bytes(commit_name(version))


class _Actions(NamedTuple):
    """Actions of one commit that decide how it is followed.

    Attributes:
        added: Files with new rows.
        removed: Files whose rows were removed or are written again in others.
        rearranged: Files that were removed although their rows are still in the table.
        metadata: Descriptions of the table that it replaces.
        operation: Delta's name of the change, with the condition of the rows that it replaces, if
            the commit says so.
        replaced: Range of event times that it has replaced, if the commit says so.
        restored: Earlier version whose rows it has brought back, if the commit says so.
    """

    added: Sequence[dict[str, Any]]
    removed: Sequence[dict[str, Any]]
    rearranged: Sequence[dict[str, Any]]
    metadata: Sequence[dict[str, Any]]
    operation: str
    replaced: ReplacedRange | None
    restored: int | None


def _actions(text: bytes) -> _Actions:
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    added, removed, metadata, info = (
        [line[name] for line in lines if line.get(name) is not None]
        for name in ("add", "remove", "metaData", "commitInfo")
    )
    said = info[0] if info else {}
    return _Actions(
        added=[each for each in added if each.get("dataChange", True)],
        removed=[each for each in removed if each.get("dataChange", True)],
        rearranged=[each for each in removed if not each.get("dataChange", True)],
        metadata=metadata,
        operation=_operation(said),
        replaced=replaced_range(said),
        restored=said.get(RESTORED),
    )


def _moved(position: TablePosition, version: int, commit: bytes) -> TablePosition:
    return position.model_copy(update={"version": version, "commit": commit_digest(commit)})


def _operation(info: dict[str, Any]) -> str:
    name = str(info.get("operation", "unknown"))
    condition = (info.get("operationParameters") or {}).get("predicate")
    return name if condition in (None, "", "[]") else f"{name} where {condition}"
