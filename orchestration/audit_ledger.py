"""The ledger of a hand-over, counted anew from files and topic."""

from __future__ import annotations

import duckdb

from orchestration.audit import LedgerLine
from orchestration.audit_sql import listed, quoted
from sources.document import LoadedPipeline
from sources.kafka_source import KafkaSource
from sources.ledger import Ledger, LedgerEntry, SeamCount, read_ledger
from sources.pipeline import Pipeline
from sources.positions import TopicPartition, iso


def recount(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline
) -> tuple[list[LedgerLine], list[str]]:
    """Count what the seam holds, partition by partition, and compare it with the ledger.

    Args:
        connection: Holds a view for each source.
        loaded: The pipeline; without a hand-over there is nothing to count.

    Returns:
        A line for each partition, and what can't be counted any more, in words.
    """
    generation = loaded.open_generation(create=False)
    live = loaded.pipeline.sources[-1]
    if generation is None or not isinstance(live, KafkaSource):
        return [], []
    ledger, count = read_ledger(generation, live.name)
    if ledger is None or ledger.previous is None:
        return [], []
    _mark_delivered(connection, loaded.pipeline, ledger, live.name)
    lines, notes = [], []
    for entry in ledger.entries:
        line, note = _line(connection, entry, ledger, count)
        lines.append(line)
        notes += note
    return lines, notes


def _mark_delivered(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, ledger: Ledger, live: str
) -> None:
    """Make ``audit.topic``: the places of all rows in the log, and whether history holds them.

    ``_held`` tells it by the rule of the seam, ``_known`` by the key; null where neither tells.
    """
    key = listed(pipeline.key)
    by_key = "NULL"
    if pipeline.key:
        keys = " UNION ".join(
            f"SELECT {key} FROM {quoted(source.name)}" for source in pipeline.sources[:-1]
        )
        same = " AND ".join(
            f"h.{quoted(name)} IS NOT DISTINCT FROM l.{quoted(name)}" for name in pipeline.key
        )
        by_key = f"EXISTS (SELECT 1 FROM ({keys}) h WHERE {same})"
    assert ledger.previous is not None
    end = iso(ledger.previous.event_time_ms + 1)
    by_rule = {
        "key": by_key,
        "event_time": f"l.{quoted(pipeline.event_time)} < TIMESTAMPTZ '{end}'",
        "sequence": f"l.{quoted(pipeline.sequence or '')} <= {ledger.previous.sequence}",
    }.get(ledger.rule, "NULL")
    connection.execute(
        f"CREATE TABLE audit.topic AS SELECT _topic, _partition, _offset, {by_rule} AS _held, "
        f"{by_key} AS _known FROM {quoted(live)} l"
    )


def _line(
    connection: duckdb.DuckDBPyConnection,
    entry: LedgerEntry,
    ledger: Ledger,
    count: SeamCount | None,
) -> tuple[LedgerLine, list[str]]:
    rows = connection.execute(
        "SELECT min(_offset), "
        "min(_offset) FILTER (_offset >= $start), "
        "count(*) FILTER (_offset >= $start AND _offset < $end), "
        "count(*) FILTER (_offset >= $start AND _offset < $end AND _held), "
        "count(*) FILTER (_offset < $start AND NOT _known), "
        "bool_or(_known IS NOT NULL) "
        "FROM audit.topic WHERE _topic = $topic AND _partition = $part",
        {
            "start": entry.start,
            "end": entry.seam_end,
            "topic": entry.topic,
            "part": entry.partition,
        },
    ).fetchall()
    lowest, first, seam_rows, delivered, lost, is_keyed = rows[0]
    at = TopicPartition(entry.topic, entry.partition)
    is_filtered = ledger.rule in ("key", "event_time")
    removed = None if count is None or not is_filtered else count.removed.get(at, 0)
    # Kafka may have deleted part of the seam since: then there is nothing to compare with.
    is_whole = entry.overlap == 0 or (lowest is not None and lowest <= (entry.first_offset or 0))
    notes = []
    if not is_whole:
        where = f"Topic `{entry.topic}`, partition {entry.partition}"
        notes.append(f"{where}: Kafka no longer holds the seam, so it can't be counted anew.")
    line = LedgerLine(
        topic=entry.topic,
        partition=entry.partition,
        start=entry.start,
        first_offset=first,
        seam_rows=seam_rows,
        delivered=delivered if is_filtered else None,
        removed=removed,
        before_start=lost if is_keyed else None,
        agrees=not is_whole or ((removed is None or removed == delivered) and not lost),
    )
    return line, notes
