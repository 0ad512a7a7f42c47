"""Removal of files of earlier generations that the target's log no longer lists.

In a store without links the files of a promoted generation stay in a folder inside the target,
which VACUUM leaves alone (:func:`sources.serving.own_table`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from hybrid_extensions.generations.files.table_snapshot import data_files, read_snapshot
from sources.errors import InputError
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import LOG, has_log
from spark_jobs.table.commit_log import CommitLog

_AT_ONCE = 16


def delete_unlisted(target: Folder, folder: Folder, versions: Iterable[int]) -> int:
    """Delete the files of promoted generations that neither readers nor a rollback need.

    A file is kept if it is in the newest version of the target or in one of those named, or if it
    was removed from the target within ``delta.deletedFileRetentionDuration``, the rule of Delta's
    VACUUM (https://docs.delta.io/latest/delta-utility.html#-delta-vacuum). A generation with a
    log of its own waits for its promotion: all of its files are kept.

    No promotion may be under way.

    Args:
        target: Folder of the target's table.
        folder: Folder inside it with a folder for each generation.
        versions: Versions of the target to which a rollback is possible; one whose commit Delta has
            removed from the log is passed over.

    Returns:
        Number of deleted files.

    Raises:
        InputError: The target, or a version that its log still has, can't be read, or the store
            refuses.
        StateError: A folder can't be listed, or a file can't be deleted.
        UnavailableError: The store does not answer.
    """
    done = [each for each in map(folder.folder, folder.folders()) if not has_log(each)]
    place = f"{target.url}/"
    found = {
        document.path.removeprefix(place)
        for each in done
        for document in target.documents.listing(each.url)
    }
    if not found:
        return 0
    gone = sorted(found.difference(needed_files(target, versions)))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(target.delete, gone):
            pass
    return len(gone)


def forget_log(table: Folder, target: Folder) -> None:
    """Remove the former table of a promoted generation, but not files that the target lists.

    Call it after the promotion's commit. Of a table inside the target's folder only the log is
    removed.

    Args:
        table: Folder of the table that it had until then.
        target: Folder of the target, which lists its files or has links to them.

    Raises:
        InputError, UnavailableError: A store refuses, or does not answer.
    """
    (table if table.name_in(target) is None else table.folder(LOG)).delete_all()


def needed_files(target: Folder, versions: Iterable[int]) -> Iterator[str]:
    """Yield the files of a table that readers or a rollback need, relative to its folder.

    They are in the newest version or in one of those named, or were removed within
    ``delta.deletedFileRetentionDuration``. A file may be yielded several times.

    Args:
        target: Folder of the table.
        versions: Versions; one that Delta has removed from the log is passed over.

    Raises:
        InputError: The table can't be read.
        UnavailableError: The table's store does not answer.
    """
    newest = read_snapshot(target)
    yield from (name for action in newest.removed for name in data_files(action))
    yield from (name for add in newest.files for name in data_files(add))
    log = CommitLog(target)
    for version in versions:
        try:
            kept = read_snapshot(target, version)
        except InputError:
            if log.holds(version):
                raise
            continue
        yield from (name for add in kept.files for name in data_files(add))
