"""The files of the target that hold history: those that exist before the first live micro-batch.

Later, rows of history are told from live ones by the file that they are in.
"""

from __future__ import annotations

import pyarrow as pa

from sources.errors import StateError
from sources.state.generation import Generation
from sources.state.state_table import read_state_table, write_state_table
from sources.storage.folder import Folder
from spark_jobs.target.delta_table import open_table, paths_of

_NAME = "history-files.parquet"
_COLUMN = "path"


def keep_history_files(generation: Generation, table: Folder, target: Folder) -> None:
    """Record the files of a generation's table as those of history, once, in the state folder.

    Call it before the first live micro-batch; later calls do nothing.

    Args:
        generation: State of the generation whose history was read to its end.
        table: Folder of the table that it writes to now.
        target: Folder of the target, whose log will name the files if the generation serves.

    Raises:
        InputError: The table can't be read.
    """
    if not generation.exists(_NAME):
        inside = table.name_in(target)
        names = paths_of(open_table(table))
        paths = names if inside is None else [f"{inside}/{name}" for name in names]
        table_of_paths = pa.table({_COLUMN: pa.array(paths, pa.string())})
        write_state_table(generation, _NAME, table_of_paths)


def read_history_files(generation: Generation) -> set[str]:
    """Return the paths of the target's files that hold history, as the Delta log names them.

    Raises:
        StateError: They were not recorded, since the live stream was never started; or the record
            can't be read.
    """
    if not generation.exists(_NAME):
        path = generation.location(_NAME)
        message = (
            f"Generation {generation.name} has no record ({path}) of which files of its table hold "
            "history, so a range of them can't be replaced. The record is written when the live "
            "stream starts for the first time."
        )
        hint = (
            "If the live stream has not started yet, start it: `hybrid run P`. Else recompute the "
            "whole table, which writes the record: `hybrid rerun P`."
        )
        raise StateError(message, hint, generation=generation.name, file=path)
    return set(read_state_table(generation, _NAME)[_COLUMN].to_pylist())
