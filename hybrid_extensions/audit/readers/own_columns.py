"""Avro and ORC files for the audit: whole, by each file's own columns; renames and defaults.

DuckDB reads neither. Each file is read as a whole, without the regions of the plan, and Avro by
another library than that of the runs; DuckDB combines files of different columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from hybrid_extensions.audit.readers.avro_rows import avro_rows
from hybrid_extensions.audit.readers.drifted_parquet import Group, union_query
from hybrid_extensions.comparison.duckdb_database import create_empty_table, insert_arrow
from sources.common.schema import parse_schema
from sources.common.sql.sql_names import quoted
from sources.config.source.file_options import SchemaDrift
from sources.config.source.file_source import FileSource
from sources.files.format_registry import reader_of
from sources.formats.base import Format
from sources.formats.file_regions import Region
from sources.formats.open_file import open_file
from sources.storage.stores import Stores

_WHOLE_BYTES = 1 << 62


def own_rows(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    values: Mapping[str, Mapping[str, str | None]],
    name: str,
    stores: Stores,
) -> str:
    """Return a query, in parentheses, for the rows of Avro or ORC files, loaded into tables.

    Each file's columns are those that it declares itself; a declared schema gives their types.
    Empty files (0 bytes) are skipped.

    Args:
        connection: The audit's database, which gets tables of the rows.
        source: Declaration of the source.
        values: By local path: the texts of the file's partition columns, by name; None for null.
        name: What the names of the tables begin with.
        stores: Stores of the pipeline.

    Raises:
        InputError: A file can't be read.
        UnavailableError: A file's store does not answer.
    """
    form = reader_of(source)
    tables: dict[tuple[tuple[str, str], ...], str] = {}
    groups: list[Group] = []
    for path, constants in values.items():
        if not Path(path).stat().st_size:
            continue
        columns = _columns(source, form, path, stores)
        full = pa.schema([each for each in columns if not pa.types.is_null(each.type)])
        nulls = [each.name for each in columns if each not in full]
        key = tuple((each.name, str(each.type)) for each in columns)
        rows = pa.schema([*full, *((each, pa.string()) for each in source.partitions)])
        if key not in tables:
            tables[key] = f"audit.{quoted(f'{name}.{len(tables)}')}"
            create_empty_table(connection, tables[key], rows)
            groups.append(Group(full.names, tables[key], nulls))
        for batch in _batches(source, form, path, full, stores):
            texts = [pa.array([text] * len(batch), pa.string()) for text in constants.values()]
            whole = pa.Table.from_arrays([*batch.columns, *texts], schema=rows)
            insert_arrow(connection, tables[key], whole)
    return union_query(connection, source, groups, source.partitions)


def _batches(
    source: FileSource, form: Format, path: str, columns: pa.Schema, stores: Stores
) -> Iterator[pa.Table | pa.RecordBatch]:
    with open_file(path, form, stores) as file:
        if source.format == "avro":
            yield from avro_rows(file, columns)
        else:
            yield from form.read(file, Region(path, 0, _WHOLE_BYTES, _WHOLE_BYTES), columns)


def _columns(source: FileSource, form: Format, path: str, stores: Stores) -> pa.Schema:
    """Return the columns of a file, in the types that are declared, or that they have in it."""
    renamed = (source.schema_drift or SchemaDrift()).renamed
    declared = parse_schema(source.columns or {})
    with open_file(path, form, stores) as file:
        own = form.columns(file)
    assert own is not None
    last = {each.name: renamed.get(each.name, each.name) for each in own}
    return pa.schema(
        [
            declared.field(last[each.name]).with_name(each.name)
            if last[each.name] in declared.names
            else each
            for each in own
            if each.name not in source.partitions
            and (not source.columns or last[each.name] in declared.names)
        ]
    )
