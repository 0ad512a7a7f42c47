"""Files of an Iceberg table: locations (``s3a:``, ``file:``) as paths; opened by the storages."""

from __future__ import annotations

from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from sources.storage.stores import Stores


def path_of(location: str) -> str:
    """Convert a location in Iceberg's metadata to a path of the project's storages.

    Args:
        location: A URI, such as ``file:/data/x``, ``s3a://bucket/key``, or an absolute path.

    Returns:
        ``/data/x`` and ``s3://bucket/key`` for these; ``s3n:`` as ``s3a:``; any other URI
        unchanged.
    """
    scheme, has_scheme, rest = location.partition(":")
    if not has_scheme or scheme == "file":
        return "/" + (rest or location).lstrip("/")
    return f"s3:{rest}" if scheme in ("s3a", "s3n") else location


class StoredFiles(FileIO):
    """Read-only file access for PyIceberg, by the pipeline's storages; see PyIceberg's ``FileIO``.

    Args:
        stores: Storages of the pipeline.
    """

    def __init__(self, stores: Stores) -> None:
        super().__init__()
        self._stores = stores

    def new_input(self, location: str) -> InputFile:
        """Return a file for reading, which need not exist; called by PyIceberg.

        Args:
            location: Location in Iceberg's metadata, such as ``s3a://bucket/key``.

        Raises:
            InputError: No extension reads such a location, or a library for it is missing.
        """
        return _StoredFile(location, self._stores)

    def new_output(self, location: str) -> OutputFile:
        """Refuse to write a file: tables are only read.

        PyIceberg's interface asks for the method.

        Raises:
            NotImplementedError: Always, with the location.
        """
        raise NotImplementedError(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse to delete a file: tables are only read.

        PyIceberg's interface asks for the method.

        Raises:
            NotImplementedError: Always, with the location.
        """
        raise NotImplementedError(str(location))


class _StoredFile(InputFile):
    def __init__(self, location: str, stores: Stores) -> None:
        super().__init__(location)
        self._path, self._storage = path_of(location), stores.of(path_of(location))

    def __len__(self) -> int:
        with self._storage.open(self._path) as file:
            return int(file.size())

    def exists(self) -> bool:
        try:
            self._storage.open(self._path).close()
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> Any:
        return self._storage.open(self._path)
