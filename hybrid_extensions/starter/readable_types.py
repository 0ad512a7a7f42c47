"""Types of files' columns that the runs can read, for `hybrid init`.

DuckDB reads more than the runs do, such as days as ``12/31/2026`` and booleans as ``yes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sources.common.schema import normalize, parse_type, type_name, with_leaves
from sources.config.source.file_source import FileSource
from sources.errors import HybridError, InputError
from sources.files.format_registry import format_of
from sources.formats.file_regions import Region
from sources.formats.open_file import read_region, readable_region
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores


def readable_types(
    path: Path, form: str, csv: Mapping[str, str | bool], columns: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the types of columns, with texts in place of what runs could not read as its type.

    The first 4 MiB of the file count. If no column can be read, or no extension reads the format,
    the types stay as they are, and the plan says what is wrong.

    Args:
        path: The file.
        form: Its format, ``csv`` or ``json``.
        csv: Options of CSV that differ from the defaults.
        columns: Spark SQL types by the names that the file has.

    Returns:
        The types, without columns that can't be read as texts either, such as numbers and objects
        in one of JSON; and by the name of each column that was changed a value of it.
    """
    if _first_rows(path, form, csv, columns) is not None:
        return dict(columns), {}
    # All columns of a CSV file that has no header are declared.
    others = dict.fromkeys(columns, "string") if form == "csv" else {}
    types, changed = {}, {}
    for name, kind in columns.items():
        for each in (kind, _with_texts(kind), "string"):
            rows = _first_rows(path, form, csv, {**others, name: each})
            if rows is None:
                continue
            types[name] = each
            if each != kind:
                changed[name] = str(next(iter(rows[name].drop_null().to_pylist()), ""))
            break
    return (types, changed) if types else (dict(columns), {})


def types_of_parquet(path: Path, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the types of columns without those that Spark has no type for, such as times of day.

    Args:
        path: The file.
        columns: Spark SQL types by name, as DuckDB has them.
    """
    schema = pq.read_schema(path)
    return {name: kind for name, kind in columns.items() if _is_of_spark(schema.field(name).type)}


def _is_of_spark(kind: pa.DataType) -> bool:
    try:
        normalize(kind)
    except InputError:
        return False
    return True


def _with_texts(kind: str) -> str:
    """Return a type with texts in place of its days, times and booleans."""

    def leaf(part: pa.DataType) -> pa.DataType:
        is_text = pa.types.is_temporal(part) or pa.types.is_boolean(part)
        return pa.string() if is_text else part

    return type_name(with_leaves(parse_type(kind), leaf))


def _first_rows(
    path: Path, form: str, csv: Mapping[str, str | bool], columns: Mapping[str, str]
) -> pa.Table | None:
    """Return the first rows of a file as runs read them; None if one of them can't be read."""
    declared = {"type": "files", "name": "history", "path": str(path), "format": form}
    options = {"csv": dict(csv)} if form == "csv" else {}
    source = FileSource.model_validate({**declared, **options, "schema": dict(columns)})
    schema = pa.schema([(name, parse_type(kind)) for name, kind in columns.items()])
    region = readable_region(Region(str(path), 0, path.stat().st_size, path.stat().st_size))
    try:
        rows = read_region(format_of(source), region, schema, Stores(S3Settings()))
        first = next(rows, None)
    except HybridError:
        return None
    return pa.Table.from_batches([] if first is None else [first], schema)
