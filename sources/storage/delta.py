"""Delta tables in any store, opened by Delta's Rust library with the store's address."""

from __future__ import annotations

from deltalake import DeltaTable

from sources.storage.folder import Folder


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
    return DeltaTable(folder.url, version=version, storage_options=options)


def is_delta_table(folder: Folder) -> bool:
    """Return whether a folder is a Delta table; False also where it can't be read."""
    return bool(DeltaTable.is_deltatable(folder.url, folder.documents.delta_options))
