"""Reader of JSON lines and CSV for sources whose bad rows don't stop a run.

Python splits the lines and notes the byte offset of each, DuckDB checks their values
(:mod:`orchestration.audit.readers.value_checks`). The runs read the same files with pyarrow.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import duckdb
import pyarrow as pa

from orchestration.audit.readers.value_checks import parse_json, refused_csv, refused_json
from orchestration.audit.sql import create_empty_table, duckdb_types, error_text, insert_arrow
from sources.common.schema import parse_schema
from sources.common.sql_names import literal, quoted
from sources.config.file_source import FileSource
from sources.errors import InputError
from sources.formats.csv_options import CsvOptions

_BATCH_LINES = 50_000
_BLOCK_BYTES = 1 << 20
_NOT_TEXT = "the line is not UTF-8 text"
_BYTE_ORDER_MARK = "\ufeff"


class _Line(NamedTuple):
    """A line of a file that is not blank.

    Attributes:
        offset: Byte offset in the file, after decompression.
        reason: Why the line is bad; None if it could be split.
        texts: The JSON text, or the texts of the CSV values in declared order.
    """

    offset: int
    reason: str | None
    texts: list[str | None]


def load_lines(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    paths: Mapping[str, Mapping[str, str]],
    name: str,
    bad: str,
) -> str:
    """Create a table of the good rows of files, and a table of the positions of bad rows.

    Args:
        connection: The audit's database.
        source: Source of format JSON or CSV.
        paths: By local path: the values of the file's partition columns, by name.
        name: Part of the name of the table of good rows.
        bad: Name of the table of bad rows, with the columns ``_place`` (the path), ``_partition``
            (null), ``_offset`` (bytes) and ``_reason``.

    Returns:
        The name of the table of good rows. It has the columns of ``schema`` and, as text, the
        partition columns; columns of CSV are text too.

    Raises:
        InputError: A file can't be read, or a CSV header lacks a column.
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
        split = _json_lines(path) if is_json else _csv_lines(path, source.csv, columns.names)
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
        refused = {field.name: refused_json(field) for field in columns}
        parse_json(connection, lines, table, duckdb_types(source.columns), refused)
        connection.execute(f"DROP TABLE {lines}")
    else:
        table = lines
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


def _json_lines(path: str) -> Iterator[_Line]:
    """Yield the lines of a file of JSON lines that are not blank, each with its JSON text."""
    for offset, line in _lines(path):
        if not line.strip(b" \t\r\n"):
            continue
        try:
            yield _Line(offset, None, [line.decode().removeprefix(_BYTE_ORDER_MARK)])
        except UnicodeDecodeError:
            yield _Line(offset, _NOT_TEXT, [None])


def _csv_lines(path: str, options: CsvOptions, columns: list[str]) -> Iterator[_Line]:
    """Yield the lines of a CSV file that are not empty, each with the texts of its values.

    Args:
        path: The file.
        options: Delimiter, quote, texts of nulls, and whether there is a header.
        columns: Names of the columns, in the order of the values.

    Raises:
        InputError: The file can't be read, or its header lacks a column.
    """
    split, lines, names = _splitter(options), _lines(path), columns
    if options.header:
        _, head = next(lines, (0, b""))
        if head.strip():
            names = [text or "" for text in split(head.decode().removeprefix(_BYTE_ORDER_MARK))]
        if absent := [name for name in columns if name not in names]:
            message = (
                f"File {path}: its header has no column {', '.join(absent)}, which `schema` "
                f"declares. The header is {', '.join(names)[:200] or 'empty'}."
            )
            hint = "Correct `schema`, or restore the file's header."
            raise InputError(message, hint, file=path, column=absent[0], field="schema")
    positions = [names.index(name) for name in columns]
    no_values: list[str | None] = [None] * len(columns)
    for offset, line in lines:
        if not line:
            continue
        try:
            texts = split(line.decode().removeprefix(_BYTE_ORDER_MARK if not offset else ""))
        except UnicodeDecodeError:
            yield _Line(offset, _NOT_TEXT, no_values)
            continue
        if len(texts) == len(names):
            yield _Line(offset, None, [texts[position] for position in positions])
        else:
            yield _Line(offset, f"the line does not have {len(names)} values", no_values)


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the byte offset of each line of a file, which may be compressed, and its content.

    Raises:
        InputError: The file can't be read.
    """
    offset = 0
    try:
        with io.BufferedReader(pa.input_stream(path, compression="detect"), _BLOCK_BYTES) as file:
            for line in file:
                yield offset, line.rstrip(b"\r\n")
                offset += len(line)
    except OSError as error:
        message = f"File {path} can't be read: {error_text(error)}"
        hint = "Restore the file from a backup, then run `hybrid audit` again."
        raise InputError(message, hint, file=path) from None


def _splitter(options: CsvOptions) -> Callable[[str], list[str | None]]:
    """Return a function that splits a line of CSV into its values.

    The function returns an empty list for a line with misplaced quotes.
    """
    quote, delimiter = re.escape(options.quote), re.escape(options.delimiter)
    value = re.compile(
        rf"(?:{quote}(?P<quoted>(?:[^{quote}]|{quote}{quote})*+){quote}"
        rf"(?P<behind>[^{delimiter}\r]*)"
        rf"|(?!{quote})(?P<plain>[^{delimiter}\r]*))(?P<end>{delimiter}|$)"
    )

    def split(line: str) -> list[str | None]:
        values: list[str | None] = []
        position, end = 0, options.delimiter
        while end:
            match = value.match(line, position)
            if match is None:
                return []
            position, end = match.end(), match["end"]
            if match["quoted"] is None:
                plain = match["plain"]
                values.append(None if plain in options.null else plain)
            else:
                inside = match["quoted"].replace(options.quote * 2, options.quote)
                values.append(inside + match["behind"])
        return values

    return split
