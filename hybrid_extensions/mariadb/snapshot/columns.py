"""Columns of MariaDB or MySQL as Debezium reports them: types that may be declared; zero dates.

The connector's documentation defines the values:
https://debezium.io/documentation/reference/stable/connectors/mariadb.html#mariadb-data-types
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hybrid_extensions.cdc.databases.captured_table import Misfit
from hybrid_extensions.mariadb.snapshot.debezium_texts import (
    canonical_texts,
    json_expression,
    quoted,
    require_short_characters,
)
from sources.common.schema import TIMESTAMP, type_name
from sources.decoding.batch_cursor import DAYS, MICROS

_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"}
_BLOBS = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_GEOMETRIES = {
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
    *("multipolygon", "geometrycollection", "geomcollection"),
}
_KNOWN = {
    *_INTEGERS,
    *_TEXTS,
    *_BLOBS,
    *_GEOMETRIES,
    *("decimal", "float", "double", "bit", "year", "date", "datetime", "timestamp", "time"),
}
_SIZES = {
    "tinyint": ("tinyint", "smallint"),
    "smallint": ("smallint", "int"),
    "mediumint": ("int", "int"),
    "int": ("int", "bigint"),
    "bigint": ("bigint", "decimal(20,0)"),
    "year": ("int", "int"),
}
_MOST_DIGITS = 38
_WIDEST_BITS = "bit(64)"
_UNSIGNED = re.compile(r"\bunsigned\b")
_TIME = r"^(?P<sign>-?)(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)(?:\.(?P<part>\d+))?$"


class Column(NamedTuple):
    """Column of a table in the database.

    Attributes:
        name: Name of the column.
        kind: Type without parameters, as ``information_schema`` has it, such as ``int``.
        full: Type with parameters, such as ``int(10) unsigned``.
        is_nullable: Whether it may be null.
        has_default: Whether it has a default other than null.
        collation: Collation of its values; None if it is no text.
    """

    name: str
    kind: str
    full: str
    is_nullable: bool
    has_default: bool
    collation: str | None

    @property
    def is_boolean(self) -> bool:
        """Whether the type is ``tinyint(1)``, MySQL's ``boolean``, or a single bit."""
        return self.full.startswith("tinyint(1)") or self.full == "bit(1)"


def require_type(column: Column, declared: pa.DataType) -> None:
    """Refuse a column whose snapshot would not equal its changes under the declared type.

    Args:
        column: The column.
        declared: Arrow type of the column in the ``schema``.

    Raises:
        Misfit: Names the column, its type, and which types may be declared.
    """
    fitting = _fitting(column)
    if not fitting:
        message = (
            f"column `{column.name}` is of the type `{column.full}`, which Debezium can't capture: "
            "list it in `ignored_columns` and in the connector's `column.exclude.list`"
        )
        raise Misfit(message)
    if _is_escaped(column):
        message = (
            f"column `{column.name}` is of the type `{column.full}`; Debezium writes a backslash "
            "before commas in the names of an enumeration: rename them, or make it a varchar"
        )
        raise Misfit(message)
    if not any(_is(declared, name) for name in fitting):
        message = (
            f"column `{column.name}` is of the type `{column.full}`, whose changes are no "
            f"{type_name(declared)}: declare {' or '.join(fitting)}"
        )
        if _is_big(column):
            message += ", and set `bigint.unsigned.handling.mode=precise` in the connector"
        raise Misfit(message)


def declared_type(column: Column) -> str | None:
    """Return the Spark SQL type that holds every value of a MariaDB or MySQL column, or None.

    It is one of those that :func:`require_type` takes; None if the column can't be captured.
    ``tinyint(1)`` is a number, as it may hold more than 0 and 1.

    Args:
        column: The column.
    """
    if column.kind not in _KNOWN or _is_escaped(column):
        return None
    if column.kind == "decimal":
        digits, _, scale = column.full.partition("(")[2].partition(")")[0].partition(",")
        return f"decimal({digits},{scale or 0})" if int(digits) <= _MOST_DIGITS else None
    if _is_big(column) or column.full == _WIDEST_BITS:
        return "decimal(20,0)"
    if column.kind in _SIZES:
        size, unsigned = _SIZES[column.kind]
        return unsigned if _UNSIGNED.search(column.full) else size
    return _fitting(column)[0]


def expression(column: Column) -> str:
    """Return SQL for a column, as text that :func:`typed` converts to the declared type.

    Args:
        column: A column that :func:`require_type` has accepted.
    """
    name = quoted(column.name)
    if column.kind == "float":
        # As text, it would have six digits.
        return f"{name} + 0e0"
    if column.kind == "bit":
        return f"{name} + 0"
    if column.kind in _GEOMETRIES:
        # Otherwise MySQL, which alone reads this comment, has the axes of the reference system.
        return f"ST_AsBinary({name} /*!80000 , 'axis-order=long-lat' */)"
    if column.kind == "json":
        return json_expression(column.name)
    return name


def typed(column: Column, declared: pa.Field, values: pa.Array) -> pa.Array:
    """Return values as the server sends them, converted to the declared type.

    Zero dates become null, as with Debezium.

    Args:
        column: The column in the database.
        declared: Its name and type in the ``schema``.
        values: Binary values, the text of each; null for a null.

    Raises:
        Misfit: A value does not fit the declared type; or there is a zero date in a column that is
            not nullable or a ``timestamp``.
    """
    if pa.types.is_binary(declared.type):
        return values
    texts = values.cast(pa.string())
    if column.kind == "time":
        texts = _micros(texts)
    if column.kind == "json":
        texts = canonical_texts(column.name, texts)
    if column.kind in ("enum", "set"):
        require_short_characters(column.name, column.kind, texts)
    if column.kind in ("date", "datetime", "timestamp"):
        texts = _without_zeros(column, texts)
    try:
        if declared.type == TIMESTAMP:
            found = texts.cast(pa.timestamp("us")).cast(TIMESTAMP)
        elif pa.types.is_floating(declared.type):
            found = texts.cast(pa.float64()).cast(declared.type)
        else:
            found = texts.cast(declared.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = (
            f"column `{column.name}` has a value that is no {type_name(declared.type)}: {error}"
        )
        raise Misfit(message) from None
    if declared.type in (pa.date32(), TIMESTAMP):
        plain, (low, high) = (
            (pa.int32(), DAYS) if declared.type == pa.date32() else (pa.int64(), MICROS)
        )
        ends = pc.min_max(found.view(plain)).as_py()
        if ends["min"] is not None and not low <= ends["min"] <= ends["max"] <= high:
            message = f"column `{column.name}` has a value that is not in year 1 to 9999"
            raise Misfit(message)
    return found


def _fitting(column: Column) -> list[str]:
    """Return the types that may be declared for a column; empty if it can't be captured."""
    if column.kind not in _KNOWN:
        return []
    if _is_big(column):
        return ["decimal(20,0)"]
    if column.kind == "year":
        return ["int", "bigint", "smallint"]
    if column.kind in _INTEGERS:
        boolean = ["boolean"] if column.is_boolean else []
        return ["bigint", "int", "smallint", "tinyint", "decimal", "double", *boolean]
    if column.kind == "bit":
        wide = ["decimal(20,0)"] if column.full == _WIDEST_BITS else []
        return ["boolean"] if column.full == "bit(1)" else [*wide, "bigint", "int", "smallint"]
    if column.kind == "decimal":
        return ["decimal", "string"]
    if column.kind in _TEXTS:
        return ["string"]
    if column.kind in _BLOBS | _GEOMETRIES:
        return ["binary"]
    return {
        "float": ["float"],
        "double": ["double"],
        "date": ["date"],
        "datetime": ["timestamp"],
        "timestamp": ["timestamp"],
        # Microseconds: a time may be negative, or longer than a day.
        "time": ["bigint"],
    }[column.kind]


def _is_escaped(column: Column) -> bool:
    """Return whether Debezium writes backslashes into names of an enumeration."""
    return column.kind == "enum" and any({*name} & {",", "\\"} for name in _options(column))


def _options(column: Column) -> list[str]:
    """Return the names of an enumeration."""
    return re.findall(r"'((?:[^']|'')*)'", column.full)


def _is_big(column: Column) -> bool:
    return column.kind == "bigint" and _UNSIGNED.search(column.full) is not None


def _is(declared: pa.DataType, name: str) -> bool:
    """Return whether a declared type is the one of this name; ``decimal`` is one of any size."""
    return type_name(declared) == name or (name == "decimal" and pa.types.is_decimal(declared))


def _micros(texts: pa.Array) -> pa.Array:
    """Convert times, which may be negative or longer than a day, to microseconds."""
    parts = pc.extract_regex(texts, _TIME)
    sign, hours, minutes, seconds, part = (
        pc.struct_field(parts, name) for name in ("sign", "hours", "minutes", "seconds", "part")
    )
    whole = pc.multiply(hours.cast(pa.int64()), 3600)
    whole = pc.add(whole, pc.multiply(minutes.cast(pa.int64()), 60))
    whole = pc.add(whole, seconds.cast(pa.int64()))
    micros = pc.utf8_rpad(part, 6, "0").cast(pa.int64())
    total = pc.add(pc.multiply(whole, 1_000_000), micros)
    return pc.if_else(pc.equal(sign, "-"), pc.negate(total), total)


def _without_zeros(column: Column, texts: pa.Array) -> pa.Array:
    """Replace zero dates, as 0000-00-00 or 2024-00-15, by null, as Debezium does."""
    # Only month and day are two digits after a hyphen; an array of nulls has no type to compare.
    zeros = pc.fill_null(pc.match_substring(texts, "-00"), False)
    if not pc.any(zeros).as_py():
        return texts
    if not column.is_nullable or column.kind == "timestamp":
        message = (
            f"column `{column.name}` has a zero date, which Debezium reports as 1970-01-01: "
            f"replace it by a date{', or by null' if column.is_nullable else ''}"
        )
        raise Misfit(message)
    return pc.if_else(zeros, pa.scalar(None, pa.string()), texts)
