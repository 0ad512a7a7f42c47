"""Table of the deletes of a target that removes rows: keys, with the sequence of their delete."""

from __future__ import annotations

import pyarrow as pa
from deltalake import write_deltalake

from sources.storage.folder import Folder

DELETES = "deletes"
"""Folder of the Delta table, relative to that of the generation's state."""


def append_deletes(folder: Folder, rows: pa.Table) -> None:
    """Append deletes to the Delta table that keeps them, which is created if it does not exist.

    Repeated, it appends them again, which does no harm: the latest delete of a key counts.

    Args:
        folder: Folder of the table.
        rows: The deletes, with the columns of key and sequence.

    Raises:
        DeltaError, OSError: The table can't be written.
        StateError: The state's folder can't be written.
        UnavailableError: The state's store does not answer, or the login to it has expired.
    """
    write_deltalake(folder.url, rows, mode="append", storage_options=folder.documents.delta_options)
    # Spark's checksum of a Delta checkpoint that Rust may just have replaced.
    folder.delete("_delta_log/._last_checkpoint.crc")
