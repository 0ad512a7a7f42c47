"""Nested fields (of structs, as ``event.id`` of JSON) that become columns, for ``hybrid init``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from sources.common.schema import parse_type, type_name
from sources.common.sql.sql_names import in_backticks


def columns_of_fields(columns: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return a name for a column by each name that is the path of a field of a struct.

    Args:
        columns: Names and Spark SQL types of the columns.
        names: Names that people gave; names of columns, and unknown names, are left out.

    Returns:
        By path, such as ``event.id``, the column's name, such as ``event_id``; without those whose
        name a column has already.
    """
    found = {}
    for name in names:
        if name not in columns and _kind_of(columns, name) is not None:
            found[name] = name.replace(".", "_")
    return {name: made for name, made in found.items() if made not in columns}


def expression_of(columns: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return a field in Spark SQL, with its type declared, and this type.

    Args:
        columns: Names and Spark SQL types of the columns.
        name: Path of a field that there is, such as ``event.id``.
    """
    kind = type_name(_kind_of(columns, name))
    path = ".".join(part if part.isidentifier() else in_backticks(part) for part in name.split("."))
    return f"CAST({path} AS {kind.upper()})", kind


def fields_of_type(columns: Mapping[str, str], kind: str) -> list[str]:
    """Return the paths of all fields of structs that have a type, such as ``event.at``.

    Columns themselves are left out; maybe none.

    Args:
        columns: Names and Spark SQL types of the columns.
        kind: The Spark SQL type.
    """
    types = [(name, parse_type(text)) for name, text in columns.items()]
    # It grows while it is read: by the fields of each struct.
    for path, each in types:
        if pa.types.is_struct(each):
            types += [(f"{path}.{field.name}", field.type) for field in each]
    return [path for path, each in types if path not in columns and type_name(each) == kind]


def _kind_of(columns: Mapping[str, str], name: str) -> pa.DataType | None:
    first, *rest = name.split(".")
    kind = parse_type(columns[first]) if first in columns else None
    for part in rest:
        if kind is None or not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            return None
        kind = kind.field(part).type
    return None if kind is None or pa.types.is_nested(kind) else kind
