"""Files that globs match, found folder by folder in any storage.

Each folder is listed once, those of one depth in parallel; a folder that no glob can match
below is never looked into.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sources.errors import InputError
from sources.storage.base import FILES, Children, table_of
from sources.storage.stores import Stores

_MAGIC = re.compile(r"[*?\[]")
_WORKERS = 16


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
    """Return the files that a source's globs match, sorted by path; at least one.

    Names that begin with ``_`` or ``.`` are left out, as in Spark; a folder stands for all files
    below it.

    Args:
        name: Name of the source, for messages.
        patterns: Globs of the source.
        folder: Folder that relative globs start from.
        stores: Storages of the pipeline.

    Returns:
        A table of schema :data:`sources.storage.base.FILES`.

    Raises:
        InputError: Nothing matches, a storage refuses, or the scheme of a path is not supported.
        UnavailableError: A storage does not answer.
    """
    files = match_files(patterns, folder, stores)
    if not files.num_rows:
        message = f"Source `{name}`: no file matches {', '.join(patterns)}."
        hint = (
            "Correct `path`, or put the files there. Relative paths start from "
            f"{folder}; files and folders whose names begin with `_` or `.` are left out."
        )
        raise InputError(message, hint, source=name, file=patterns[0])
    return files


def match_files(patterns: Sequence[str], folder: Path, stores: Stores) -> pa.Table:
    """Return the files that globs match, sorted by path; there may be none.

    Names that begin with ``_`` or ``.`` are left out, as in Spark; a folder stands for all files
    below it. A file that several globs match is returned once.

    Args:
        patterns: Globs.
        folder: Folder that relative globs start from.
        stores: Storages of the pipeline.

    Returns:
        A table of schema :data:`sources.storage.base.FILES`.

    Raises:
        InputError: A storage refuses, or the scheme of a path is not supported.
        UnavailableError: A storage does not answer.
    """
    globs = [parse_glob(pattern, folder) for pattern in patterns]
    tables = [table for glob in globs for table in _matches(glob, stores)]
    files = pa.concat_tables([FILES.empty_table(), *tables])
    if len(globs) > 1:
        files = files.group_by("path", use_threads=False).aggregate(
            [(column, "first") for column in FILES.names[1:]]
        )
        files = files.rename_columns(FILES.names).cast(FILES)
    return files.sort_by("path")


def parse_glob(pattern: str, folder: Path) -> Glob:
    """Return a glob from its text, split where its wildcards begin; nothing is listed.

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


def _matches(glob: Glob, stores: Stores) -> Iterable[pa.Table]:
    storage = stores.of(glob.base)
    if not glob.parts and (file := next(iter(storage.stat([glob.base])))) is not None:
        yield table_of([file])
        return
    visits = [_Visit(glob.base, glob, _closure(glob, {0}))]
    with ThreadPoolExecutor(_WORKERS) as pool:
        while visits:
            listed = pool.map(lambda visit: storage.children(visit.folder), visits)
            deeper: list[_Visit] = []
            for visit, children in zip(visits, listed, strict=True):
                yield _chosen(visit, children)
                deeper += _below(visit, children)
            visits = deeper


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


def _is_data(name: str) -> bool:
    return not name.startswith(("_", "."))


def _below(visit: _Visit, children: Children) -> list[_Visit]:
    visits = []
    for folder in children.folders:
        name = folder.rpartition("/")[2]
        if _is_data(name) and (reached := _step(visit, name)):
            visits.append(_Visit(folder, visit.glob, _closure(visit.glob, reached)))
    return visits


def _chosen(visit: _Visit, children: Children) -> pa.Table:
    parts, last = visit.glob.parts, len(visit.glob.parts) - 1
    # A `**` at the end stands for folders with their content, so it matches all files of this one.
    takes_all = any(all(part == "**" for part in parts[at:]) for at in visit.reached)
    ends = [parts[at] for at in visit.reached if at == last]
    chosen = []
    for path in children.files["path"].to_pylist():
        name = path.rpartition("/")[2]
        fits = takes_all or any(fnmatchcase(name, end) for end in ends)
        chosen.append(fits and _is_data(name))
    return children.files.filter(pa.array(chosen, pa.bool_()))
