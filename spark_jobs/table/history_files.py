"""Files of the target with history: recorded before the first live micro-batch; compactions.

Later, rows of history are distinguished from live ones by the file that they are in. Compactions
exchange such files for others, each in one commit with a number: which ones is recorded before the
commit, and counts once the table has a commit of that number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from sources.common.state_document import Record
from sources.errors import StateError
from sources.state.generation import Generation
from sources.state.state_table import read_state_table, write_state_table
from sources.storage.folder import Folder
from spark_jobs.table.delta_table import open_table, paths_of

_NAME = "history-files.parquet"
_COLUMN = "path"
RANGE_FILE = "range-"
"""Beginning of the names of files that the replacement of a range has written: all hold history."""
_COMPACTIONS = "compactions"
_LARGEST = 10**8


class CompactedFiles(Record):
    """Files of history that one compaction replaces, and those that it puts in their place.

    Attributes:
        removed: Paths of the files that it removes from the table, as the Delta log names them.
        added: Paths of the files with the same rows.
    """

    removed: list[str]
    added: list[str]


@dataclass(frozen=True)
class HistoryFiles:
    """Files of a target that hold rows of history, which distinguish these from live rows.

    Attributes:
        paths: Paths of files that hold, or held, rows of history, as the Delta log names them.
        gone: Those of them that the pipeline itself has removed from the table.
    """

    paths: set[str]
    gone: set[str]

    def of(self, paths: Iterable[str]) -> set[str]:
        """Return those of some paths that hold history, files of replaced ranges included.

        Args:
            paths: Paths as the Delta log names them.
        """
        return {
            path for path in paths if path in self.paths or Path(path).name.startswith(RANGE_FILE)
        }


NO_HISTORY = HistoryFiles(set(), set())
"""That of a table whose rows all come from a live stream, or are not told apart."""


def keep_history_files(generation: Generation, table: Folder, target: Folder) -> None:
    """Record the present files of a generation's table as files of history, once.

    Call it before the first live micro-batch; later calls do nothing.

    Args:
        generation: State of the generation whose history was read to its end.
        table: Folder of the table that it writes to now.
        target: Folder of the target, whose log will name the files if the generation serves.

    Raises:
        InputError: The table can't be read.
        StateError: The state can't be written.
        UnavailableError: The store of the table or of the state does not answer.
    """
    if not generation.exists(_NAME):
        inside = table.name_in(target)
        names = paths_of(open_table(table))
        paths = names if inside is None else [f"{inside}/{name}" for name in names]
        record_history_files(generation, paths)


def record_history_files(generation: Generation, paths: Sequence[str]) -> None:
    """Record files as files of history, in place of those that were recorded before.

    Args:
        generation: State of the generation.
        paths: Their paths, as the log of the target names them or will name them.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    write_state_table(generation, _NAME, pa.table({_COLUMN: pa.array(paths, pa.string())}))


def has_history_files(generation: Generation) -> bool:
    """Return whether files of history are recorded: a live stream after history was started.

    Raises:
        UnavailableError: The state's store does not answer.
    """
    return generation.exists(_NAME)


def read_history_files(generation: Generation, table: DeltaTable) -> HistoryFiles:
    """Return the target's files of history, with those that compactions have written or removed.

    Args:
        generation: State of the generation.
        table: The table that it writes to now.

    Raises:
        StateError: They were not recorded, since the live stream was never started, or no source
            comes before it; or a record can't be read.
        UnavailableError: The state's store does not answer.
    """
    if not generation.exists(_NAME):
        path = generation.location(_NAME)
        message = (
            f"Generation {generation.name} has no record ({path}) of which files of its table hold "
            "history, so a range of them can't be replaced. The record is written when the live "
            "stream starts for the first time. Nothing was replaced."
        )
        hint = (
            "If the live stream has not started yet, start it (`hybrid run P`), then repeat the "
            "command. Else recompute the whole table, which has the range, too: `hybrid rerun P`."
        )
        raise StateError(message, hint, generation=generation.name, file=path)
    paths = set(read_state_table(generation, _NAME)[_COLUMN].to_pylist())
    gone: set[str] = set()
    last = table.transaction_version(compaction_id(generation)) or 0
    for name in generation.names(f"{_COMPACTIONS}/*.json"):
        number = int(Path(name).stem) - _LARGEST
        # A process that was killed may have left the record of a commit that it never made.
        files = generation.read(name, CompactedFiles) if number <= last else None
        if files is not None:
            paths.update(files.added)
            gone.update(files.removed)
    return HistoryFiles(paths, gone)


def compaction_id(generation: Generation) -> str:
    """Return Delta's application id under which a generation's compactions are numbered."""
    return f"{generation.info.transaction_id}-compaction"


def keep_compacted(generation: Generation, number: int, files: CompactedFiles | None) -> None:
    """Record the files of history that a numbered compaction replaces; call it before its commit.

    The record counts once the table has a commit of that number, so an interrupted compaction
    leaves nothing behind.

    Args:
        generation: State of the generation.
        number: Transaction version of its commit, from 1.
        files: The files; None if it exchanges files of live rows only.

    Raises:
        StateError: The state folder can't be written.
        UnavailableError: The state's store does not answer.
    """
    name = f"{_COMPACTIONS}/{_LARGEST + number}.json"
    if files is None:
        # One may have been left by a process that was killed before its commit.
        generation.delete(name)
    else:
        generation.replace(name, files)
