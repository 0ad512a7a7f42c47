"""What has to be declared so that records without a value delete rows (``on_tombstone``)."""

from __future__ import annotations

from sources.config.source.kafka_source import KafkaSource
from sources.config.table.sink import Sink

_ROWS_OF_FILES = (
    "and let a source of files before it select its columns and `{name}: CAST(false AS BOOLEAN)`"
)


def check_deletes(source: KafkaSource, sink: Sink, event_time: str) -> None:
    """Refuse ``on_tombstone: delete`` unless the sink finds, orders and removes the rows.

    Args:
        source: The source that declares it.
        sink: The target.
        event_time: Name of the event-time column.

    Raises:
        ValueError: Contains what is lacking, and what to declare.
    """
    included = source.record_columns
    marks = [name for name, part in included.items() if part == "tombstone"]
    name = sink.deleted or (marks[0] if marks else "_deleted")
    needed = None
    if sink.mode != "merge":
        needed = "`sink.mode: merge`, as appended rows are not removed; or declare `ignore`"
    elif source.select or source.format == "raw":
        given = "`select`" if source.select else "`format: raw`"
        needed = f"no {given}: such a record has the columns of its key, and no others"
    elif not sink.order or not {*sink.order} <= {*included, event_time}:
        needed = (
            "`sink.sequence` to be a column that such a record has: the event time "
            f"`{event_time}`, which is then its timestamp, or one that `include` fills"
        )
    elif sink.deleted is None or marks != [sink.deleted]:
        needed = (
            f"`include: {{{name}: tombstone}}` for this source and `sink.deleted: {name}`, "
            f"{_ROWS_OF_FILES.format(name=name)}"
        )
    elif lacking := [key for key in sink.key if key in included]:
        needed = f"`sink.key` to be columns of the records' keys, which `{lacking[0]}` is not"
    if needed is not None:
        message = f"`on_tombstone: delete` of source `{source.name}` needs {needed}."
        raise ValueError(message)
