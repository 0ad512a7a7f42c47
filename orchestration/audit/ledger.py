"""The ledgers of hand-overs, counted anew from the topics and what was planned before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from orchestration.audit.files import AuditFiles
from orchestration.audit.report import LedgerLine
from orchestration.audit.sql import insert_arrow, listed, quoted
from sources.common.positions import Offsets, TopicPartition, iso
from sources.common.state import Generation
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.ledger import Ledger, LedgerEntry, SeamCount, read_ledger
from sources.planning.file_plan import read_splits
from sources.planning.plan import require_plan
from sources.planning.rounds import history_of
from sources.planning.topic_range import find_range


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
    lines: list[LedgerLine] = []
    notes: list[str] = []
    if generation is None:
        return lines, notes
    for source in loaded.pipeline.topics:
        ledger, count = read_ledger(generation, source.name)
        if ledger is None or ledger.previous is None:
            continue
        is_filtered = ledger.rule in ("key", "event_time")
        if is_filtered and count is None:
            notes.append("The run has not counted the seam yet: it is not past it.")
        try:
            _mark_delivered(connection, loaded.pipeline, ledger, source.name, generation, files)
            found = _count(connection, ledger)
        except duckdb.IOException as error:
            notes.append(f"The seam can't be counted anew, as planned files are gone: {error}")
            continue
        for entry in ledger.entries:
            at = TopicPartition(entry.topic, entry.partition)
            counted = count if is_filtered else None
            line, is_whole = _line(source.name, entry, found.get(at, _NOTHING), counted)
            lines.append(line)
            if not is_whole:
                notes.append(
                    f"Kafka no longer holds the seam of {at}, so it can't be counted anew."
                )
    return lines, notes


def _mark_delivered(
    connection: duckdb.DuckDBPyConnection,
    pipeline: Pipeline,
    ledger: Ledger,
    source: str,
    generation: Generation,
    files: AuditFiles,
) -> None:
    """Make ``audit.topic``: the places of all rows in the log, and whether history holds them.

    ``_held`` tells it by the rule of the seam, ``_known`` by whatever tells; null where nothing
    does. A file that arrived after the plan is no history: its rows came by the topic.
    """
    by_key = "NULL"
    if pipeline.key:
        before = pipeline.sources[: pipeline.hybrid_source().index(source)]
        keys = _create_planned_keys(connection, pipeline.key, before, generation, files)
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
    elif ledger.rule == "sequence" and ledger.previous is not None and ledger.previous.snapshot:
        changes = pipeline.topic_source(source)
        columns = {part: f"l.{quoted(name)}" for name, part in changes.envelope_columns.items()}
        by_rule = ledger.previous.snapshot.holds(columns["lsn"], columns["transaction"])
    elif ledger.rule == "sequence" and ledger.previous is not None and pipeline.sequence:
        by_rule = f"l.{quoted(pipeline.sequence)} <= {ledger.previous.sequence}"
    connection.execute(
        "CREATE OR REPLACE TABLE audit.topic AS "
        f"SELECT _topic, _partition, _offset, {by_rule} AS _held, "
        f"(({by_key}) OR ({by_rule})) AS _known FROM {quoted(source)} l"
    )


def _create_planned_keys(
    connection: duckdb.DuckDBPyConnection,
    key: Sequence[str],
    before: Sequence[FileSource | KafkaSource],
    generation: Generation,
    files: AuditFiles,
) -> str:
    """Make a table of the keys of all that was planned before a topic; returns its name."""
    plan = require_plan(generation)
    selects = []
    for source in before:
        view = quoted(source.name)
        if isinstance(source, FileSource):
            view = f"audit.{quoted(f'{source.name}.planned')}"
            parts = history_of(generation, plan, source.name).parts
            planned = [read_splits(part, generation)["path"].to_pylist() for part in parts]
            # A file read in regions is planned several times.
            paths = dict.fromkeys(path for some in planned for path in some)
            files.create_view(connection, source, [files.local(path) for path in paths], view)
        elif (found := find_range(generation, source.name)) is not None:
            # The view begins where the log does.
            starts = f"audit.{quoted(f'{source.name}.starts')}"
            _create_places(connection, starts, {"_start": found.starts})
            view = f"{view} JOIN {starts} USING (_topic, _partition) WHERE _offset >= _start"
        selects.append(f"SELECT {listed(key)} FROM {view}")
    connection.execute(f"CREATE OR REPLACE TABLE audit.planned_keys AS {' UNION '.join(selects)}")
    return "audit.planned_keys"


def _create_places(
    connection: duckdb.DuckDBPyConnection, table: str, offsets: Mapping[str, Offsets]
) -> None:
    """Make a table of partitions with a column for each kind of offset."""
    places = sorted(set().union(*offsets.values()))
    columns: dict[str, Any] = {
        "_topic": pa.array([at.topic for at in places], pa.string()),
        "_partition": pa.array([at.partition for at in places], pa.int32()),
    }
    for name, by in offsets.items():
        columns[name] = pa.array([by[at] for at in places], pa.int64())
    names = ", ".join(f"{name} BIGINT" for name in offsets)
    connection.execute(
        f"CREATE OR REPLACE TABLE {table} (_topic VARCHAR, _partition INTEGER, {names})"
    )
    insert_arrow(connection, table, pa.table(columns))


_Counts = tuple[int | None, int | None, int, int, int, bool | None]
_NOTHING: _Counts = (None, None, 0, 0, 0, None)


def _count(connection: duckdb.DuckDBPyConnection, ledger: Ledger) -> dict[TopicPartition, _Counts]:
    """Counts of each partition.

    Returns:
        By partition: lowest offset, first one read, rows of the seam, those of them that history
        holds, rows before the start that it does not hold, whether anything tells what it holds.
    """  # fmt: skip
    by = {TopicPartition(entry.topic, entry.partition): entry for entry in ledger.entries}
    starts = {at: entry.start for at, entry in by.items()}
    ends = {at: entry.seam_end for at, entry in by.items()}
    _create_places(connection, "audit.entries", {"_start": starts, "_end": ends})
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


def _line(
    source: str, entry: LedgerEntry, found: _Counts, count: SeamCount | None
) -> tuple[LedgerLine, bool]:
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
        source=source,
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
