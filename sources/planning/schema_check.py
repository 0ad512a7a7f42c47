"""Schema check: the columns of sources are compared, before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sources.common.conversion import BadValue
from sources.common.schema import differences, type_name
from sources.common.topic_log import LogRecord
from sources.decoding.base import FieldReader
from sources.decoding.row_decoder import NO_VALUE
from sources.errors import InputError


def check_key(columns: pa.Schema, key: Sequence[str], source: str) -> None:
    """Refuse a pipeline's ``key`` that names a column which a source does not have.

    Names are compared with their case.

    Args:
        columns: Output columns of the source.
        key: Names of the key columns; an empty one passes.
        source: Name of the source.

    Raises:
        InputError: Names the missing column, and the columns that the source has.
    """
    for name in key:
        if name not in columns.names:
            message = f"`key`: source `{source}` has no column `{name}`."
            hint = (
                "Add the column to the source's `select` or `schema`, or correct `key`; the source "
                f"has {', '.join(columns.names)}."
            )
            raise InputError(message, hint, source=source, column=name, field="key")


def check_sequence(columns: pa.Schema, sequence: str | None, source: str) -> None:
    """Refuse a ``sequence`` column that a source does not have, or that is not an integer.

    The column holds a row's position in the database's log, by which changes are ordered; names are
    compared with their case.

    Args:
        columns: Output columns of the source.
        sequence: Name of the column, if one is declared; None passes.
        source: Name of the source.

    Raises:
        InputError: The column is missing, or of another type.
    """
    if sequence is None:
        return
    if sequence not in columns.names:
        message = f"`sequence`: source `{source}` has no column `{sequence}`."
        hint = (
            "Add the column to the source's `select` or `schema`, or correct `sequence`; it "
            f"has {', '.join(columns.names)}."
        )
        raise InputError(message, hint, source=source, column=sequence, field="sequence")
    kind = columns.field(sequence).type
    if not pa.types.is_integer(kind):
        message = (
            f"`sequence`: column `{sequence}` of source `{source}` is of type {type_name(kind)}, "
            "but log positions are integers."
        )
        hint = "Name a column of type bigint, or cast it in the source's `select`."
        raise InputError(message, hint, source=source, column=sequence, field="sequence")


_SAME_COLUMNS = "Change `schema` or `select` of one of the sources so that their columns agree."
_FITTING_TOPIC = "Correct `schema` or `select` of the topic's source, or of a source before it."


def compare_declared(left: str, columns: pa.Schema, right: str, others: pa.Schema) -> None:
    """Refuse two sources whose output columns differ in name or type: one transform reads both.

    Their order does not matter. Called while a plan is made.

    Args:
        left: Name of one source.
        columns: Its output columns.
        right: Name of the other source.
        others: The columns of that one.

    Raises:
        InputError: Shows the differing columns of ``left`` and ``right`` side by side.
    """
    if rows := differences(columns, others):
        text = _side_by_side(f"source `{left}`", f"source `{right}`", rows)
        raise InputError(text, _SAME_COLUMNS, source=right, column=rows[0][0])


def compare_sample(
    left: str,
    columns: pa.Schema,
    records: Sequence[LogRecord],
    reader: FieldReader,
    *,
    tolerant: bool = False,
    may_lack: bool = False,
) -> list[str]:
    """Refuse a topic whose sampled records don't fit the columns; return warnings.

    Args:
        left: Name of the source that the columns come from.
        columns: Columns that values have to fill.
        records: Sample of the topic; an empty one passes.
        reader: Reader of the fields of a value.
        tolerant: Whether bad records are tolerated: then the sample is refused only if no record
            fits.
        may_lack: Whether a column may be absent from all records: values carry no schema.

    Returns:
        Warnings about bad records that are tolerated; an empty list if all fit.

    Raises:
        InputError: Without ``tolerant`` a record can't be read (names topic, partition and offset);
            or columns differ (shows them side by side).
        UnavailableError: The schema registry does not answer.
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
        misfits = _misfits(value, columns, reader)
        unfit += bool(misfits)
        rows = {**misfits, **rows}
    read = len(records) - len(unread)
    if tolerant and unfit < read:
        rows = {}
    if read and (rows or not may_lack):
        for field in columns:
            if field.name not in seen:
                rows[field.name] = (field.name, type_name(field.type), "(missing)")
    if rows:
        extra = [(name, "(missing)", "present") for name in sorted(seen - set(columns.names))]
        topics = ", ".join(sorted({record.partition.topic for record in records}))
        text = _side_by_side(f"source `{left}`", f"topic `{topics}`", [*rows.values(), *extra])
        raise InputError(text, _FITTING_TOPIC, topic=topics, column=next(iter(rows)))
    if bad := len(unread) + unfit:
        first = f" {unread[0]}" if unread else ""
        return [f"{bad} of {len(records)} sampled records are bad.{first}"]
    return []


def _misfits(
    value: Mapping[str, Any], columns: pa.Schema, reader: FieldReader
) -> dict[str, tuple[str, str, str]]:
    """Return name, type and type of the value for each column that a value does not fit."""
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
        topic, number = record.partition
        offset = record.offset
        message = f"Topic `{topic}`, partition {number}, offset {offset}: {error}."
        hint = (
            "Correct `topic`, `format` or `schema` of the source. If they are right, correct the "
            "producer; to continue without such records, declare `on_bad_record: quarantine`, "
            "which keeps them in a table."
        )
        raise InputError(message, hint, topic=topic, partition=number, offset=offset) from None


def _side_by_side(left: str, right: str, rows: Sequence[tuple[str, str, str]]) -> str:
    table = [("column", left, right), *rows]
    widths = [max(len(row[place]) for row in table) for place in range(3)]
    lines = [
        "    " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in table
    ]
    return "\n".join(
        [
            "The columns of the sources differ:",
            *(line.rstrip() for line in lines),
        ]
    )
