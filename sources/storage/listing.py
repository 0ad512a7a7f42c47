"""Listing of files by globs, folder by folder, in any storage, and which names are no data.

Each folder is listed once, those of one depth in parallel; a folder that no glob can match
below is never looked into.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sources.errors import InputError, UnavailableError
from sources.storage.base import FILES, Children, Storage, table_of
from sources.storage.stores import Stores
from sources.storage.tables.table_folders import logs_above, logs_among, refuse_tables

_MAGIC = re.compile(r"[*?\[]")
_WORKERS = 16
_LOOKS = 5
_REST_S = 0.1


@dataclass(frozen=True)
class Glob:
    """A glob, split where its wildcards begin.

    Attributes:
        base: Absolute path before the first wildcard.
        parts: Names below it; ``**`` stands for any number of folders.
    """

    base: str
    parts: tuple[str, ...]


class _Visit(NamedTuple):
    """A folder to list, and how many parts of its glob the path to it may have matched."""

    folder: str
    glob: Glob
    reached: frozenset[int]


def find_files(name: str, patterns: Sequence[str], folder: Path, stores: Stores) -> pa.Table:
    """Return the files that a source's globs match, sorted by path; refuse globs without a file.

    Names of files and folders that are no data (:func:`is_data`) are left out; a folder stands for
    all files below it.

    Args:
        name: Name of the source, for messages.
        patterns: Globs of the source.
        folder: Folder that relative globs start from.
        stores: Storages of the pipeline.

    Returns:
        A table of schema :data:`sources.storage.base.FILES`.

    Raises:
        InputError: Nothing matches, a storage refuses, the scheme of a path is not supported, or a
            file can't be read as one (:func:`match_files`).
        UnavailableError: A storage does not answer, or a folder does not come to rest.
    """
    files = match_files(name, patterns, folder, stores, whole=True)
    require_no_table_above(name, files, patterns, folder, stores)
    if not files.num_rows:
        message = f"Source `{name}`: no file matches {', '.join(patterns)}."
        hint = (
            "Correct `path`, or put the files there. Relative paths start from "
            f"{folder}; files and folders whose names begin with `_` or `.` are left out."
        )
        raise InputError(message, hint, source=name, file=patterns[0])
    return files


def require_no_table_above(
    name: str, files: pa.Table, patterns: Sequence[str], folder: Path, stores: Stores
) -> None:
    """Refuse globs that match files inside a lake table: its log decides which files count.

    Does nothing without files.

    Args:
        name: Name of the source, for messages.
        files: The files that the globs match, a table of schema :data:`sources.storage.base.FILES`.
        patterns: Globs of the source.
        folder: Folder that relative globs start from.
        stores: Storages of the pipeline.

    Raises:
        InputError: The fixed part of a glob is, or lies in, the folder of a Delta, Hudi or Iceberg
            table.
        UnavailableError: A storage does not answer.
    """
    if files.num_rows:
        bases = {parse_glob(pattern, folder).base for pattern in patterns}
        logs = [log for base in sorted(bases) for log in logs_above(base, stores)]
        refuse_tables(name, files["path"].to_pylist(), logs)


def match_files(
    name: str, patterns: Sequence[str], folder: Path, stores: Stores, *, whole: bool = False
) -> pa.Table:
    """Return the files that globs match, sorted by path; there may be none.

    Names of files and folders that are no data (:func:`is_data`) are left out; a folder stands for
    all files below it. A file that several globs match is returned once.

    A file or folder that is renamed during a listing may be seen under neither name. So all is
    listed again while names in folders of a file system change, up to five times; files that have
    only been added are no reason.

    Args:
        name: Name of the source, for messages.
        patterns: Globs.
        folder: Folder that relative globs start from.
        stores: Storages of the pipeline.
        whole: Refuse folders whose names change each time: they are not listed later.

    Returns:
        A table of schema :data:`sources.storage.base.FILES`.

    Raises:
        InputError: A storage refuses, the scheme of a path is not supported, a file is one of a
            table, or its path has an empty part, which Hadoop's paths can't have.
        UnavailableError: A storage does not answer; or, with ``whole``, files or folders were
            renamed or removed each time.
    """
    globs = [parse_glob(pattern, folder) for pattern in patterns]
    before: set[str] | None = None
    for _ in range(_LOOKS):
        logs: list[str] = []
        seen: dict[str, Sequence[int]] = {}
        tables = [table for glob in globs for table in _matches(glob, stores, logs, seen)]
        files = pa.concat_tables([FILES.empty_table(), *tables])
        paths = files["path"].to_pylist()
        with ThreadPoolExecutor(_WORKERS) as pool:
            now = pool.map(lambda each: stores.of(each).version(each), seen)
            moved = [each for each, version in zip(seen, now, strict=True) if version != seen[each]]
        if not moved or (before is not None and before.issubset(paths)):
            break
        before = set(paths)
        time.sleep(_REST_S)
    else:
        if whole:
            message = (
                f"Source `{name}`: files or folders in {moved[0]} were renamed or removed each "
                "time that they were listed, so some may be missing from the list."
            )
            hint = "Let their writer finish, then try again."
            raise UnavailableError(message, hint, source=name, file=moved[0])
    refuse_tables(name, paths, logs)
    if odd := next((path for path in paths if "//" in path.partition("://")[2]), None):
        message = (
            f"Source `{name}`: the key of {odd} has an empty part between two slashes, and Spark's "
            "paths can't name it."
        )
        hint = "Copy the object to a key without `//`, or let `path` not match it; then plan again."
        raise InputError(message, hint, source=name, file=odd)
    if len(globs) > 1:
        files = files.group_by("path", use_threads=False).aggregate(
            [(column, "first") for column in FILES.names[1:]]
        )
        files = files.rename_columns(FILES.names).cast(FILES)
    return files.sort_by("path")


def parse_glob(pattern: str, folder: Path) -> Glob:
    """Parse a glob: split it where its wildcards begin, and make it absolute; nothing is listed.

    Upper and lower case matter.

    Args:
        pattern: Path or URL, in which ``*``, ``?`` and ``[…]`` match within a name, and ``**`` any
            number of folders. ``s3a://`` becomes ``s3://``, ``~`` the user's home.
        folder: Folder that a relative path starts from.
    """
    scheme, separator, rest = pattern.partition("://")
    if separator and scheme != "file":
        parts = [part for part in rest.split("/") if part]
        root = "s3://" if scheme == "s3a" else f"{scheme}://"
    else:
        local = Path(rest if separator else pattern).expanduser()
        parts = [part for part in local.parts if part != local.anchor]
        root = local.anchor or f"{folder}/"
    fixed = next((at for at, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    base = root + "/".join(parts[:fixed])
    return Glob(base if "://" in base else os.path.normpath(base), tuple(parts[fixed:]))


def would_match(pattern: str, folder: Path, path: str) -> bool:
    """Return whether a glob matches a file, which need not exist; nothing is listed.

    Args:
        pattern: The glob.
        folder: Folder that a relative glob starts from.
        path: Absolute path or URL of the file.
    """
    glob = parse_glob(pattern, folder)
    inside = path.removeprefix(f"{glob.base.rstrip('/')}/")
    ahead: set[int] = set() if inside == path else {0}
    for name in inside.split("/"):
        ahead = _step(_Visit("", glob, _closure(glob, ahead)), name) if is_data(name) else set()
    # Without what `**` may leave out: that is of folders, and the last name is of a file.
    return len(glob.parts) in ahead


def _matches(
    glob: Glob, stores: Stores, logs: list[str], seen: dict[str, Sequence[int]]
) -> Iterable[pa.Table]:
    """Yield the files that a glob matches; add to ``logs`` what shows that a folder is a table.

    Each folder's version before it was listed is added to ``seen``.
    """
    storage = stores.of(glob.base)
    if not glob.parts and (file := next(iter(storage.stat([glob.base])))) is not None:
        yield table_of([file])
        return
    visits = [_Visit(glob.base, glob, _closure(glob, {0}))]
    with ThreadPoolExecutor(_WORKERS) as pool:
        while visits:
            listed = pool.map(lambda visit: _listed(storage, visit.folder), visits)
            deeper: list[_Visit] = []
            for visit, (version, children) in zip(visits, listed, strict=True):
                seen.setdefault(visit.folder, version)
                yield _chosen(visit, children)
                logs += logs_among(visit.folder, children.folders, stores)
                deeper += _below(visit, children)
            visits = deeper


def _listed(storage: Storage, folder: str) -> tuple[Sequence[int], Children]:
    """Return the version of a folder before it is listed, and what is in it."""
    return storage.version(folder), storage.children(folder)


def _closure(glob: Glob, states: Iterable[int]) -> frozenset[int]:
    """Add the parts that are reached because ``**`` may stand for no folder at all."""
    every = set(states)
    for state in sorted(every):
        at = state
        while at < len(glob.parts) and glob.parts[at] == "**":
            at += 1
            every.add(at)
    return frozenset(every)


def _step(visit: _Visit, name: str) -> set[int]:
    """Return the parts that a name inside the folder reaches; none if it does not match."""
    parts = visit.glob.parts
    ahead = set()
    for state in visit.reached:
        if state == len(parts) or parts[state] == "**":
            ahead.add(state)
        elif fnmatchcase(name, parts[state]):
            ahead.add(state + 1)
    return ahead


def is_data(name: str) -> bool:
    """Return whether a file or folder of this name is data, by Spark's rule (`HadoopFSUtils`).

    Names that begin with ``_`` or ``.`` are not, but for partition folders such as ``_day=1``; nor
    are files that Hadoop copies at the moment. The folder ``+tmp`` of Kafka Connect's HDFS sink is
    not, either: its files come again under their final names.
    """
    is_hidden = name.startswith(".") or (name.startswith("_") and "=" not in name)
    return not is_hidden and not name.endswith("._COPYING_") and name != "+tmp"


def _below(visit: _Visit, children: Children) -> list[_Visit]:
    visits = []
    for folder in children.folders:
        name = folder.rpartition("/")[2]
        if is_data(name) and (reached := _step(visit, name)):
            visits.append(_Visit(folder, visit.glob, _closure(visit.glob, reached)))
    return visits


def _chosen(visit: _Visit, children: Children) -> pa.Table:
    parts, last = visit.glob.parts, len(visit.glob.parts) - 1
    # A `**` at the end stands for folders with their content, so it matches all files of this one.
    takes_all = any(all(part == "**" for part in parts[at:]) for at in visit.reached)
    ends = [parts[at] for at in visit.reached if at == last]
    names = [path.rpartition("/")[2] for path in children.files["path"].to_pylist()]
    fits = (takes_all or any(fnmatchcase(name, end) for end in ends) for name in names)
    chosen = [is_data(name) and fit for name, fit in zip(names, fits, strict=True)]
    return children.files.filter(pa.array(chosen, pa.bool_()))
