"""Types of columns: Spark SQL's names for Arrow's, and which type Spark gives a file's column.

All parts of the project describe columns by an Arrow schema; people read and write the type names
of Spark SQL (https://spark.apache.org/docs/latest/sql-ref-datatypes.html).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from sources.common.sql.sql_names import in_backticks
from sources.errors import InputError

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""Arrow type of all timestamps, whatever unit a file has: microseconds in UTC, as in Spark."""

_BY_NAME: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_ALIASES = {"integer": "int", "long": "bigint", "bool": "boolean", "short": "smallint"}
_NAMES = {arrow: name for name, arrow in _BY_NAME.items()} | {pa.null(): "void"}
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.IGNORECASE)
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FIELD_ID = b"PARQUET:field_id"

# What Spark reads of Parquet: unsigned integers into the next type that holds them, and what only
# Arrow's own schema knows as the column that it is stored as.
_WIDENED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.large_string(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.large_binary(): pa.binary(),
}
MOST_DIGITS = 38
"""Digits of the widest decimal of Spark SQL."""


_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def parse_type(name: str) -> pa.DataType:
    """Return the Arrow type for a Spark SQL type name such as ``bigint`` or ``decimal(10,2)``.

    Nested types such as ``array<struct<id:bigint>>`` are parsed, too; case does not matter.

    Raises:
        InputError: The name is not a type of Spark SQL that this project supports; or it has a
            struct with two fields that differ at most in case, or a decimal of more than 38 digits
            or with more digits after the point than digits.

    """
    lowered = name.strip().lower()
    lowered = _ALIASES.get(lowered, lowered)
    if decimal := _DECIMAL.fullmatch(lowered):
        return _decimal(int(decimal[1]), int(decimal[2]), name)
    if nested := _NESTED.fullmatch(name.strip()):
        return _parse_nested(nested[1].lower(), _split_top_level(nested[2]), name)
    try:
        return _BY_NAME[lowered]
    except KeyError:
        message = f"`{name}` is not a column type of Spark SQL that is supported."
        hint = (
            f"Use one of {', '.join(_BY_NAME)}, decimal(10,2), array<type>, map<type,type> or "
            "struct<name:type,…>."
        )
        raise InputError(message, hint, value=name) from None


def _decimal(precision: int, scale: int, name: str) -> pa.DataType:
    if not 1 <= precision <= MOST_DIGITS or scale > precision:
        message = f"`{name}` is not a decimal type of Spark SQL."
        hint = f"Declare decimal(p,s) with 1 to {MOST_DIGITS} digits, s of them after the point."
        raise InputError(message, hint, value=name)
    return pa.decimal128(precision, scale)


def _parse_nested(kind: str, parts: list[str], name: str) -> pa.DataType:
    if kind == "array" and len(parts) == 1:
        return pa.list_(parse_type(parts[0]))
    if kind == "map" and len(parts) == 2:
        return pa.map_(parse_type(parts[0]), parse_type(parts[1]))
    fields = [part.partition(":") for part in parts]
    if kind == "struct" and all(separator for _, separator, _ in fields):
        _require_distinct([field.strip() for field, _, _ in fields])
        return pa.struct([(field.strip(), parse_type(inner)) for field, _, inner in fields])
    message = f"`{name}` is not a column type: the types inside its brackets don't fit `{kind}`."
    hint = "Write array<type>, map<type,type> or struct<name:type,…>, such as array<bigint>."
    raise InputError(message, hint, value=name)


def _split_top_level(text: str) -> list[str]:
    """Split a text at commas outside of brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def parse_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return an Arrow schema, all columns nullable, for column names and Spark SQL type names.

    Args:
        columns: Spark SQL type name by column name.

    Raises:
        InputError: A type is not supported, as :func:`parse_type` says.
    """
    return pa.schema([pa.field(name, parse_type(kind)) for name, kind in columns.items()])


def alike_names(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that Spark takes for equal (they differ in case); else None.

    A name that is there twice in the same case does not count.
    """
    by_case: dict[str, str] = {}
    for name in names:
        if (other := by_case.setdefault(name.lower(), name)) != name:
            return other, name
    return None


def _require_distinct(names: Sequence[str]) -> None:
    """Refuse fields of a struct that Spark does not tell apart.

    Raises:
        InputError: Two names are the same, or differ only in case.
    """
    by_case: dict[str, str] = {}
    for name in names:
        if (other := by_case.get(name.lower())) is not None:
            message = (
                f"A struct has the fields `{other}` and `{name}`, which Spark does not tell apart."
            )
            hint = "Give one of them another name, or leave the column out of a declared `schema`."
            raise InputError(message, hint, column=name)
        by_case[name.lower()] = name


def type_name(kind: pa.DataType) -> str:
    """Return the Spark SQL name of an Arrow type, such as ``bigint`` for ``int64``.

    Args:
        kind: Arrow type that :func:`normalize` or :func:`parse_type` has returned.

    Raises:
        KeyError: It is another Arrow type, such as ``uint8``.
    """
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind)}>"
    return _NAMES[kind]


def names_and_types(schema: pa.Schema) -> dict[str, str]:
    """Return the Spark SQL type name of each column, by column name.

    Args:
        schema: Schema that :func:`parse_schema` or :func:`normalize_schema` has returned.

    Raises:
        KeyError: A column has an Arrow type that Spark does not have.
    """
    return {field.name: type_name(field.type) for field in schema}


def may_be_long(kind: pa.DataType) -> bool:
    """Return whether a type is text, bytes, a list or a map, whose values have no fixed size.

    PostgreSQL may leave such a value out of its log if an update does not change it (TOAST). False
    for a struct, even of such values.
    """
    is_flat = pa.types.is_string(kind) or pa.types.is_binary(kind)
    return bool(is_flat or pa.types.is_list(kind) or pa.types.is_map(kind))


def ddl(schema: pa.Schema) -> str:
    """Return a schema as a DDL string for Spark's readers, such as "`id` bigint, `at` timestamp".

    Args:
        schema: Schema that :func:`parse_schema` or :func:`normalize_schema` has returned.

    Raises:
        KeyError: A column has an Arrow type that Spark does not have.
    """
    return ", ".join(f"{in_backticks(each.name)} {type_name(each.type)}" for each in schema)


def leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the primitive types inside a nested type, depth first; a primitive type itself.

    Of a map the types of its keys, then those of its values. Nothing for a struct without fields.
    """
    if not pa.types.is_nested(kind):
        yield kind
    for at in range(kind.num_fields):
        yield from leaves(kind.field(at).type)


def with_leaves(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type in which each primitive type, also within lists, maps and structs, is replaced.

    Args:
        kind: The type, as :func:`normalize` or :func:`parse_type` returns it.
        change: Function from a primitive type to the one that replaces it.
    """
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_leaves(field.type, change)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(with_leaves(kind.key_type, change), with_leaves(kind.item_type, change))
    if pa.types.is_list(kind):
        return pa.list_(with_leaves(kind.value_type, change))
    return change(kind)


def is_open(kind: pa.DataType) -> bool:
    """Return whether Spark has no type for this one, so that other files or people must give it.

    True if the type, or a part of it, is Arrow's null, or a decimal of more than 38 digits.
    """
    return any(
        pa.types.is_null(leaf) or (pa.types.is_decimal(leaf) and leaf.precision > MOST_DIGITS)
        for leaf in leaves(kind)
    )


def normalize(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark gives a file's column.

    Timestamps become microseconds in UTC (also without a zone: Spark and Arrow write Parquet's
    INT96 that way, and our sessions are in UTC), dictionaries their values, durations bigint,
    fixed-size binary binary, and unsigned integers the next wider type (of 64 bits decimal(20,0));
    parts of nested types likewise. A type that :func:`is_open` (null throughout, or a decimal of
    too many digits) is returned unchanged.

    Args:
        kind: Arrow type of the column in the file.

    Raises:
        InputError: Spark has no type for such values, or for a part of a nested type; or fields of
            a struct differ only in case.
    """
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if isinstance(kind, pa.BaseExtensionType):
        return normalize(kind.storage_type)
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return normalize(kind.value_type)
    if any(is_list(kind) for is_list in _LISTS):
        return pa.list_(normalize(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(normalize(kind.key_type), normalize(kind.item_type))
    if pa.types.is_struct(kind):
        _require_distinct([field.name for field in kind])
        return pa.struct([pa.field(field.name, normalize(field.type)) for field in kind])
    if pa.types.is_decimal(kind) and kind.precision <= MOST_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if kind in _NAMES or is_open(kind):
        return kind
    if kind in _WIDENED:
        return _WIDENED[kind]
    raise no_type(kind)


def no_type(kind: pa.DataType) -> InputError:
    """Return the error, for the caller to raise, for values of an Arrow type that Spark lacks."""
    message = f"Spark SQL has no type for values of Arrow type `{kind}`."
    hint = (
        "Write the files again with a type that Spark reads: "
        f"{', '.join(_BY_NAME)}, decimal of up to {MOST_DIGITS} digits, or a list, map or struct "
        "of these; or leave the column out of a declared `schema`."
    )
    return InputError(message, hint, value=str(kind))


def normalize_schema(schema: pa.Schema, *, may_be_open: bool = False) -> pa.Schema:
    """Return the schema that Spark gives a file's columns (:func:`normalize`); all are nullable.

    Names that differ only in case pass.

    Args:
        schema: Arrow schema of a file.
        may_be_open: Whether columns may keep a type that :func:`is_open`, as other files decide it.

    Raises:
        InputError: Spark has no type for a column, or there are two of its name; names the column.
    """
    fields: list[pa.Field] = []
    known: set[str] = set()
    for field in schema:
        if field.name in known:
            message = f"Two columns have the same name, `{field.name}`."
            hint = (
                "Write each file that has them again, with different names. Or, if the table does "
                f"not need `{field.name}`, declare a `schema` for the source with the other "
                "columns only: neither of the two is read then."
            )
            raise InputError(message, hint, column=field.name)
        known.add(field.name)
        try:
            kind = normalize(field.type)
            if is_open(kind) and not may_be_open:
                raise no_type(kind)
            fields.append(pa.field(field.name, kind))
        except InputError as error:
            message = f"Column `{field.name}`: {error.message}"
            raise InputError(message, error.hint, column=field.name) from None
    return pa.schema(fields)


def differences(left: pa.Schema, right: pa.Schema) -> list[tuple[str, str, str]]:
    """Return the columns that two schemas do not share, or that have different types in them.

    The order of columns is no difference: sources are combined by name. Names are compared with
    their case. Columns come in the order of ``left``, then the others of ``right``.

    Returns:
        Tuples of column, type in ``left`` and type in ``right`` (Spark SQL names), ``(missing)``
        where a schema does not have the column; empty if the schemas agree.

    Raises:
        KeyError: A column has an Arrow type that Spark does not have.
    """
    names = [*left.names, *(name for name in right.names if name not in left.names)]
    rows = []
    for name in names:
        pair = [
            type_name(schema.field(name).type) if name in schema.names else "(missing)"
            for schema in (left, right)
        ]
        if pair[0] != pair[1]:
            rows.append((name, pair[0], pair[1]))
    return rows


def check_event_time(columns: pa.Schema, event_time: str, where: str) -> None:
    """Refuse columns of a source that lack the event-time column, or have it in another type.

    Names are compared with their case.

    Args:
        columns: Columns of a source.
        event_time: Name of the pipeline's event-time column.
        where: What the columns belong to, for the message, such as a file.

    Raises:
        InputError: The column is missing, or its type is not timestamp.
    """
    if event_time not in columns.names:
        message = (
            f"`event_time: {event_time}` is not in {where}, which has the columns "
            f"{', '.join(columns.names)}."
        )
        hint = (
            "Name one of these columns as `event_time`, or compute the column in `select` of "
            "the source; then plan again: `hybrid plan P`."
        )
        raise InputError(message, hint, column=event_time, field="event_time")
    kind = columns.field(event_time).type
    if kind != TIMESTAMP:
        message = (
            f"`event_time: {event_time}` is of type {type_name(kind)} in {where}; it must be a "
            "timestamp."
        )
        hint = (
            f"Convert it in `select`, such as `{event_time}: timestamp_millis({event_time})` for "
            f"milliseconds; or declare `{event_time}: timestamp` in a `schema` of CSV or JSON."
        )
        raise InputError(message, hint, column=event_time, field="event_time")


def field_id(field: pa.Field) -> int | None:
    """Return the field id (``PARQUET:field_id``) of a Parquet file's column; None without one."""
    number = (field.metadata or {}).get(_FIELD_ID)
    return None if number is None else int(number)
