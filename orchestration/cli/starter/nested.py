"""Fields of structs that become columns, as ``event.id`` of JSON, for ``hybrid init``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from sources.common.schema import parse_type, type_name
from sources.common.sql.sql_names import in_backticks


def columns_of_fields(columns: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return a name for a column by each name that is the path of a field of a struct.

    Args:
        columns: Names and Spark SQL types of the columns.
        names: Names that people gave; columns, and what is nothing, are passed over.

    Returns:
        Such as ``event_id`` by ``event.id``.
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


def _kind_of(columns: Mapping[str, str], name: str) -> pa.DataType | None:
    first, *rest = name.split(".")
    kind = parse_type(columns[first]) if first in columns else None
    for part in rest:
        if kind is None or not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            return None
        kind = kind.field(part).type
    return None if kind is None or pa.types.is_nested(kind) else kind
