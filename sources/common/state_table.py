"""Tables in the state folder: Parquet files that a document of the state names."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from sources.common.state import Folder
from sources.errors import StateError


def read_state_table(folder: Folder, name: str) -> pa.Table:
    """Read a Parquet file of the state folder.

    Args:
        folder: The state folder, or that of a generation.
        name: Path of the file, relative to the folder.

    Raises:
        StateError: The file is missing, damaged or can't be read.
    """
    path = folder.path(name)
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        what = "is missing" if isinstance(error, FileNotFoundError) else f"can't be read: {error}"
        message = f"State file {path} {what.rstrip('.')}. Nothing was started."
        hint = (
            "Restore the file from a backup; or compute the table again, which plans again: "
            "`hybrid generation new P`."
        )
        raise StateError(message, hint, file=str(path)) from error
