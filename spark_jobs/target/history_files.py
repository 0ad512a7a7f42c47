"""Which files of the target hold history: those that are there before the first live batch.

Later, rows of history can be told from live ones by the file that they are in.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from sources.common.state import Generation
from sources.errors import StateError
from spark_jobs.target.adopt_table import paths_of

_NAME = "history-files.parquet"
_COLUMN = "path"


def keep_history_files(generation: Generation, table: str) -> None:
    """Write down the target's files, once; called before the live run writes any.

    Args:
        generation: Whose history was read to its end.
        table: Folder of the table that holds it.
    """
    path = generation.path(_NAME)
    if path.exists():
        return
    part = path.with_name(f".{_NAME}.part")
    with generation.writing(part):
        pq.write_table(pa.table({_COLUMN: pa.array(paths_of(table), pa.string())}), part)
        part.replace(path)


def read_history_files(generation: Generation) -> set[str]:
    """The paths of the files, as the table's log has them.

    Raises:
        StateError: They were not written down.
    """
    path = generation.path(_NAME)
    if not path.exists():
        message = f"Generation {generation.name} did not write down which files hold its history."
        raise StateError(message, "Begin a new generation: `hybrid generation new`.")
    return set(pq.read_table(path)[_COLUMN].to_pylist())
