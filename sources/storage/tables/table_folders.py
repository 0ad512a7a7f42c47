"""Folders of lake tables, whose files can't be read without the table's log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from sources.errors import InputError
from sources.storage.stores import Stores

_WORKERS = 16
_ICEBERG, _ICEBERG_FILE = "metadata", ".metadata.json"
# What to do instead, by the name of the format's log folder.
_LOGS = {
    "_delta_log": ("a Delta table", "Declare `format: delta`, and `path: {}`."),
    ".hoodie": (
        "a Hudi table",
        "Hudi tables are not read. Write the rows as they are now to another folder, with Spark "
        "(`spark.read.format('hudi').load('{}').write.parquet(…)`), and declare that one.",
    ),
    _ICEBERG: (
        "an Iceberg table",
        "Declare `format: iceberg`, and as `path` the newest file in {}/metadata whose name ends "
        "with .metadata.json, or `table` with the table's name in its catalog.",
    ),
}


def logs_among(folder: str, folders: Iterable[str], stores: Stores) -> Iterator[str]:
    """Yield the subfolders of a folder that make it a lake table, such as ``_delta_log``.

    Yields nothing if the folder is no Delta, Hudi or Iceberg table.

    Args:
        folder: The folder.
        folders: Paths of the folders directly in it.
        stores: Storages of the pipeline.

    Raises:
        UnavailableError: A storage does not answer.
        InputError: A folder can't be listed.
    """
    for inner in folders:
        name = inner.rpartition("/")[2]
        if name in _LOGS and (name != _ICEBERG or _is_log(folder, name, stores)):
            yield inner


def logs_above(base: str, stores: Stores) -> list[str]:
    """Return the log folders (``_delta_log``, …) of lake tables at a path or at folders above it.

    The innermost table's come first; empty if the path lies in no lake table. Folders
    that this process may not list are taken for ordinary ones.

    Args:
        base: Absolute path of a folder or a file.
        stores: Storages of the pipeline.

    Raises:
        UnavailableError: A storage does not answer.
    """
    scheme, separator, rest = base.rpartition("://")
    parts = rest.split("/")
    above = [scheme + separator + "/".join(parts[:end]) for end in range(len(parts), 0, -1)]

    def look(place: tuple[str, str]) -> bool:
        try:
            return _is_log(*place, stores)
        except InputError:
            return False

    places = [(folder, name) for folder in above for name in _LOGS]
    with ThreadPoolExecutor(_WORKERS) as pool:
        found = pool.map(look, places)
        return ["/".join(place) for place, is_log in zip(places, found, strict=True) if is_log]


def refuse_tables(source: str, paths: Iterable[str], logs: Iterable[str]) -> None:
    """Refuse to read files of a lake table as plain files, past the table's log.

    Args:
        source: Name of the source, for messages.
        paths: The files.
        logs: Log folders that were found, as of :func:`logs_among` and :func:`logs_above`.

    Raises:
        InputError: A file lies below the folder of such a table; names it, and how to declare it.
    """
    known = {log.rpartition("/")[0]: log.rpartition("/")[2] for log in logs}
    if not known:
        return
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder:
            if folder in known:
                what, hint = _LOGS[known[folder]]
                message = (
                    f"Source `{source}`: {path} is a file of {what}, by {folder}/{known[folder]}. "
                    "Files that are no part of the table any more are in its folder, too: read as "
                    "files, older rows would come again."
                )
                raise InputError(message, hint.format(folder), source=source, file=path)
            folder = folder.rpartition("/")[0]


def _is_log(folder: str, name: str, stores: Stores) -> bool:
    place = f"{folder}/{name}"
    found = stores.of(place).children(place)
    names = [*found.folders, *found.files["path"].to_pylist()]
    return any(name != _ICEBERG or _ICEBERG_FILE in each for each in names)
