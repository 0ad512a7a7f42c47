"""Compaction of a Delta table: many small files become few larger ones, without a changed row.

Files of history and files of live rows are never mixed, so that ranges of history can still be
replaced. Killed at any time it leaves at most files that no commit lists, which VACUUM deletes.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from hybrid_extensions.generations.files.linked_files import missing_file
from hybrid_extensions.generations.files.table_protocol import CARRIED
from hybrid_extensions.generations.files.table_snapshot import TableSnapshot, read_snapshot
from hybrid_extensions.upkeep.files.log_writer import LogWriter, OtherTableError
from hybrid_extensions.upkeep.files.merged_files import MergedFile, ParquetPart
from hybrid_extensions.upkeep.files.small_files import SmallFiles, commits, small_files
from hybrid_extensions.upkeep.files.statistics import merge_statistics
from sources.common.counting import counted
from sources.errors import InputError, StateError
from sources.serving import GENERATIONS
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.table.delta_table import open_table
from spark_jobs.table.history_files import (
    CompactedFiles,
    HistoryFiles,
    compaction_id,
    keep_compacted,
)

_READS = 16
_PASSES = 10


@dataclass
class Compacted:
    """Result of a compaction, or of its dry run.

    Attributes:
        commits: Number of commits; 0 if nothing was to be compacted.
        history_files, live_files: Number of files of history, and of live rows, that were replaced.
        new_files: Number of files that have their rows now; in a dry run the lowest number
            possible.
        bytes: Total size of the replaced files.
    """

    commits: int = 0
    history_files: int = 0
    live_files: int = 0
    new_files: int = 0
    bytes: int = 0

    def add(self, made: Sequence[CompactedFile], *, is_history: bool) -> None:
        """Count one commit that replaces files of history, or of live rows, by others.

        Args:
            made: The new files, each with those that it replaces.
            is_history: Whether they hold history.
        """
        self.commits += 1
        self.new_files += len(made)
        for each in made:
            self.history_files += len(each.old) if is_history else 0
            self.live_files += 0 if is_history else len(each.old)
            self.bytes += sum(add["size"] for add in each.old)


class CompactedFile(NamedTuple):
    """New file of a compaction.

    Attributes:
        add: Its ``add`` action in Delta's log.
        old: The ``add`` actions of the files that it replaces.
    """

    add: dict[str, Any]
    old: list[dict[str, Any]]


@dataclass
class _Open:
    """A new file that is being made, and the files whose rows it has already."""

    file: MergedFile
    old: list[dict[str, Any]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Compaction:
    """Compaction of the table of a generation.

    Only one process may compact a table at a time; the caller has to hold a lock.

    Attributes:
        generation: The generation; its state records which files of history were compacted.
        table: Folder of its table.
        history: Returns which files of the table hold history; called before each pass.
        turn: Returns a context, entered around each commit, that keeps merges out.
    """

    generation: Generation
    table: Folder
    history: Callable[[], HistoryFiles]
    turn: Callable[[], AbstractContextManager[object]]

    def look(self) -> Compacted:
        """Return what would be compacted, by the sizes of the files; nothing is written.

        Raises:
            InputError: The table can't be read, or uses a Delta feature with which its files can't
                be compacted here.
            StateError: Which files hold history is not known.
            UnavailableError: The store does not answer, or its login has expired.
        """
        found = Compacted()
        for groups in commits(self._groups(self._snapshot())):
            made = [CompactedFile({}, group.adds) for group in groups]
            found.add(made, is_history=groups[0].is_history)
        return found

    def run(self, say: Callable[[str], None]) -> Compacted:
        """Compact until no small files are left.

        Args:
            say: Called with a line of text after each commit.

        Returns:
            Numbers of what was done. Files that another writer changed meanwhile stay as they are.

        Raises:
            InputError: The table can't be read, or uses a Delta feature with which its files can't
                be compacted here.
            StateError: A file is missing, or another writer has changed columns or properties of
                the table. Commits before are complete, and the table has the same rows.
            UnavailableError: The store does not answer.
        """
        done = Compacted()
        for _ in range(_PASSES):
            if not self._pass(done, say):
                break
        return done

    def _snapshot(self) -> TableSnapshot:
        table = read_snapshot(self.table)
        if unknown := sorted(table.protocol.features - CARRIED):
            names = ", ".join(f"`{each}`" for each in unknown)
            message = (
                f"The files of table {self.table} can't be compacted here, as it has Delta "
                f"features that this project does not know: {names}. Nothing was changed."
            )
            hint = (
                f"Compact it with Spark (OPTIMIZE delta.`{self.table}`) while the stream is "
                "paused; ranges of history can't be recomputed after that."
            )
            raise InputError(message, hint, table=self.table.url)
        return table

    def _groups(self, table: TableSnapshot) -> list[SmallFiles]:
        return small_files(table, self.history().of([each["path"] for each in table.files]))

    def _pass(self, done: Compacted, say: Callable[[str], None]) -> bool:
        """Compact what is small now; return whether anything was."""
        table = self._snapshot()
        log = LogWriter(table)
        number = open_table(self.table).transaction_version(compaction_id(self.generation)) or 0
        is_changed = False
        for groups in commits(self._groups(table)):
            made = [each for group in groups for each in self._write(table, group)]
            if not made:
                continue
            try:
                kept = self._commit(log, number + 1, made, is_history=groups[0].is_history)
            except OtherTableError:
                self._discard(made)
                raise self._changed() from None
            self._discard(each for each in made if each not in kept)
            if not kept:
                continue
            number += 1
            is_changed = True
            done.add(kept, is_history=groups[0].is_history)
            kind = "history" if groups[0].is_history else "live rows"
            old = sum(len(each.old) for each in kept)
            say(f"{counted(old, 'file')} of {kind} became {len(kept):,}.")
        return is_changed

    def _commit(
        self, log: LogWriter, number: int, made: list[CompactedFile], *, is_history: bool
    ) -> list[CompactedFile]:
        """Commit new files; return those whose old files no other writer has changed meanwhile."""
        while made:
            old = [add for each in made for add in each.old]
            new = [each.add for each in made]
            files = CompactedFiles(
                removed=[each["path"] for each in old], added=[each["path"] for each in new]
            )
            # Before the commit, which makes it count by its number.
            keep_compacted(self.generation, number, files if is_history else None)
            with self.turn():
                if log.exchange(old, new, (compaction_id(self.generation), number)):
                    return made
            made = [each for each in made if not log.has_changed(each.old)]
        return []

    def _write(self, table: TableSnapshot, group: SmallFiles) -> Iterator[CompactedFile]:
        """Write the rows of a group into one new file for each layout of its files."""
        opened: dict[bytes, _Open] = {}
        for add, part in self._read(group.adds):
            found = opened.setdefault(part.layout, _Open(MergedFile(part)))
            found.file.add(part)
            found.old.append(add)
            found.rows.append(part.count)
        for each in opened.values():
            data = each.file.close()
            if len(each.old) > 1:
                yield self._put(table, each, data)

    def _read(self, adds: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], ParquetPart]]:
        def content(add: dict[str, Any]) -> bytes:
            place = self.table.location(unquote(add["path"]))
            found = self.table.documents.read(place)
            if found is None:
                raise missing_file(place)
            return found.data

        # A store answers each request after a while, and many at once.
        with ThreadPoolExecutor(_READS) as pool:
            for start in range(0, len(adds), _READS):
                some = adds[start : start + _READS]
                for add, data in zip(some, pool.map(content, some), strict=True):
                    try:
                        yield add, ParquetPart(data)
                    except pa.ArrowInvalid as error:
                        raise self._unreadable(add["path"], error) from None

    def _put(self, table: TableSnapshot, made: _Open, data: bytes) -> CompactedFile:
        first = made.old[0]
        # Promoted generations in a store without links have files in a folder that VACUUM passes.
        parts = first["path"].split("/")[:-1]
        folder = "/".join(parts[2:] if parts[:1] == [GENERATIONS] else parts)
        path = f"{folder}/compacted-{uuid.uuid4()}.parquet".lstrip("/")
        with self.table.writing():
            self.table.documents.put(self.table.location(unquote(path)), data)
        statistics = [each.get("stats") for each in made.old]
        schema = json.loads(table.metadata["schemaString"])
        add = {
            "path": path,
            "partitionValues": first["partitionValues"],
            "size": len(data),
            "modificationTime": int(time.time() * 1000),
            "dataChange": False,
            "stats": merge_statistics(statistics, made.rows, schema),
        }
        return CompactedFile(add, made.old)

    def _discard(self, made: Iterable[CompactedFile]) -> None:
        """Delete files that no commit lists."""
        for each in made:
            self.table.delete(unquote(each.add["path"]))

    def _changed(self) -> StateError:
        message = (
            f"Another writer has changed columns, properties or the protocol of {self.table} "
            "during the compaction, which has ended early."
        )
        hint = "Compact the rest: `hybrid compact P`."
        return StateError(message, hint, transient=True, table=self.table.url)

    def _unreadable(self, path: str, error: Exception) -> StateError:
        message = f"File {path} of the table {self.table} can't be read: {error}".rstrip(".")
        hint = "Restore the file from a backup, then try again: `hybrid compact P`."
        return StateError(f"{message}.", hint, file=path)
