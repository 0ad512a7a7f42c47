"""Delta tables in any store, opened by Delta's Rust library with the store's address."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from deltalake import DeltaTable

from sources.storage.folder import Folder

T = TypeVar("T")
_ATTEMPTS = 5
_PAUSE_S = 0.2


def delta_table(folder: Folder, version: int | None = None) -> DeltaTable:
    """Open a Delta table.

    Args:
        folder: The table's folder.
        version: Number of the version; None for the newest.

    Raises:
        TableNotFoundError: There is no Delta table.
        DeltaError: It can't be read.
        OSError: It can't be read.
    """
    options = folder.documents.delta_options
    return _repeated(
        folder, lambda: DeltaTable(folder.url, version=version, storage_options=options)
    )


def is_delta_table(folder: Folder) -> bool:
    """Return whether a folder is a Delta table; False also where it can't be read."""
    options = folder.documents.delta_options
    return bool(_repeated(folder, lambda: DeltaTable.is_deltatable(folder.url, options)))


def _repeated(folder: Folder, read: Callable[[], T]) -> T:
    """Read from a store up to five times: the library does not repeat an answer that was cut off.

    Raises:
        OSError: The last attempt failed, too; or the first one, on this machine.
    """
    for attempt in range(1, 1 if folder.is_local else _ATTEMPTS):
        try:
            return read()
        except OSError:
            time.sleep(_PAUSE_S * attempt)
    return read()
