"""Open columns: those without any value in a file, which take their type from other files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from sources.config.source.file_source import FileSource
from sources.files.columns.schema_drift import clashing_columns
from sources.formats.parquet.columns_without_values import columns_without_values
from sources.storage.stores import Stores

Schemas = Sequence[tuple[str, pa.Schema]]
"""Distinct schemas of files, each with the path of the first file that has it."""


class Opened(NamedTuple):
    """Schemas of files in which columns without values have the type null.

    Attributes:
        schemas: Distinct schemas, each with the path of the first file that has it.
        schema_of: Index in ``schemas`` of each file's schema.
        first: Path of the first file with such a column; None without any.
    """

    schemas: list[tuple[str, pa.Schema]]
    schema_of: list[int]
    first: str | None


def with_open_columns(
    source: FileSource,
    found: tuple[Schemas, Sequence[int]],
    paths: Sequence[str],
    stores: Stores,
    planned: pa.Schema | None,
) -> Opened:
    """Set the type of columns without any value to null, where the types of files clash.

    Such a column then takes its type from other files. Footers are read, and only if types clash.

    Args:
        source: Declaration of the source, with ``schema_drift``.
        found: Distinct schemas, each with the path of its first file; and each file's index in
            them.
        paths: The files.
        stores: Storages that the files may be in.
        planned: Common columns by the plan; None while planning.

    Raises:
        InputError: A file can't be read, or has a column under two names.
    """
    schemas, schema_of = [*found[0]], [*found[1]]
    clashes = clashing_columns(source, schemas, planned)
    if not clashes:
        return Opened(schemas, schema_of, None)
    known: dict[tuple[int, frozenset[str]], int] = {}
    opened = Opened([], [], None)
    empty = columns_without_values(paths, clashes, stores)
    for path, index, names in zip(paths, schema_of, empty, strict=True):
        if (index, names) not in known:
            known[index, names] = len(opened.schemas)
            kinds = [
                (each.name, pa.null() if each.name in names else each.type)
                for each in schemas[index][1]
            ]
            opened.schemas.append((path, pa.schema(kinds)))
        opened.schema_of.append(known[index, names])
        if names and opened.first is None:
            opened = opened._replace(first=path)
    return opened
