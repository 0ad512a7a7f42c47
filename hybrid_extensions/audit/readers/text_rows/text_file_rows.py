"""JSON lines, CSV and text for the audit: by DuckDB where it reads as the runs do, else Python.

DuckDB reads usual files as a whole. Where bad rows don't stop a run, or DuckDB refuses a file,
Python splits the rows and notes the byte offset of each, and DuckDB checks their values
(:mod:`hybrid_extensions.audit.readers.values.value_checks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from glob import escape
from itertools import islice

import duckdb
import pyarrow as pa

from hybrid_extensions.audit.readers.folder_values import options, with_values
from hybrid_extensions.audit.readers.text_rows.csv_rows import csv_rows
from hybrid_extensions.audit.readers.text_rows.file_lines import NOT_TEXT, TextRow, lines_of
from hybrid_extensions.audit.readers.text_rows.json_rows import parse_json
from hybrid_extensions.audit.readers.text_rows.json_values import OF_FILES
from hybrid_extensions.audit.readers.topic_view import bad_records_table
from hybrid_extensions.audit.readers.values.time_texts import with_minutes
from hybrid_extensions.audit.readers.values.value_checks import refused_csv
from hybrid_extensions.comparison.duckdb_database import (
    create_empty_table,
    duckdb_types,
    insert_arrow,
    struct,
)
from sources.common.schema import leaves, parse_schema
from sources.common.sql.sql_names import column_list, literal, quoted
from sources.config.source.file_source import FileSource
from sources.errors import InputError

_BATCH_LINES = 50_000


def load_rows(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    paths: Mapping[str, Mapping[str, str | None]],
    name: str,
) -> str:
    """Load the rows of JSON lines or CSV, and return a FROM clause for them.

    DuckDB's own readers are used where they read the same as the runs, as they are many times as
    fast; else Python splits the lines. Bad rows are then in the table of
    :func:`~hybrid_extensions.audit.readers.topic_view.bad_records_table`.

    Args:
        connection: The audit's database.
        source: The source.
        paths: By local path: the texts of the file's partition columns, by name; None for null.
        name: Part of the name of the table of the rows.

    Raises:
        InputError: A file can't be read, or a row is bad under ``on_bad_record: fail``.
    """
    dialect, columns = source.csv, source.columns or {}
    is_usual = dialect.is_utf8 and dialect.escape_character is None and len(columns) > 1
    if source.on_bad_record == "fail" and (source.format == "json" or is_usual):
        table = f"audit.{quoted(f'{name}.read')}"
        as_objects = source.format == "json" and any(
            map(_is_misread, leaves(pa.struct(parse_schema(columns))))
        )
        reader = with_values(
            _duckdb_reader(source, list(paths), as_objects=as_objects),
            [*paths],
            [*source.partitions],
        )
        with suppress(duckdb.Error):
            if as_objects:
                if _are_good_objects(connection, source, reader, table):
                    return table
            else:
                names = column_list([*columns, *source.partitions])
                connection.execute(f"CREATE TABLE {table} AS SELECT {names} FROM {reader}")
                if source.format == "json":
                    return table
                if not _has_empty_row(connection, table, columns):
                    _settle_texts(connection, source, table)
                    return table
                connection.execute(f"DROP TABLE {table}")
    bad = bad_records_table(source.name)
    rows = load_lines(connection, source, paths, name, bad)
    if source.on_bad_record == "fail":
        _refuse_bad(connection, source, bad)
    return f"(SELECT * EXCLUDE (_place, _offset, _reason) FROM {rows})"


def load_texts(
    connection: duckdb.DuckDBPyConnection,
    paths: Mapping[str, Mapping[str, str | None]],
    name: str,
) -> str:
    """Load the lines of text files into a table, and return its SQL name.

    The table has the column ``value`` and the partition columns, all as text.

    Args:
        connection: The audit's database.
        paths: By local path: the texts of the file's partition columns, by name; None for null.
        name: Part of the name of the table.

    Raises:
        InputError: A file can't be read, or a line of it is not UTF-8.
    """
    table = f"audit.{quoted(name)}"
    constants = next(iter(paths.values()), {})
    schema = pa.schema((each, pa.string()) for each in ["value", *constants])
    create_empty_table(connection, table, schema)
    for path, values in paths.items():
        texts = (_text_of(path, offset, line) for offset, line in lines_of(path))
        while batch := list(islice(texts, _BATCH_LINES)):
            rows = [batch, *([value] * len(batch) for value in values.values())]
            arrays = [pa.array(each, pa.string()) for each in rows]
            insert_arrow(connection, table, pa.Table.from_arrays(arrays, schema=schema))
    return table


def _text_of(path: str, offset: int, line: str | None) -> str:
    if line is None:
        message = f"{path}, byte {offset}: {NOT_TEXT}."
        hint = "Restore the file from a backup, then run `hybrid audit P` again."
        raise InputError(message, hint, file=path)
    return line.rstrip("\r\n")


def _is_misread(kind: pa.DataType) -> bool:
    """Return whether DuckDB's reader of JSON makes other values of a type, and says nothing.

    It takes the characters of base64 for bytes, and numbers with an exponent for doubles.
    """
    of_doubles = 15
    is_long = pa.types.is_decimal(kind) and kind.precision > of_doubles
    return bool(pa.types.is_binary(kind) or is_long)


def _has_empty_row(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Iterable[str]
) -> bool:
    """Return whether a row has no value: DuckDB makes one of a CSV file of blank lines alone."""
    nothing = " AND ".join(f"{quoted(name)} IS NULL" for name in columns)
    return bool(connection.execute(f"SELECT 1 FROM {table} WHERE {nothing} LIMIT 1").fetchall())


def _are_good_objects(
    connection: duckdb.DuckDBPyConnection, source: FileSource, reader: str, table: str
) -> bool:
    """Create a table of JSON lines that DuckDB splits; return False if a row of it is bad."""
    objects = f"audit.{quoted(f'{table}.objects')}"
    others = "".join(f"{quoted(name)}, " for name in source.partitions)
    connection.execute(
        f"CREATE TABLE {objects} AS SELECT {others}CAST(json AS VARCHAR) AS _value, "
        f"CAST(NULL AS VARCHAR) AS _reason FROM {reader}"
    )
    parse_json(connection, objects, table, duckdb_types(source.columns or {}), OF_FILES)
    connection.execute(f"DROP TABLE {objects}")
    if connection.execute(f"SELECT 1 FROM {table} WHERE _reason IS NOT NULL LIMIT 1").fetchall():
        return False
    connection.execute(f"ALTER TABLE {table} DROP COLUMN _reason")
    return True


def load_lines(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    paths: Mapping[str, Mapping[str, str | None]],
    name: str,
    bad: str,
) -> str:
    """Create a table of the good rows of files, and a table of the positions of bad rows.

    Args:
        connection: The audit's database.
        source: Source of format JSON or CSV.
        paths: By local path: the texts of the file's partition columns, by name; None for null.
        name: Part of the name of the table of good rows.
        bad: SQL name of the table of bad rows, with the columns ``_place`` (the path),
            ``_partition`` (null), ``_offset`` (bytes) and ``_reason``.

    Returns:
        The SQL name of the table of good rows. It has the columns of ``schema`` and, as text, the
        partition columns; columns of CSV are text too. Besides it has ``_place``, ``_offset`` and
        ``_reason``, which is null.

    Raises:
        InputError: A file can't be read, or its header does not fit.
    """
    assert source.columns is not None  # the declaration refuses it
    columns = parse_schema(source.columns)
    is_json = source.format == "json"
    texts = ["_value"] if is_json else columns.names
    lines, table = (f"audit.{quoted(f'{name}.{kind}')}" for kind in ("lines", "rows"))
    schema = pa.schema(
        [
            ("_place", pa.string()),
            ("_offset", pa.int64()),
            ("_reason", pa.string()),
            *((each, pa.string()) for each in [*source.partitions, *texts]),
        ]
    )
    create_empty_table(connection, lines, schema)
    for path, constants in paths.items():
        split = _json_rows(path) if is_json else csv_rows(path, source.csv, columns.names)
        while batch := list(islice(split, _BATCH_LINES)):
            rows = [
                [path, line.offset, line.reason, *constants.values(), *line.texts] for line in batch
            ]
            arrays = [
                pa.array(each, kind)
                for each, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
            ]
            insert_arrow(connection, lines, pa.Table.from_arrays(arrays, schema=schema))
    if is_json:
        parse_json(connection, lines, table, duckdb_types(source.columns), OF_FILES)
        connection.execute(f"DROP TABLE {lines}")
    else:
        table = lines
        _settle_texts(connection, source, table)
        for field in columns:
            column = quoted(field.name)
            reason = literal(f"`{field.name}` does not fit {source.columns[field.name]}: ")
            connection.execute(
                f"UPDATE {table} SET _reason = {reason} || left({column}, 200) "
                f"WHERE _reason IS NULL AND {refused_csv(column, field.type)}"
            )
    connection.execute(
        f"CREATE OR REPLACE TABLE {bad} AS SELECT _place, CAST(NULL AS INTEGER) AS _partition, "
        f"_offset, _reason FROM {table} WHERE _reason IS NOT NULL"
    )
    connection.execute(f"DELETE FROM {table} WHERE _reason IS NOT NULL")
    return table


def _settle_texts(connection: duckdb.DuckDBPyConnection, source: FileSource, table: str) -> None:
    """Make texts of CSV those that DuckDB reads as the runs do.

    Texts that mean null, quoted ones too, are null in columns of neither texts nor bytes, and times
    have minutes.
    """
    nulls = ", ".join(map(literal, source.csv.null))
    for field in parse_schema(source.columns or {}):
        column = quoted(field.name)
        if not pa.types.is_string(field.type) and not pa.types.is_binary(field.type):
            connection.execute(f"UPDATE {table} SET {column} = NULL WHERE {column} IN ({nulls})")
        if pa.types.is_timestamp(field.type):
            connection.execute(f"UPDATE {table} SET {column} = {with_minutes(column)}")


def _refuse_bad(connection: duckdb.DuckDBPyConnection, source: FileSource, bad: str) -> None:
    query = f"SELECT _place, _offset, _reason FROM {bad} ORDER BY ALL LIMIT 1"
    for path, offset, reason in connection.execute(query).fetchall():
        message = (
            f"{path}, byte {offset}: bad row: {reason}. Source `{source.name}` declares "
            "`on_bad_record: fail`."
        )
        hint = (
            "Repair the file, or declare `on_bad_record: quarantine` (or `drop`): the row will be "
            "missing from the table."
        )
        raise InputError(message, hint, source=source.name, file=path)


def _duckdb_reader(source: FileSource, paths: list[str], *, as_objects: bool) -> str:
    """Return the call of DuckDB's table function for JSON lines or CSV.

    Args:
        source: The source.
        paths: Paths of the files.
        as_objects: Whether it only splits the lines of JSON.
    """
    of_rows = options(source.partitions)
    files = ", ".join(literal(escape(path)) for path in paths)
    assert source.columns is not None  # the declaration refuses it
    if source.format == "json":
        if as_objects:
            return f"read_ndjson_objects([{files}], {of_rows})"
        columns = struct(duckdb_types(source.columns))
        return f"read_json([{files}], columns = {columns}, format = 'newline_delimited', {of_rows})"
    dialect = source.csv
    nulls = ", ".join(map(literal, dialect.null))
    names = "" if dialect.header else f", names = [{', '.join(map(literal, source.columns))}]"
    return (
        f"read_csv([{files}], all_varchar = true, header = {str(dialect.header).lower()}, "
        f"delim = {literal(dialect.delimiter)}, quote = {literal(dialect.quote)}, "
        f"escape = {literal(dialect.quote)}, nullstr = [{nulls}], allow_quoted_nulls = false, "
        f"auto_detect = false, union_by_name = {str(dialect.header).lower()}{names}, {of_rows})"
    )


def _json_rows(path: str) -> Iterator[TextRow]:
    """Yield the lines of a file of JSON lines that are not blank, each with its JSON text."""
    for offset, line in lines_of(path):
        if line is None:
            yield TextRow(offset, NOT_TEXT, [None])
        # One may begin with a byte order mark, where files were appended to each other.
        elif text := (line.removeprefix("\ufeff") if offset else line).strip(" \t\r\n"):
            yield TextRow(offset, None, [text])
