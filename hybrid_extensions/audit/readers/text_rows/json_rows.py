"""JSON in the audit: which values DuckDB parses as the runs do; Python parses all other records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from hybrid_extensions.audit.readers.text_rows.json_texts import LEVELS, Unfit, members_of
from hybrid_extensions.audit.readers.text_rows.json_values import JsonDialect
from hybrid_extensions.comparison.duckdb_database import (
    INSTANT,
    insert_arrow,
    json_structure,
    schema_of,
)
from sources.common.sql.sql_names import literal, quoted

_SHOWN = 200
_BATCH_ROWS = 20_000
_SURE_DATE = r"\d{4}-\d\d-\d\d"
_SURE_TIME = (
    rf"{_SURE_DATE}([ T]([01]\d|2[0-3]):[0-5]\d"
    r"(:[0-5]\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)?)?)?"
)
# DuckDB accepts more words for numbers than others, and commas at an end.
_WORDS = r"(?i)inf|nan|,\s*[}\]]"
# DuckDB makes null of a decimal with a very small exponent.
_EXPONENT = r"[:\[,]\s*-?[0-9.]+[eE][+-]?[0-9]{3}"
# Of a decimal with very many digits it shows some.
_LONG = r"[0-9.]{40}"
# An integer has no negative zero, of which DuckDB sometimes makes one.
_ZERO = r"[:\[,]\s*-0\s*[,\]}]"
_INTEGERS = ("UBIGINT", "BIGINT")
_NUMBERS = (*_INTEGERS, "DOUBLE")


def parse_json(
    connection: duckdb.DuckDBPyConnection,
    records: str,
    rows: str,
    types: Mapping[str, str],
    dialect: JsonDialect,
) -> None:
    """Create a table of records with JSON parsed into columns, and a reason for each bad record.

    DuckDB parses values that it reads as the runs do, Python all others.

    Args:
        connection: The audit's database.
        records: SQL name of a table with ``_value``, the JSON text, and ``_reason``, which is null
            unless the record is already known to be bad; other columns are copied.
        rows: SQL name of the new table. Its ``_reason`` also covers values that are not a JSON
            object or do not fit their type.
        types: Columns of the JSON object, and their DuckDB types.
        dialect: How the runs read JSON of files, or of topics.

    Raises:
        NotProvenError: A map of a topic has a name twice, which DuckDB has no type for.
    """
    nothing = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in types.items())
    columns = schema_of(connection, f"SELECT {nothing}")
    marked = f"audit.{quoted(f'{rows}.marked')}"
    connection.execute(f"CREATE OR REPLACE TABLE {marked} AS {_marked(records, columns)}")
    selected = ", ".join(f"_row[{literal(name)}] AS {quoted(name)}" for name in types)
    connection.execute(
        f"CREATE TABLE {rows} AS SELECT {selected}, * EXCLUDE (_row, _value, _sure) FROM "
        f"(SELECT *, from_json(_value, {json_structure(types)}) AS _row FROM "
        f"(SELECT * FROM {marked} WHERE _sure))"
    )
    others = f"SELECT * EXCLUDE (_sure) FROM {marked} WHERE NOT _sure"
    for batch in _batches(connection, others):
        insert_arrow(connection, rows, _read(batch, columns, dialect))
    connection.execute(f"DROP TABLE {marked}")


def _marked(records: str, columns: pa.Schema) -> str:
    """Return a query of records with ``_sure``: whether DuckDB reads a value as the runs do."""
    brackets = "length(_value) - length(replace(replace(_value, '[', ''), '{', ''))"
    usual = [
        f"NOT regexp_matches(_value, {literal(f'{_WORDS}|{_ZERO}')})",
        f"{brackets} <= {LEVELS}",
    ]
    if any(map(_has_decimal, columns.types)):
        usual.append(f"NOT regexp_matches(_value, {literal(f'{_EXPONENT}|{_LONG}')})")
    paths = ", ".join(literal(_path(field.name)) for field in columns)
    members = f"json_extract(_value, [{paths}])"
    # Functions of JSON fail the whole query on other texts.
    for condition in (
        f"json_type(_value) = 'OBJECT' AND {_are_distinct('_value')}",
        "json_valid(_value)",
        " AND ".join(["_reason IS NULL", *usual]),
    ):
        members = f"CASE WHEN {condition} THEN {members} END"
    tests = [_sure(f"_members[{at}]", field.type) for at, field in enumerate(columns, 1)]
    return (
        f"SELECT * EXCLUDE (_members), _members IS NOT NULL AND "
        f"coalesce({' AND '.join(tests)}, false) AS _sure "
        f"FROM (SELECT *, {members} AS _members FROM {records})"
    )


def _has_decimal(kind: pa.DataType) -> bool:
    parts = [kind.field(at).type for at in range(kind.num_fields)]
    return pa.types.is_decimal(kind) or any(map(_has_decimal, parts))


def _sure(field: str, kind: pa.DataType, depth: int = 0) -> str:
    """Return an SQL condition that a value is absent, null, or read as the runs read it."""
    types, tests = _tests(field, kind, depth)
    named = ", ".join(map(literal, types))
    is_usual = " AND ".join([f"json_type({field}) IN ({named})", *tests])
    return f"(coalesce(json_type({field}), 'NULL') = 'NULL' OR ({is_usual}))"


def _tests(field: str, kind: pa.DataType, depth: int) -> tuple[tuple[str, ...], list[str]]:
    """Return the JSON types of usual values of a type, and SQL conditions that they meet."""
    item, text = f"item{depth}", f"({field} ->> '$')"
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        is_list = pa.types.is_list(kind)
        of, path = (kind.value_type, "$[*]") if is_list else (kind.item_type, "$.*")
        items = f"json_extract({field}, {literal(path)})"
        are_sure = f"list_bool_and([{_sure(item, of, depth + 1)} FOR {item} IN {items}])"
        tests = [f"coalesce({are_sure}, true)"]
        if is_list:
            return ("ARRAY",), tests
        return ("OBJECT",), [*tests, _are_distinct(field)]
    if pa.types.is_struct(kind):
        members = [f"json_extract({field}, {literal(_path(part.name))})" for part in kind]
        parts = [_sure(each, part.type, depth) for each, part in zip(members, kind, strict=True)]
        return ("OBJECT",), [*parts, _are_distinct(field)]
    if pa.types.is_boolean(kind):
        return ("BOOLEAN",), []
    if pa.types.is_integer(kind):
        return _INTEGERS, [f"TRY_CAST({text} AS {_integer(kind)}) IS NOT NULL"]
    if pa.types.is_floating(kind):
        # Of a list, conditions that are null would not count.
        is_double = f"coalesce(isfinite(TRY_CAST({text} AS DOUBLE)), false)"
        # DuckDB makes floats of doubles, which rounds twice.
        single, twice = f"TRY_CAST({text} AS FLOAT)", f"CAST(CAST({text} AS DOUBLE) AS FLOAT)"
        is_float = f"CASE WHEN isfinite({single}) THEN {single} = TRY_{twice} ELSE false END"
        return _NUMBERS, [is_float if pa.types.is_float32(kind) else is_double]
    if pa.types.is_decimal(kind):
        digits = f"-?[0-9]{{1,{max(kind.precision - kind.scale, 1)}}}"
        fraction = rf"(\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
        return (*_NUMBERS, "VARCHAR"), [
            f"regexp_full_match({text}, {literal(digits + fraction)})",
            f"TRY_CAST({text} AS DECIMAL({kind.precision}, {kind.scale})) IS NOT NULL",
        ]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        form, of_kind = (_SURE_DATE, "DATE") if pa.types.is_date(kind) else (_SURE_TIME, INSTANT)
        return ("VARCHAR",), [
            f"regexp_full_match({text}, {literal(form)})",
            f"TRY_CAST({text} AS {of_kind}) IS NOT NULL",
        ]
    # DuckDB takes the characters of base64 for the bytes.
    return ("VARCHAR",), ["false"] if pa.types.is_binary(kind) else []


def _integer(kind: pa.DataType) -> str:
    return {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}[kind.bit_width]


def _path(name: str) -> str:
    """Return DuckDB's path of a member of an object."""
    return '$."' + name.replace('"', '\\"') + '"'


def _are_distinct(value: str) -> str:
    """Return an SQL condition that a JSON object, given as SQL too, has no name twice."""
    return f"len(json_keys({value})) = len(list_distinct(json_keys({value})))"


def _batches(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[pa.Table]:
    """Yield the rows of a query, some at a time, while the connection does other work."""
    with connection.cursor() as cursor:
        for batch in cursor.sql(query).to_arrow_reader(_BATCH_ROWS):
            yield pa.Table.from_batches([batch])


def _read(records: pa.Table, columns: pa.Schema, dialect: JsonDialect) -> pa.Table:
    """Return the rows of records, with their columns in front."""
    readers = {field.name: dialect.reader(field.type) for field in columns}
    found: dict[str, list[Any]] = {name: [] for name in readers}
    reasons: list[str | None] = []
    for value, reason in zip(
        records["_value"].to_pylist(), records["_reason"].to_pylist(), strict=True
    ):
        row: dict[str, Any] = {}
        told = reason
        if reason is None:
            try:
                row = dialect.row(members_of(value, is_topic=dialect.is_topic), readers)
            except Unfit as error:
                told = str(error) or f"the value is not a JSON object: {value[:_SHOWN]}"
        reasons.append(told)
        for name, values in found.items():
            values.append(row.get(name))
    arrays = [pa.array(found[field.name], field.type) for field in columns]
    rest = records.drop_columns(["_value"])
    at = rest.schema.get_field_index("_reason")
    rest = rest.set_column(at, "_reason", pa.array(reasons, pa.string()))
    return pa.table([*arrays, *rest.columns], names=[*columns.names, *rest.column_names])
