"""Deletes by key: what ``on_tombstone: delete`` needs to find the row of a record without value."""

from __future__ import annotations

from sources.config.source.kafka_source import KafkaSource
from sources.config.table.sink import Sink
from sources.decoding.tombstones import RowOfKey

_ROWS_OF_FILES = (
    "and let a source of files before it select its columns and `{name}: CAST(false AS BOOLEAN)`"
)


def row_to_delete(source: KafkaSource, sink: Sink, event_time: str) -> RowOfKey:
    """Return the source's columns that a tombstone (a key, no value) fills to delete a row.

    Those of the key, which find the row, and the event time, which orders the deletion.

    Args:
        source: The source that declares ``on_tombstone: delete``.
        sink: The target.
        event_time: Name of the event-time column.

    Raises:
        ValueError: The sink does not find, order and remove the rows; says what is lacking, and
            what to declare.
    """
    included = source.record_columns
    marks = [name for name, part in included.items() if part == "tombstone"]
    name = sink.deleted or (marks[0] if marks else "_deleted")
    time = _plain(source, event_time)
    keys = {key: _plain(source, key) for key in sink.key}
    needed = None
    if sink.mode != "merge":
        needed = "`sink.mode: merge`, as appended rows are not removed; or declare `ignore`"
    elif source.format == "raw":
        needed = "no `format: raw`: such a record has the columns of its key, and no others"
    elif computed := [key for key, column in keys.items() if column is None]:
        needed = _as_it_is(computed[0], "the record's key has it")
    elif time is None:
        needed = _as_it_is(event_time, "the record's timestamp is it")
    elif not sink.order or not {_plain(source, each) for each in sink.order} <= {*included, time}:
        needed = (
            "`sink.sequence` to be a column that such a record has: the event time "
            f"`{event_time}`, which is then its timestamp, or one that `include` fills"
        )
    elif sink.deleted is None or marks != [_plain(source, sink.deleted)]:
        selected = f" (and in `select`, as `{name}: {name}`)" if source.select else ""
        needed = (
            f"`include: {{{name}: tombstone}}` for this source{selected} and "
            f"`sink.deleted: {name}`, {_ROWS_OF_FILES.format(name=name)}"
        )
    elif lacking := [key for key, column in keys.items() if column in included]:
        needed = f"`sink.key` to be columns of the records' keys, which `{lacking[0]}` is not"
    if needed is not None:
        message = f"`on_tombstone: delete` of source `{source.name}` needs {needed}."
        raise ValueError(message)
    return RowOfKey(tuple(column for column in keys.values() if column), time or event_time)


def _plain(source: KafkaSource, name: str) -> str | None:
    """Return the column that an output column renames; None if it is computed."""
    column = source.selection.event_column(name)
    return column.name if column is not None and column.unit_us is None else None


def _as_it_is(column: str, why: str) -> str:
    return (
        f"`select.{column}` to be a column as it is, as {why}; compute another column of it in the "
        "`transform`"
    )
