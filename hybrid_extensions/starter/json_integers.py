"""Integers of more than 64 bits in JSON, for which DuckDB takes doubles, which round them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

_DIGITS = 38
_LINES = 20_000


def with_integers(path: Path, columns: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return the types of columns with ``decimal(38,0)`` in place of doubles that are all integers.

    So Spark infers them. The first 20,000 lines of the file count; if one of them is not JSON, the
    types stay as they are.

    Args:
        path: The file, which DuckDB can read.
        columns: Arrow types of its columns, as DuckDB infers them, by name.
    """
    if not any("double" in str(kind) for kind in columns.values()):
        return dict(columns)
    with pa.input_stream(str(path), compression="detect") as file:
        lines = [
            line for line in islice(io.TextIOWrapper(file, "utf-8-sig"), _LINES) if line.strip()
        ]
    try:
        rows = [json.loads(line, parse_int=_number) for line in lines]
    except (ValueError, RecursionError):
        # DuckDB takes it nevertheless, and the plan tells what is wrong with the line.
        return dict(columns)
    rows = [row for row in rows if isinstance(row, dict)]
    return {
        name: _exact(kind, [row[name] for row in rows if name in row])
        for name, kind in columns.items()
    }


def _number(text: str) -> int | float:
    return int(text) if len(text.lstrip("-")) <= _DIGITS else float(text)


def _exact(kind: pa.DataType, values: Iterable[Any]) -> pa.DataType:
    known = [value for value in values if value is not None]
    if pa.types.is_float64(kind):
        are_integers = known and all(type(value) is int for value in known)
        return pa.decimal128(_DIGITS, 0) if are_integers else kind
    if pa.types.is_list(kind):
        return pa.list_(_exact(kind.value_type, [item for value in known for item in value]))
    if pa.types.is_map(kind):
        items = [item for value in known for item in value.values()]
        return pa.map_(kind.key_type, _exact(kind.item_type, items))
    if pa.types.is_struct(kind):
        return pa.struct(
            [
                pa.field(each.name, _exact(each.type, [value.get(each.name) for value in known]))
                for each in kind
            ]
        )
    return kind
