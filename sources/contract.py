"""Whether two sources agree on their columns: compared side by side, before anything is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from sources.errors import InputError
from sources.log import LogRecord
from sources.schema import differences, type_name


def check_key(columns: pa.Schema, key: Sequence[str], source: str) -> None:
    """Refuse key columns that a source does not have.

    Raises:
        InputError: Names the column and what there is.
    """
    for name in key:
        if name not in columns.names:
            message = f"`key`: source `{source}` has no column `{name}`."
            raise InputError(message, f"It has {', '.join(columns.names)}.")


def check_sequence(columns: pa.Schema, sequence: str | None, source: str) -> None:
    """Refuse a log-position column that a source does not have, or that is no integer.

    Raises:
        InputError: Names the column and what there is.
    """
    if sequence is None:
        return
    if sequence not in columns.names:
        message = f"`sequence`: source `{source}` has no column `{sequence}`."
        raise InputError(message, f"It has {', '.join(columns.names)}.")
    kind = columns.field(sequence).type
    if not pa.types.is_integer(kind):
        message = f"`sequence`: column `{sequence}` of source `{source}` is a {type_name(kind)}."
        raise InputError(message, "Log positions are integers (bigint).")


def compare_declared(left: str, columns: pa.Schema, right: str, others: pa.Schema) -> None:
    """Refuse two sources whose columns differ in name or type.

    Raises:
        InputError: The differences, side by side.
    """
    if rows := differences(columns, others):
        raise InputError(_side_by_side(f"source `{left}`", f"source `{right}`", rows))


def compare_sample(left: str, columns: pa.Schema, records: Sequence[LogRecord]) -> None:
    """Refuse a topic whose JSON records do not fit the columns they are to be read with.

    Args:
        left: Name of the source that the columns come from.
        columns: What is expected.
        records: A sample of it; an empty one proves nothing and passes.

    Raises:
        InputError: A record that is no JSON object (partition and offset), or the columns that
            don't agree, side by side.
    """
    seen: set[str] = set()
    rows: dict[str, tuple[str, str, str]] = {}
    for record in records:
        value = _decode(record)
        seen.update(value)
        for field in columns:
            found = value.get(field.name)
            if found is not None and not _fits(found, field.type):
                shown = f"{_json_type(found)}, as in {json.dumps(found)[:40]}"
                rows.setdefault(field.name, (field.name, type_name(field.type), shown))
    if records:
        for field in columns:
            if field.name not in seen:
                rows[field.name] = (field.name, type_name(field.type), "(missing)")
    if rows:
        extra = [(name, "(missing)", "present") for name in sorted(seen - set(columns.names))]
        topics = ", ".join(sorted({record.at.topic for record in records}))
        text = _side_by_side(f"source `{left}`", f"topic `{topics}`", [*rows.values(), *extra])
        raise InputError(text)


def _decode(record: LogRecord) -> dict[str, Any]:
    where = f"Topic `{record.at.topic}`, partition {record.at.partition}, offset {record.offset}"
    try:
        value = json.loads(record.value) if record.value is not None else None
    except ValueError as error:
        message = f"{where}: the value is not JSON: {error}."
        raise InputError(message, "Correct `topic` or the producer.") from None
    if not isinstance(value, dict):
        message = f"{where}: the value is no JSON object."
        raise InputError(message, "Correct `topic` or the producer.")
    return value


def _side_by_side(left: str, right: str, rows: Sequence[tuple[str, str, str]]) -> str:
    table = [("column", left, right), *rows]
    widths = [max(len(row[at]) for row in table) for at in range(3)]
    lines = [
        "    " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in table
    ]
    return "\n".join(
        ["The columns of the sources don't agree:", *(line.rstrip() for line in lines)]
    )


def _json_type(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}
    return names.get(type(value), "object")


def _fits(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_boolean(kind):
        return isinstance(value, bool)
    if pa.types.is_integer(kind):
        return isinstance(value, int) and not isinstance(value, bool)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_timestamp(kind):
        return isinstance(value, str) and _parses(datetime.fromisoformat, value)
    if pa.types.is_date(kind):
        return isinstance(value, str) and _parses(date.fromisoformat, value)
    if pa.types.is_list(kind):
        return isinstance(value, list)
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return isinstance(value, dict)
    return isinstance(value, str)


def _parses(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True
