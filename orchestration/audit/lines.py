"""JSON lines and CSV line by line, with the place of each: what is bad is told without Arrow.

Python takes lines apart, DuckDB tells whether their values fit. Where DuckDB would convert what
the runs refuse, the form of the text decides.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import duckdb
import pyarrow as pa

from orchestration.audit.sql import duckdb_type, duckdb_types, insert_arrow, literal, quoted
from orchestration.audit.topic import json_field, parse_json
from sources.common.schema import parse_schema
from sources.config.file_source import FileSource
from sources.errors import InputError
from sources.formats.csv import CsvOptions

_BATCH_LINES = 50_000
_BLOCK_BYTES = 1 << 20
_NO_TEXT = "it is no UTF-8 text"
_BYTE_ORDER_MARK = "\ufeff"
_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"([01]\d|2[0-3])(:\d\d(:\d\d(\.\d{1,6})?)?)?"
_INSTANT = rf"{_DATE}[ T]{_TIME}(Z|[+-]\d\d(:?\d\d)?)?"
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_JSON_TYPES: dict[str, tuple[str, ...]] = {
    "boolean": ("BOOLEAN",),
    "integer": ("UBIGINT", "BIGINT", "HUGEINT"),
    "number": ("UBIGINT", "BIGINT", "HUGEINT", "DOUBLE"),
    "decimal": ("UBIGINT", "BIGINT", "HUGEINT", "DOUBLE", "VARCHAR"),
    "text": ("VARCHAR",),
    "list": ("ARRAY",),
    "struct": ("OBJECT",),
}
# White space around numbers and dates of CSV is no part of them.
_CSV_FORMS = {
    "boolean": "true|True|TRUE|1|false|False|FALSE|0",
    "integer": r"\s*(-?\d+|0[xX][0-9a-fA-F]+)\s*",
    "number": rf"\s*({_NUMBER}|(?i:[+-]?(nan|inf|infinity)))\s*",
    "decimal": rf"\s*{_NUMBER}\s*",
    "date": rf"\s*{_DATE}\s*",
    "instant": _INSTANT,
}


_JSON_FORMS = {"decimal": _NUMBER, "date": _DATE, "instant": f"{_INSTANT}|{_DATE}"}


class _Line(NamedTuple):
    """A line that is not blank.

    Attributes:
        offset: Where it begins.
        reason: What is wrong with it, if that is known.
        texts: Its JSON, or its values.
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
    """Make a table of the good rows of files, and one of the places of bad ones.

    Args:
        connection: Gets both.
        source: The declaration; its format is JSON or CSV.
        paths: The files, on this machine, and the values of partition columns of each.
        name: Part of the name of the first one.
        bad: Name of the second one: ``_place`` (the path), ``_partition`` (null), ``_offset`` and
            ``_reason``.

    Returns:
        The name of the first one. It has the columns of the ``schema``, and partition columns as
        text.

    Raises:
        InputError: A file can't be read, or is CSV and lacks a column.
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
    connection.register("_columns", schema.empty_table())
    connection.execute(f"CREATE TABLE {lines} AS SELECT * FROM _columns")
    connection.unregister("_columns")
    for path, constants in paths.items():
        found = _json_lines(path) if is_json else _csv_lines(path, source.csv, columns.names)
        while some := list(islice(found, _BATCH_LINES)):
            rows = [
                [path, line.offset, line.reason, *constants.values(), *line.texts] for line in some
            ]
            arrays = [
                pa.array(each, kind)
                for each, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
            ]
            insert_arrow(connection, lines, pa.Table.from_arrays(arrays, schema=schema))
    if is_json:
        refused = {field.name: _refused(field) for field in columns}
        parse_json(connection, lines, table, duckdb_types(source.columns), refused)
        connection.execute(f"DROP TABLE {lines}")
    else:
        table = lines
        for field in columns:
            column, reason = quoted(field.name), literal(f"`{field.name}` does not fit: ")
            connection.execute(
                f"UPDATE {table} SET _reason = {reason} || left({column}, 200) "
                f"WHERE _reason IS NULL AND {_csv_misfit(column, field.type)}"
            )
    connection.execute(
        f"CREATE OR REPLACE TABLE {bad} AS SELECT _place, CAST(NULL AS INTEGER) AS _partition, "
        f"_offset, _reason FROM {table} WHERE _reason IS NOT NULL"
    )
    connection.execute(f"DELETE FROM {table} WHERE _reason IS NOT NULL")
    return table


def _json_lines(path: str) -> Iterator[_Line]:
    for offset, line in _lines(path):
        if not line.strip(b" \t\r\n"):
            continue
        try:
            yield _Line(offset, None, [line.decode().removeprefix(_BYTE_ORDER_MARK)])
        except UnicodeDecodeError:
            yield _Line(offset, _NO_TEXT, [None])


def _csv_lines(path: str, options: CsvOptions, columns: list[str]) -> Iterator[_Line]:
    split, lines, names = _splitter(options), _lines(path), columns
    if options.header:
        _, head = next(lines, (0, b""))
        if head.strip():
            names = [text or "" for text in split(head.decode().removeprefix(_BYTE_ORDER_MARK))]
        if absent := [name for name in columns if name not in names]:
            message = f"{path} has no column {', '.join(absent)}."
            raise InputError(message, "Correct `schema`, or the file.")
    wanted = [names.index(name) for name in columns]
    nothing: list[str | None] = [None] * len(columns)
    for offset, line in lines:
        if not line:
            continue
        try:
            texts = split(line.decode().removeprefix(_BYTE_ORDER_MARK if not offset else ""))
        except UnicodeDecodeError:
            yield _Line(offset, _NO_TEXT, nothing)
            continue
        if len(texts) == len(names):
            yield _Line(offset, None, [texts[at] for at in wanted])
        else:
            yield _Line(offset, f"it has not {len(names)} values", nothing)


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Where each line begins, and the line without its end."""
    offset = 0
    try:
        with io.BufferedReader(pa.input_stream(path, compression="detect"), _BLOCK_BYTES) as file:
            for line in file:
                yield offset, line.rstrip(b"\r\n")
                offset += len(line)
    except OSError as error:
        message = f"{path} can't be read: {error}"
        raise InputError(message, "Repair the file, or put it back.") from None


def _splitter(options: CsvOptions) -> Callable[[str], list[str | None]]:
    """What takes a line of CSV apart: its values, none if it does not end as it should."""
    mark, comma = re.escape(options.quote), re.escape(options.delimiter)
    value = re.compile(
        rf"(?:{mark}(?P<quoted>(?:[^{mark}]|{mark}{mark})*+){mark}(?P<behind>[^{comma}\r]*)"
        rf"|(?!{mark})(?P<plain>[^{comma}\r]*))(?P<end>{comma}|$)"
    )

    def split(line: str) -> list[str | None]:
        values: list[str | None] = []
        at, end = 0, options.delimiter
        while end:
            match = value.match(line, at)
            if match is None:
                return []
            at, end = match.end(), match["end"]
            if match["quoted"] is None:
                plain = match["plain"]
                values.append(None if plain in options.null else plain)
            else:
                inside = match["quoted"].replace(options.quote * 2, options.quote)
                values.append(inside + match["behind"])
        return values

    return split


def _shape(kind: pa.DataType) -> str:
    """Types whose values are written alike."""
    shapes = {
        "boolean": pa.types.is_boolean,
        "integer": pa.types.is_integer,
        "number": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "date": pa.types.is_date,
        "instant": pa.types.is_timestamp,
        "list": pa.types.is_list,
        "struct": pa.types.is_struct,
    }
    return next((shape for shape, is_of in shapes.items() if is_of(kind)), "text")


def _csv_misfit(text: str, kind: pa.DataType) -> str:
    """SQL: whether a value that is there does not fit."""
    shape = _shape(kind)
    if shape == "text":
        return "false"
    form = literal(_CSV_FORMS[shape])
    wrong = f"NOT regexp_full_match({text}, {form}) OR {_lost(text, kind)}"
    return f"({text} IS NOT NULL AND ({wrong}))"


def _refused(field: pa.Field) -> str:
    again = f"len([name FOR name IN json_keys(_value) IF name = {literal(field.name)}]) > 1"
    return f"({_json_misfit(json_field(field.name), field.type)} OR {again})"


def _json_misfit(field: str, kind: pa.DataType, depth: int = 0) -> str:
    """SQL: whether a field that is there does not fit."""
    shape = _shape(kind)
    types = _JSON_TYPES.get(shape, _JSON_TYPES["text"])
    wrong = [f"json_type({field}) NOT IN ({', '.join(map(literal, types))})"]
    if shape == "list":
        item = f"item{depth}"
        inner = _json_misfit(item, kind.value_type, depth + 1)
        wrong.append(f"list_bool_or([{inner} FOR {item} IN json_extract({field}, '$[*]')])")
    elif shape == "struct":
        wrong += [_json_misfit(json_field(part.name, field), part.type, depth + 1) for part in kind]
    elif shape != "text":
        text = f"({field} ->> '$')"
        if shape in _JSON_FORMS:
            wrong.append(f"NOT regexp_full_match({text}, {literal(_JSON_FORMS[shape])})")
        wrong.append(_lost(text, kind))
    is_there = f"coalesce(json_type({field}), 'NULL') <> 'NULL'"
    return f"({is_there} AND coalesce({' OR '.join(wrong)}, false))"


def _lost(text: str, kind: pa.DataType) -> str:
    """SQL: whether DuckDB can't convert a text that has the right form, or would round it."""
    cast = f"TRY_CAST(trim({text}) AS {duckdb_type(kind)})"
    if pa.types.is_decimal(kind):
        exact = f"TRY_CAST(trim({text}) AS DECIMAL(38, {38 - kind.precision + kind.scale}))"
        return f"{cast} IS NULL OR {cast} <> {exact}"
    return f"{cast} IS NULL"
