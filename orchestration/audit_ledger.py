"""The ledger of a hand-over, counted anew from the topic and the files that were planned."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from orchestration.audit import LedgerLine
from orchestration.audit_files import AuditFiles
from orchestration.audit_sql import insert_arrow, listed, quoted
from sources.document import LoadedPipeline
from sources.file_plan import read_splits
from sources.file_source import FileSource
from sources.kafka_source import KafkaSource
from sources.ledger import Ledger, LedgerEntry, SeamCount, read_ledger
from sources.pipeline import Pipeline
from sources.plan import require_plan
from sources.positions import TopicPartition, iso
from sources.rounds import history_of
from sources.state import Generation


def recount(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, files: AuditFiles
) -> tuple[list[LedgerLine], list[str]]:
    """Count what the seam holds, partition by partition, and compare it with the ledger.

    Args:
        connection: Holds a view for each source.
        loaded: The pipeline; without a hand-over there is nothing to count.
        files: Its files.

    Returns:
        A line for each partition, and what can't be counted, in words.
    """
    generation = loaded.open_generation(create=False)
    live = loaded.pipeline.sources[-1]
    if generation is None or not isinstance(live, KafkaSource):
        return [], []
    ledger, count = read_ledger(generation, live.name)
    if ledger is None or ledger.previous is None:
        return [], []
    notes = []
    is_filtered = ledger.rule in ("key", "event_time")
    if is_filtered and count is None:
        notes.append("The run has not counted the seam yet: it is not past it.")
    try:
        _mark_delivered(connection, loaded.pipeline, ledger, generation, files)
        found = _count(connection, ledger)
    except duckdb.IOException as error:
        return [], [f"The seam can't be counted anew, as planned files are gone: {error}"]
    lines = []
    for entry in ledger.entries:
        at = TopicPartition(entry.topic, entry.partition)
        line, is_whole = _line(entry, found.get(at, _NOTHING), count if is_filtered else None)
        lines.append(line)
        if not is_whole:
            notes.append(f"Kafka no longer holds the seam of {at}, so it can't be counted anew.")
    return lines, notes


def _mark_delivered(
    connection: duckdb.DuckDBPyConnection,
    pipeline: Pipeline,
    ledger: Ledger,
    generation: Generation,
    files: AuditFiles,
) -> None:
    """Make ``audit.topic``: the places of all rows in the log, and whether history holds them.

    ``_held`` tells it by the rule of the seam, ``_known`` by whatever tells; null where nothing
    does. A file that arrived after the plan is no history: its rows came by the topic.
    """
    by_key = "NULL"
    if pipeline.key:
        keys = _create_planned_keys(connection, pipeline, generation, files)
        same = " AND ".join(
            f"h.{quoted(name)} IS NOT DISTINCT FROM l.{quoted(name)}" for name in pipeline.key
        )
        by_key = f"EXISTS (SELECT 1 FROM {keys} h WHERE {same})"
    by_rule = "NULL"
    if ledger.rule == "key":
        by_rule = by_key
    elif ledger.rule == "event_time" and ledger.end_ms is not None:
        end = iso(ledger.end_ms + 1)
        by_rule = f"l.{quoted(pipeline.event_time)} < TIMESTAMPTZ '{end}'"
    elif ledger.rule == "sequence" and ledger.previous is not None and pipeline.sequence:
        by_rule = f"l.{quoted(pipeline.sequence)} <= {ledger.previous.sequence}"
    connection.execute(
        f"CREATE TABLE audit.topic AS SELECT _topic, _partition, _offset, {by_rule} AS _held, "
        f"(({by_key}) OR ({by_rule})) AS _known FROM {quoted(pipeline.sources[-1].name)} l"
    )


def _create_planned_keys(
    connection: duckdb.DuckDBPyConnection,
    pipeline: Pipeline,
    generation: Generation,
    files: AuditFiles,
) -> str:
    """Make a table of the keys of all planned files; returns its name."""
    plan = require_plan(generation)
    selects = []
    for source in pipeline.sources:
        if isinstance(source, FileSource):
            view = f"audit.{quoted(f'{source.name}.planned')}"
            parts = history_of(generation, plan, source.name).parts
            planned = [read_splits(part, generation)["path"].to_pylist() for part in parts]
            # A file read in regions is planned several times.
            paths = dict.fromkeys(path for some in planned for path in some)
            files.create_view(connection, source, [files.local(path) for path in paths], view)
            selects.append(f"SELECT {listed(pipeline.key)} FROM {view}")
    connection.execute(f"CREATE TABLE audit.planned_keys AS {' UNION '.join(selects)}")
    return "audit.planned_keys"


_Counts = tuple[int | None, int | None, int, int, int, bool | None]
_NOTHING: _Counts = (None, None, 0, 0, 0, None)


def _count(connection: duckdb.DuckDBPyConnection, ledger: Ledger) -> dict[TopicPartition, _Counts]:
    """Counts of each partition.

    Returns:
        By partition: lowest offset, first one read, rows of the seam, those of them that history
        holds, rows before the start that it does not hold, whether anything tells what it holds.
    """  # fmt: skip
    entries = [(e.topic, e.partition, e.start, e.seam_end) for e in ledger.entries]
    names = ("_topic", "_partition", "_start", "_end")
    connection.execute(
        "CREATE TABLE audit.entries "
        "(_topic VARCHAR, _partition INTEGER, _start BIGINT, _end BIGINT)"
    )
    columns: list[Any] = [list(column) for column in zip(*entries, strict=True)]
    insert_arrow(connection, "audit.entries", pa.table(dict(zip(names, columns, strict=True))))
    rows = connection.execute(
        "SELECT _topic, _partition, min(_offset), "
        "min(_offset) FILTER (_offset >= _start), "
        "count(*) FILTER (_offset >= _start AND _offset < _end), "
        "count(*) FILTER (_offset >= _start AND _offset < _end AND _held), "
        "count(*) FILTER (_offset < _start AND NOT _known), "
        "bool_or(_known IS NOT NULL) "
        "FROM audit.topic JOIN audit.entries USING (_topic, _partition) GROUP BY ALL"
    ).fetchall()
    return {TopicPartition(row[0], row[1]): row[2:] for row in rows}


def _line(entry: LedgerEntry, found: _Counts, count: SeamCount | None) -> tuple[LedgerLine, bool]:
    """The line of a partition, and whether the topic still holds all of its seam."""
    lowest, first, seam_rows, delivered, lost, is_keyed = found
    at = TopicPartition(entry.topic, entry.partition)
    removed = None if count is None else count.removed.get(at, 0)
    # Kafka may have deleted part of the seam since: then there is nothing to compare with.
    is_whole = entry.overlap == 0 or entry.first_offset is None or (
        lowest is not None and lowest <= entry.first_offset
    )  # fmt: skip
    agrees = not is_whole or ((removed is None or removed == delivered) and not lost)
    line = LedgerLine(
        topic=entry.topic,
        partition=entry.partition,
        start=entry.start,
        first_offset=first,
        seam_rows=seam_rows,
        delivered=delivered,
        removed=removed,
        before_start=lost if is_keyed else None,
        agrees=agrees,
    )
    return line, is_whole
