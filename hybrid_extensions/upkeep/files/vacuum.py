"""VACUUM: deletion of files that neither the newest version of a Delta table nor readers need.

The rule is Delta's own (https://docs.delta.io/latest/delta-utility.html#-delta-vacuum), with the
files of versions that a rollback returns to kept as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hybrid_extensions.generations.files.retention import RETENTION, retention_s
from hybrid_extensions.generations.files.table_protocol import CARRIED
from hybrid_extensions.generations.files.table_snapshot import TableSnapshot, read_snapshot
from hybrid_extensions.generations.files.unlisted_files import needed_files
from sources.common.times import now_ms
from sources.errors import InputError
from sources.storage.documents import Listed
from sources.storage.folder import Folder

_DEFAULT = "interval 7 days"
_LEAST_MS = 86_400_000
"""Least age of a deleted file: a younger one may be of a commit that is still to be made."""
_AT_ONCE = 16
# Properties with which Delta puts files into folders with random names.
_WITH_PREFIXES = {"delta.columnMapping.mode", "delta.randomizeFilePrefixes"}
_PREFIX_LENGTH = 2


@dataclass(frozen=True)
class Unneeded:
    """Files of a table that nobody needs, which :meth:`delete` deletes.

    Attributes:
        table: Folder of the table.
        files: The files, with paths, sizes and times of modification.
    """

    table: Folder
    files: list[Listed]

    @property
    def bytes(self) -> int:
        """Total size of the files."""
        return sum(each.size for each in self.files)

    def delete(self) -> None:
        """Delete the files; missing ones are skipped.

        Raises:
            StateError: One can't be deleted; others may have been.
            UnavailableError: The store does not answer.
        """
        names = [each.path.removeprefix(f"{self.table.url}/") for each in self.files]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(self.table.delete, names):
                pass


def find_unneeded(target: Folder, versions: Iterable[int]) -> Unneeded:
    """Find the files of a table that were removed from it, or never committed, long enough ago.

    How long is said by ``delta.deletedFileRetentionDuration``, and at least a day. Left alone are
    names that begin with ``_`` or ``.``, and folders that are none of a partition, nor of those
    with random names that Delta makes. Nothing is deleted here.

    Args:
        target: Folder of the table. No promotion and no replacement of a range may be under way.
        versions: Versions of the table whose files are kept; one that can't be read any more is
            skipped.

    Raises:
        InputError: The table can't be read, has a feature of Delta that is not known here, or a
            retention in another form than ``interval 7 days``.
        UnavailableError: The store does not answer.
    """
    table = read_snapshot(target)
    if unknown := sorted(table.protocol.features - CARRIED):
        names = ", ".join(f"`{each}`" for each in unknown)
        message = (
            f"The table {target} has Delta features that this project does not know: {names}. So "
            "it is not known which files it needs, and nothing was deleted."
        )
        hint = (
            f"Run VACUUM with Spark (VACUUM delta.`{target}`). It also deletes files that a "
            "rollback to an earlier generation needs."
        )
        raise InputError(message, hint, table=target.url)
    before = now_ms() - max(_retention_ms(table), _LEAST_MS)
    old = [each for each in target.documents.listing(target.url) if each.modified_ms < before]
    if not old:
        return Unneeded(target, [])
    place = f"{target.url}/"
    needed = set(needed_files(target, versions))
    return Unneeded(
        target,
        [
            each
            for each in old
            if (name := each.path.removeprefix(place)) not in needed
            and not _is_of_others(name, table)
        ],
    )


def _retention_ms(table: TableSnapshot) -> int:
    text = table.configuration.get(RETENTION, _DEFAULT)
    if (seconds := retention_s(text)) is None:
        message = (
            f"The table {table.folder} has the property `{RETENTION}: {text}`, which is not "
            "understood as a length of time. Nothing was deleted."
        )
        hint = f"Declare it in `sink.properties` in this form: `{RETENTION}: interval 7 days`."
        raise InputError(message, hint, table=table.folder.url, value=text)
    return seconds * 1000


def _is_of_others(name: str, table: TableSnapshot) -> bool:
    """Return whether a file has a name, or is in a folder, that is none of the table's data files.

    Such as a pipeline's state, or another table, whose folder is inside that of the table.
    """
    columns = tuple(f"{each}=" for each in table.partitions)
    *folders, _ = parts = name.split("/")
    has_prefixes = not _WITH_PREFIXES.isdisjoint(table.configuration)
    return any(part[0] in "_." and not part.startswith(columns) for part in parts) or any(
        "=" not in each and not (has_prefixes and len(each) == _PREFIX_LENGTH) for each in folders
    )
