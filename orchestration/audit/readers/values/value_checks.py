"""Checks in DuckDB SQL of whether the text of a JSON or CSV value fits its declared type.

DuckDB converts some values that the runs refuse, such as ``"7"`` to an integer. Where it does, the
form of the text decides here, so that audit and runs agree on which records are bad.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import accumulate
from json import JSONDecoder
from typing import NamedTuple

import duckdb
import pyarrow as pa

from orchestration.audit.readers.values.number_texts import numbers_as_spark
from orchestration.audit.readers.values.time_texts import (
    Rewrite,
    of_files,
    of_topics,
    rewrite_times,
    with_minutes,
)
from orchestration.audit.sql import INSTANT, duckdb_type, json_structure
from sources.common.sql.sql_names import literal, quoted

_LEVELS = 1000
_BLANKS = " \t\r\n"
_DATE = r"\d{4}-\d\d-\d\d"
_DAY = rf"{_DATE}([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?Z?)?"
_TIME = r"([01]\d|2[0-3])(:\d\d(:\d\d(\.\d{1,6})?)?)?"
_INSTANT = rf"{_DATE}[ T]{_TIME}(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?"
_NOT_FINITE = r"NaN|[+-]?Infinity|[+-]INF"
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
# DuckDB's JSON types that a kind of declared type accepts.
_JSON_TYPES: dict[str, tuple[str, ...]] = {
    "boolean": ("BOOLEAN",),
    "integer": ("UBIGINT", "BIGINT", "HUGEINT"),
    "number": ("UBIGINT", "BIGINT", "HUGEINT", "DOUBLE", "VARCHAR"),
    "decimal": ("UBIGINT", "BIGINT", "HUGEINT", "DOUBLE", "VARCHAR"),
    "text": ("VARCHAR",),
    "list": ("ARRAY",),
    "struct": ("OBJECT",),
    "map": ("OBJECT",),
}
_JSON_FORMS = {"decimal": _NUMBER, "date": _DAY, "instant": f"{_INSTANT}|{_DATE}"}
# White space around numbers and dates of CSV does not count.
_CSV_FORMS = {
    "boolean": "true|True|TRUE|1|false|False|FALSE|0",
    "integer": r"\s*(-?\d+|0[xX][0-9a-fA-F]+)\s*",
    "number": rf"\s*({_NUMBER}|(?i:[+-]?(nan|inf|infinity)))\s*",
    "decimal": rf"\s*{_NUMBER}\s*",
    "date": rf"\s*{_DATE}\s*",
    "instant": _INSTANT,
}
_MAY_BE_BEYOND = r"(?i)inf|nan|,\s*[}\]]"
_BEYOND = r"-NaN|nan|Inf([^i]|$)|inf|,\s*[}\]]"


class JsonReader(NamedTuple):
    """What the runs read in JSON, and DuckDB does not, or the other way round.

    Attributes:
        beyond: Pattern of what DuckDB accepts outside of texts, and the runs do not: more words for
            numbers that are not finite, and commas at an end.
        rewrite: Returns what DuckDB has to read in place of an unusual text of a time.
        has_seconds: Whether an integer is a time in seconds.
    """

    beyond: str
    rewrite: Rewrite
    has_seconds: bool


OF_FILES = JsonReader(rf"{_BEYOND}|INF", of_files, has_seconds=False)
"""Of JSON lines, which Arrow reads."""
OF_TOPICS = JsonReader(rf"{_BEYOND}|[^-+]INF", of_topics, has_seconds=True)
"""Of topics, which Spark reads: ``-INF`` is a number there."""
# Values of topics that DuckDB converts and Spark refuses; {0} is a field's JSON type, {1} its
# column, {2} its text.
_NOT_INTEGER = "{0} NOT IN ('UBIGINT', 'BIGINT', 'HUGEINT')"
# A text is a number only if it names one that is not finite, and a large number is not infinity.
_NAMED = f"regexp_full_match({{2}}, '{_NOT_FINITE}')"
_NOT_NUMBER = f"(({{0}} IN ('BOOLEAN', 'VARCHAR') OR NOT isfinite({{1}})) AND NOT {_NAMED})"
_NO_DECIMAL = f"({{0}} IN ('BOOLEAN', 'VARCHAR') AND NOT regexp_full_match({{2}}, '{_NUMBER}'))"
_REFUSED_BY_SPARK = {
    "BOOLEAN": "{0} <> 'BOOLEAN'",
    **dict.fromkeys(["TINYINT", "SMALLINT", "INTEGER", "BIGINT"], _NOT_INTEGER),
    **dict.fromkeys(["FLOAT", "DOUBLE"], _NOT_NUMBER),
    "DECIMAL": _NO_DECIMAL,
}


def parse_json(
    connection: duckdb.DuckDBPyConnection,
    records: str,
    rows: str,
    types: Mapping[str, str],
    refused: Mapping[str, str],
    reader: JsonReader,
) -> None:
    """Create a table of records whose JSON is parsed into columns, with the reason of each bad one.

    Args:
        connection: The audit's database.
        records: Table with ``_value``, the JSON text, and ``_reason``, which is null unless the
            record is already known to be bad; other columns are copied. Its texts are overwritten.
        rows: Name of the new table. Its ``_reason`` also covers values that are not a JSON object
            or do not fit their type.
        types: Columns of the JSON object, and their DuckDB types.
        refused: By column, an SQL condition that its value is bad although DuckDB converts it.
        reader: What the runs read otherwise than DuckDB.
    """
    connection.execute(
        f"UPDATE {records} SET _reason = 'the value is not a JSON object: ' || left(_value, 200) "
        "WHERE _reason IS NULL AND CASE WHEN json_valid(_value) THEN json_type(_value) END "
        "IS DISTINCT FROM 'OBJECT'"
    )
    outside = """regexp_replace(_value, '"(?:[^"\\\\]|\\\\.)*"', '""', 'g')"""
    connection.execute(
        f"UPDATE {records} SET _reason = 'the value is not JSON: ' || left(_value, 200) "
        f"WHERE _reason IS NULL AND regexp_matches(_value, {literal(_MAY_BE_BEYOND)}) "
        f"AND regexp_matches({outside}, {literal(reader.beyond)})"
    )
    # DuckDB's own conversions fail the whole query on text that is not JSON.
    connection.execute(f"UPDATE {records} SET _value = NULL WHERE _reason IS NOT NULL")
    selected = ", ".join(f"_row[{literal(name)}] AS {quoted(name)}" for name in types)
    connection.execute(
        f"CREATE TABLE {rows} AS SELECT {selected}, * EXCLUDE (_row) FROM "
        f"(SELECT *, from_json(_value, {json_structure(types)}) AS _row FROM {records})"
    )
    for name, kind in types.items():
        field = _json_field(name)
        if kind == "VARCHAR":
            numbers_as_spark(connection, rows, name, field)
        if kind in (INSTANT, "DATE"):
            rewrite_times(connection, rows, (name, kind), field, reader.rewrite)
        if kind == INSTANT and reader.has_seconds:
            connection.execute(
                f"UPDATE {rows} SET {quoted(name)} = to_timestamp(CAST({field} AS BIGINT)) "
                f"WHERE json_type({field}) IN ('BIGINT', 'UBIGINT')"
            )
        if _without_digits(kind) == "DECIMAL":
            # DuckDB gives up on an exponent such as -10000000, of which Spark makes nought.
            connection.execute(
                f"UPDATE {rows} SET {quoted(name)} = 0 WHERE {quoted(name)} IS NULL "
                f"AND json_type({field}) = 'DOUBLE' AND TRY_CAST({field} ->> '$' AS DOUBLE) = 0"
            )
        mismatch = f"{quoted(name)} IS NULL"
        if name in refused:
            mismatch = f"({mismatch} OR {refused[name]})"
        connection.execute(
            f"UPDATE {rows} SET _reason = {literal(f'`{name}` does not fit {kind}: ')} || "
            f"left(CAST({field} AS VARCHAR), 200) "
            f"WHERE _reason IS NULL AND {mismatch} AND json_type({field}) <> 'NULL'"
        )
    connection.execute(f"ALTER TABLE {rows} DROP COLUMN _value")


def read_as_spark(connection: duckdb.DuckDBPyConnection, records: str) -> None:
    """Rewrite JSON texts that DuckDB reads in another way than Spark.

    Of an object that is followed by other text, Spark reads the object; and of a name that an
    object has twice, the last value.

    Args:
        connection: The audit's database.
        records: Table with ``_value``, the JSON text; records with a ``_reason`` are left alone.
    """
    query = (
        f"SELECT DISTINCT _value FROM {records} WHERE _reason IS NULL AND NOT json_valid(_value)"
    )
    for (text,) in connection.execute(query).fetchall():
        with suppress(ValueError, RecursionError):
            _, end = JSONDecoder().raw_decode(text.lstrip(_BLANKS))
            whole = text.lstrip(_BLANKS)[:end]
            connection.execute(f"UPDATE {records} SET _value = ? WHERE _value = ?", [whole, text])
    connection.execute(
        f"UPDATE {records} SET _value = (SELECT json_group_object(key, kept) FROM "
        "(SELECT key, arg_max(value, id) AS kept FROM json_each(_value) GROUP BY key)) "
        "WHERE CASE WHEN _reason IS NULL AND json_valid(_value) AND json_type(_value) = 'OBJECT' "
        "THEN len(json_keys(_value)) <> len(list_distinct(json_keys(_value))) ELSE false END"
    )


def refuse_deep(connection: duckdb.DuckDBPyConnection, records: str) -> None:
    """Mark JSON texts as bad that are nested more deeply than Spark's parser allows.

    Args:
        connection: The audit's database.
        records: As for :func:`read_as_spark`.
    """
    brackets = "length(_value) - length(replace(replace(_value, '[', ''), '{', ''))"
    query = (
        f"SELECT DISTINCT _value FROM {records} WHERE _reason IS NULL AND {brackets} > {_LEVELS}"
    )
    for (text,) in connection.execute(query).fetchall():
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
        steps = ((each in "[{") - (each in "]}") for each in outside if each in "[{}]")
        if max(accumulate(steps), default=0) > _LEVELS:
            reason = f"the value is nested more than {_LEVELS:,} levels deep"
            change = f"UPDATE {records} SET _reason = ? WHERE _value = ?"
            connection.execute(change, [reason, text])


def refused_by_spark(types: Mapping[str, str]) -> dict[str, str]:
    """Return SQL conditions for values of JSON records that DuckDB converts and Spark refuses.

    Args:
        types: DuckDB types by column.

    Returns:
        By column, a condition over ``_value`` and the column; only for types that need one.
    """
    return {
        name: _REFUSED_BY_SPARK[_without_digits(kind)].format(
            f"json_type({_json_field(name)})", quoted(name), f"({_json_field(name)} ->> '$')"
        )
        for name, kind in types.items()
        if _without_digits(kind) in _REFUSED_BY_SPARK
    }


def _without_digits(kind: str) -> str:
    return "DECIMAL" if kind.startswith("DECIMAL(") else kind


def refused_json(field: pa.Field) -> str:
    """Return an SQL condition that a field of the JSON object ``_value`` is bad.

    It is bad if its value does not fit the field's type, or if the object has it twice.
    """
    mismatch = _json_mismatch(_json_field(field.name), field.type)
    return f"({mismatch} OR {_is_twice(field.name, '_value')})"


def _is_twice(name: str, value: str) -> str:
    """Return an SQL condition that a JSON object has a member twice."""
    return f"len([name FOR name IN json_keys({value}) IF name = {literal(name)}]) > 1"


def refused_csv(column: str, kind: pa.DataType) -> str:
    """Return an SQL condition that the text of a CSV value is neither null nor of a type.

    Args:
        column: SQL of the text, null for a null value.
        kind: Declared type.
    """
    family = _family(kind)
    if family == "text":
        return "false"
    form = literal(_CSV_FORMS[family])
    mismatch = f"NOT regexp_full_match({column}, {form}) OR {_inexact(column, kind)}"
    return f"({column} IS NOT NULL AND ({mismatch}))"


def _family(kind: pa.DataType) -> str:
    """Return the same name for all types whose values have the same textual form."""
    families = {
        "boolean": pa.types.is_boolean,
        "integer": pa.types.is_integer,
        "number": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "date": pa.types.is_date,
        "instant": pa.types.is_timestamp,
        "list": pa.types.is_list,
        "struct": pa.types.is_struct,
        "map": pa.types.is_map,
    }
    return next((family for family, is_of in families.items() if is_of(kind)), "text")


def _json_mismatch(field: str, kind: pa.DataType, depth: int = 0) -> str:
    """Return an SQL condition that a JSON value is neither null nor of a type.

    Args:
        field: SQL of the value, null if it is absent.
        kind: Declared type; items of lists and fields of structs are checked too.
        depth: Number of lists around the value.
    """
    family = _family(kind)
    types = _JSON_TYPES.get(family, _JSON_TYPES["text"])
    mismatches = [f"json_type({field}) NOT IN ({', '.join(map(literal, types))})"]
    if family == "list":
        item = f"item{depth}"
        inner = _json_mismatch(item, kind.value_type, depth + 1)
        mismatches.append(f"list_bool_or([{inner} FOR {item} IN json_extract({field}, '$[*]')])")
    elif family == "map":
        item = f"item{depth}"
        inner = _json_mismatch(item, kind.item_type, depth + 1)
        mismatches.append(f"list_bool_or([{inner} FOR {item} IN json_extract({field}, '$.*')])")
    elif family == "struct":
        mismatches += [
            _json_mismatch(_json_field(part.name, field), part.type, depth + 1) for part in kind
        ]
        mismatches += [_is_twice(part.name, field) for part in kind]
    elif family != "text":
        text = f"({field} ->> '$')"
        if family == "number":
            is_text = f"json_type({field}) = 'VARCHAR'"
            is_named = f"regexp_full_match({text}, {literal(_NOT_FINITE)})"
            mismatches.append(f"({is_text} AND NOT {is_named})")
        if family in _JSON_FORMS:
            mismatches.append(f"NOT regexp_full_match({text}, {literal(_JSON_FORMS[family])})")
        mismatches.append(_inexact(text, kind))
    is_present = f"coalesce(json_type({field}), 'NULL') <> 'NULL'"
    return f"({is_present} AND coalesce({' OR '.join(mismatches)}, false))"


def _inexact(text: str, kind: pa.DataType) -> str:
    """Return an SQL condition that DuckDB can't convert a text to a type, or would round it.

    Args:
        text: SQL of a text in the right form.
        kind: Type to convert to.
    """
    if pa.types.is_timestamp(kind):
        text = with_minutes(text)
    cast = f"TRY_CAST(trim({text}) AS {duckdb_type(kind)})"
    if pa.types.is_decimal(kind):
        exact = f"TRY_CAST(trim({text}) AS DECIMAL(38, {38 - kind.precision + kind.scale}))"
        return f"{cast} IS NULL OR {cast} <> {exact}"
    if pa.types.is_floating(kind):
        # A number that is too large is no infinity; the names of one have no digits.
        return f"{cast} IS NULL OR (isinf({cast}) AND regexp_matches({text}, '[0-9]'))"
    return f"{cast} IS NULL"


def _json_field(name: str, value: str = "_value") -> str:
    """Return SQL that extracts the member of a name from a JSON object, given as SQL too."""
    path = '$."' + name.replace('"', '\\"') + '"'
    return f"json_extract({value}, {literal(path)})"
