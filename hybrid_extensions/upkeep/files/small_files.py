"""Selection of files to compact: under half the target size, of one partition and kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from hybrid_extensions.generations.files.table_snapshot import TableSnapshot
from sources.storage.tables.delta_log import is_absolute

FILES_PER_COMMIT = 500
"""Most files that one commit replaces: what is lost if the process is killed in the midst."""
_TARGET_SIZE = "delta.targetFileSize"
_DEFAULT_SIZE = 128 * 2**20
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True)
class SmallFiles:
    """Small files of one partition that are compacted into one.

    Attributes:
        adds: Their ``add`` actions, in the order in which their rows are written.
        is_history: Whether they hold history; else they hold rows of the live stream.
    """

    adds: list[dict[str, Any]]
    is_history: bool

    @property
    def bytes(self) -> int:
        """Total size of the files."""
        return sum(each["size"] for each in self.adds)


def target_size(table: TableSnapshot) -> int:
    """Return the target size of compacted files in bytes: ``delta.targetFileSize``.

    128 MiB if the table does not have the property, or has it in a form that Delta does not know.
    """
    found = _SIZE.fullmatch(table.configuration.get(_TARGET_SIZE, "").strip())
    return _DEFAULT_SIZE if found is None else int(found[1]) * _UNITS[found[2].lower()]


def small_files(table: TableSnapshot, history: set[str]) -> list[SmallFiles]:
    """Return the files of a table to compact, grouped by the file that they become.

    A file is small if it has less than half the target size. Files stay as they are that have a
    deletion vector, that were clustered, or that lie outside the table's folder. A group has at
    least two files of one partition; maybe there is none.

    Args:
        table: The table.
        history: Paths of its files that hold history, as its log names them.
    """
    size = target_size(table)
    small = [each for each in table.files if each["size"] < size / 2 and _is_plain(each)]

    def kind(add: dict[str, Any]) -> tuple[bool, str]:
        return add["path"] in history, repr(sorted(add["partitionValues"].items()))

    small.sort(key=lambda add: (kind(add), add["modificationTime"], add["path"]))
    return [
        SmallFiles(adds, is_history)
        for (is_history, _), of_kind in groupby(small, key=kind)
        for adds in _packed(of_kind, size)
        if len(adds) > 1
    ]


def commits(groups: list[SmallFiles]) -> Iterator[list[SmallFiles]]:
    """Yield the groups that one commit replaces: either history or live rows, never both.

    Each has at most :data:`FILES_PER_COMMIT` files. None without groups.

    Args:
        groups: Those of :func:`small_files`, in their order.
    """
    for _, same in groupby(groups, key=lambda group: group.is_history):
        together: list[SmallFiles] = []
        for group in same:
            held = sum(len(each.adds) for each in together)
            if together and held + len(group.adds) > FILES_PER_COMMIT:
                yield together
                together = []
            together.append(group)
        yield together


def _packed(adds: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield files, in order, in lists of at most a size and a number."""
    packed: list[dict[str, Any]] = []
    for add in adds:
        is_full = sum(each["size"] for each in packed) + add["size"] > size
        if packed and (is_full or len(packed) == FILES_PER_COMMIT):
            yield packed
            packed = []
        packed.append(add)
    if packed:
        yield packed


def _is_plain(add: dict[str, Any]) -> bool:
    return not (
        add.get("deletionVector") or add.get("clusteringProvider") or is_absolute(add["path"])
    )
