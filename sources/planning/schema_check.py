"""Whether two sources agree on their columns: compared side by side, before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sources.common.schema import differences, type_name
from sources.common.topic_log import LogRecord
from sources.decoding.base import FieldReader
from sources.decoding.conversion import BadValue
from sources.decoding.decoder import NO_VALUE
from sources.errors import InputError


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


def compare_sample(
    left: str,
    columns: pa.Schema,
    records: Sequence[LogRecord],
    reader: FieldReader,
    *,
    tolerant: bool = False,
) -> list[str]:
    """Refuse a topic whose records do not fit the columns they are to be read with.

    Args:
        left: Name of the source that the columns come from.
        columns: What is expected of the values.
        records: A sample of the topic; an empty one proves nothing and passes.
        reader: Takes the values apart.
        tolerant: Bad records are expected: refuse only if no record fits.

    Returns:
        What is to be said of bad records that are expected.

    Raises:
        InputError: A record that can't be read (topic, partition and offset), or the columns that
            don't agree, side by side.
    """
    seen: set[str] = set()
    rows: dict[str, tuple[str, str, str]] = {}
    unread: list[str] = []
    unfit = 0
    for record in records:
        try:
            value = _read(record, reader)
        except InputError as error:
            if not tolerant:
                raise
            unread.append(error.message)
            continue
        seen.update(value)
        unfit += bool(found := _misfits(value, columns, reader))
        rows = {**found, **rows}
    read = len(records) - len(unread)
    if tolerant and unfit < read:
        rows = {}
    if read:
        for field in columns:
            if field.name not in seen:
                rows[field.name] = (field.name, type_name(field.type), "(missing)")
    if rows:
        extra = [(name, "(missing)", "present") for name in sorted(seen - set(columns.names))]
        topics = ", ".join(sorted({record.partition.topic for record in records}))
        text = _side_by_side(f"source `{left}`", f"topic `{topics}`", [*rows.values(), *extra])
        raise InputError(text)
    if bad := len(unread) + unfit:
        first = f" {unread[0]}" if unread else ""
        return [f"{bad} of {len(records)} records looked at are bad.{first}"]
    return []


def _misfits(
    value: Mapping[str, Any], columns: pa.Schema, reader: FieldReader
) -> dict[str, tuple[str, str, str]]:
    """By column: its name, its type, and what a value has instead."""
    return {
        field.name: (field.name, type_name(field.type), other)
        for field in columns
        if (other := reader.misfit(value.get(field.name), field.type)) is not None
    }


def _read(record: LogRecord, reader: FieldReader) -> Mapping[str, Any]:
    try:
        if record.value is None:
            raise BadValue(NO_VALUE)
        return reader.fields(record.value)
    except BadValue as error:
        where = f"Topic `{record.partition.topic}`, partition {record.partition.partition}"
        message = f"{where}, offset {record.offset}: {error}."
        raise InputError(message, "Correct `topic`, `format` or the producer.") from None


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
