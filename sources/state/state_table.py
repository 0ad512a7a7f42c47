"""Tables in the state folder: Parquet files that a document of the state names."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from sources.errors import StateError
from sources.storage.folder import Folder


def write_state_table(folder: Folder, name: str, table: pa.Table) -> None:
    """Write a table as a Parquet file of the state folder, over an existing one if there is one.

    Args:
        folder: The state folder, or that of a generation.
        name: Path of the file, relative to the folder.
        table: The rows.

    Raises:
        StateError: The folder can't be written.
        UnavailableError: The state's store does not answer.
    """
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    folder.replace_bytes(name, out.getvalue().to_pybytes())


def read_state_table(folder: Folder, name: str) -> pa.Table:
    """Read a Parquet file of the state folder.

    Args:
        folder: The state folder, or that of a generation.
        name: Path of the file, relative to the folder.

    Raises:
        StateError: The file is missing, damaged or can't be read.
        UnavailableError: The state's store does not answer.
    """
    try:
        data = folder.read_bytes(name)
        if data is not None:
            return pq.read_table(pa.BufferReader(data))
        what = "is missing"
    except (OSError, pa.ArrowInvalid) as error:
        what = f"can't be read: {error}".rstrip(".")
    path = folder.location(name)
    message = f"State file {path} {what}."
    hint = (
        "Restore the file from a backup; or compute the table again, which plans again: "
        "`hybrid generation new P`."
    )
    raise StateError(message, hint, file=path)
