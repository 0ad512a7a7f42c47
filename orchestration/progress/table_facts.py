"""What the log of a pipeline's target table says of it: version, rows, size, columns."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from deltalake.exceptions import DeltaError

from sources.common.schema import names_and_types
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.serving import read_serving, target_of
from sources.storage.delta import delta_table, is_delta_table

_DELETED = "deletion_vector.cardinality"


class TableFacts(NamedTuple):
    """What is known of a Delta table without reading its rows.

    Attributes:
        url: Its path or URL.
        version: Number of its newest version.
        committed_ms: When that version was committed, in ms since 1970.
        rows: Number of rows; None if a file's statistics are missing.
        bytes: Size of the files that hold them.
        files: How many files these are.
        columns: Spark SQL types of the columns, by name.
    """

    url: str
    version: int
    committed_ms: int
    rows: int | None
    bytes: int
    files: int
    columns: dict[str, str]


def table_facts(loaded: LoadedPipeline) -> TableFacts | None:
    """Return what the target's log says of the table that readers see; None if there is none yet.

    Raises:
        InputError: The table can't be read.
    """
    folder = target_of(loaded, read_serving(loaded).generation)
    try:
        if not is_delta_table(folder):
            return None
        table = delta_table(folder)
        files = pa.table(table.get_add_actions(flatten=True))
        [last] = table.history(1)
        columns = names_and_types(pa.schema(table.schema().to_arrow()))
    except (DeltaError, OSError) as error:
        message = f"The table {folder.url} can't be read: {error}"
        hint = "Restore its files and its `_delta_log` from a backup; then look again."
        raise InputError(message, hint, table=folder.url) from None
    counts = files["num_records"].to_pylist()
    deleted = files[_DELETED].to_pylist() if _DELETED in files.column_names else []
    return TableFacts(
        url=folder.url,
        version=int(table.version()),
        committed_ms=int(last["timestamp"]),
        rows=None if None in counts else sum(counts) - sum(each or 0 for each in deleted),
        bytes=sum(files["size_bytes"].to_pylist()),
        files=files.num_rows,
        columns=columns,
    )
