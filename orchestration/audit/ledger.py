"""Recount of hand-over ledgers: rows of the seam, from topics and planned history as they are.

The start offsets, the end of the seam and the rule that removes duplicates are taken from the
ledger in the state; what is recounted is which rows the two sources hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from orchestration.audit.files import AuditFiles
from orchestration.audit.report import LedgerLine
from orchestration.audit.sql import column_list, error_text, insert_arrow, quoted
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


def recount_ledgers(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, files: AuditFiles
) -> tuple[list[LedgerLine], list[str]]:
    """Count the rows of each seam by partition, and compare them with what the run removed.

    The seam is the range of offsets, from a topic's start offset on, whose rows history may hold
    too; the run removes those that it does hold.

    Args:
        connection: The audit's database, with a view for each source.
        loaded: The pipeline; without a hand-over there is nothing to count.
        files: The pipeline's files.

    Returns:
        A line for each topic partition, and sentences about what can't be counted, such as a seam
        whose planned files are missing; both are empty if nothing was planned yet.

    Raises:
        StateError: The state can't be read, or has no plan.
        duckdb.Error: DuckDB fails to read a planned file that exists.
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
            notes.append(
                f"The run of source `{source.name}` has not passed the seam yet, so it has not "
                "counted the rows that it removed."
            )
        try:
            _create_topic_rows(connection, loaded.pipeline, ledger, source.name, generation, files)
            counts = _count_by_partition(connection, ledger)
        except duckdb.IOException as error:
            notes.append(
                f"The seam of source `{source.name}` can't be recounted, because planned files "
                f"are missing: {error_text(error)}"
            )
            continue
        for entry in ledger.entries:
            partition = TopicPartition(entry.topic, entry.partition)
            run_count = count if is_filtered else None
            recounted = counts.get(partition, _NO_ROWS)
            line, is_whole = _line_of(source.name, entry, recounted, run_count)
            lines.append(line)
            if not is_whole:
                notes.append(
                    f"Kafka has deleted records in the seam of {partition}, so it can't be "
                    "recounted."
                )
    return lines, notes


def _create_topic_rows(
    connection: duckdb.DuckDBPyConnection,
    pipeline: Pipeline,
    ledger: Ledger,
    source: str,
    generation: Generation,
    files: AuditFiles,
) -> None:
    """Create the table ``audit.topic``: each row of a topic, and whether history holds it.

    A row is identified by ``_topic``, ``_partition`` and ``_offset``. ``_held`` is decided by the
    rule of the seam, ``_known`` by that rule or the key; both are null where nothing decides them.
    A file that arrived after the plan does not belong to history: the topic delivered its rows.

    Args:
        connection: The audit's database, with a view for each source.
        pipeline: The declaration.
        ledger: The ledger of the hand-over to the topic.
        source: Name of the topic's source.
        generation: Records what was planned.
        files: The pipeline's files.

    Raises:
        duckdb.IOException: A planned file is missing.
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
    """Create a table of the keys of all rows that were planned before a topic.

    Args:
        connection: The audit's database, with a view for each source.
        key: Columns that identify a row.
        before: The sources before the topic.
        generation: Records which files, and which offsets of topics, were planned.
        files: The pipeline's files.

    Returns:
        The name of the table.
    """
    plan = require_plan(generation)
    selects = []
    for source in before:
        view = quoted(source.name)
        if isinstance(source, FileSource):
            view = f"audit.{quoted(f'{source.name}.planned')}"
            parts = history_of(generation, plan, source.name).parts
            planned = [read_splits(part, generation)["path"].to_pylist() for part in parts]
            # A large file is planned as several splits.
            paths = dict.fromkeys(path for part in planned for path in part)
            local_paths = [files.local_path(path) for path in paths]
            files.create_view(connection, source, local_paths, view)
        elif (offset_range := find_range(generation, source.name)) is not None:
            # The view begins at the log start.
            starts = f"audit.{quoted(f'{source.name}.starts')}"
            _create_offsets(connection, starts, {"_start": offset_range.starts})
            view = f"{view} JOIN {starts} USING (_topic, _partition) WHERE _offset >= _start"
        selects.append(f"SELECT {column_list(key)} FROM {view}")
    connection.execute(f"CREATE OR REPLACE TABLE audit.planned_keys AS {' UNION '.join(selects)}")
    return "audit.planned_keys"


def _create_offsets(
    connection: duckdb.DuckDBPyConnection, table: str, offsets: Mapping[str, Offsets]
) -> None:
    """Create a table of topic partitions and some offsets of each.

    Args:
        connection: The audit's database.
        table: Name of the table.
        offsets: By name of a column: its offsets. All columns have the same partitions.
    """
    partitions = sorted(set().union(*offsets.values()))
    columns: dict[str, Any] = {
        "_topic": pa.array([each.topic for each in partitions], pa.string()),
        "_partition": pa.array([each.partition for each in partitions], pa.int32()),
    }
    for name, by_partition in offsets.items():
        columns[name] = pa.array([by_partition[each] for each in partitions], pa.int64())
    names = ", ".join(f"{name} BIGINT" for name in offsets)
    connection.execute(
        f"CREATE OR REPLACE TABLE {table} (_topic VARCHAR, _partition INTEGER, {names})"
    )
    insert_arrow(connection, table, pa.table(columns))


class _PartitionCounts(NamedTuple):
    """Rows of one topic partition of a hand-over.

    Attributes:
        lowest_offset: Lowest offset of a row that the topic holds; None without rows.
        first_offset: Lowest such offset from the start offset on; None without such rows.
        seam_rows: Rows in the seam.
        delivered: How many of them history holds.
        before_start: Rows before the start offset that history does not hold.
        is_decided: Whether a key or a rule decides what history holds; None without rows.
    """

    lowest_offset: int | None
    first_offset: int | None
    seam_rows: int
    delivered: int
    before_start: int
    is_decided: bool | None


_NO_ROWS = _PartitionCounts(None, None, 0, 0, 0, None)


def _count_by_partition(
    connection: duckdb.DuckDBPyConnection, ledger: Ledger
) -> dict[TopicPartition, _PartitionCounts]:
    """Count the rows of ``audit.topic`` by partition; a partition without rows is left out."""
    entries = {TopicPartition(entry.topic, entry.partition): entry for entry in ledger.entries}
    starts = {partition: entry.start for partition, entry in entries.items()}
    ends = {partition: entry.seam_end for partition, entry in entries.items()}
    _create_offsets(connection, "audit.entries", {"_start": starts, "_end": ends})
    rows = connection.execute(
        "SELECT _topic, _partition, min(_offset), "
        "min(_offset) FILTER (_offset >= _start), "
        "count(*) FILTER (_offset >= _start AND _offset < _end), "
        "count(*) FILTER (_offset >= _start AND _offset < _end AND _held), "
        "count(*) FILTER (_offset < _start AND NOT _known), "
        "bool_or(_known IS NOT NULL) "
        "FROM audit.topic JOIN audit.entries USING (_topic, _partition) GROUP BY ALL"
    ).fetchall()
    return {TopicPartition(row[0], row[1]): _PartitionCounts(*row[2:]) for row in rows}


def _line_of(
    source: str, entry: LedgerEntry, recounted: _PartitionCounts, count: SeamCount | None
) -> tuple[LedgerLine, bool]:
    """Compare the recount of one partition with the ledger and the run's own count.

    Args:
        source: Name of the topic's source.
        entry: The partition in the ledger.
        recounted: Its rows now.
        count: What the run removed; None if unknown.

    Returns:
        The line of the report, and whether the topic still holds all of the partition's seam.
    """
    partition = TopicPartition(entry.topic, entry.partition)
    removed = None if count is None else count.removed.get(partition, 0)
    # Where Kafka has deleted part of the seam since, there is nothing to compare with.
    lowest = recounted.lowest_offset
    is_whole = (
        entry.overlap == 0
        or entry.first_offset is None
        or (lowest is not None and lowest <= entry.first_offset)
    )
    agrees_with_run = removed is None or removed == recounted.delivered
    agrees = not is_whole or (agrees_with_run and not recounted.before_start)
    line = LedgerLine(
        source=source,
        topic=entry.topic,
        partition=entry.partition,
        start=entry.start,
        first_offset=recounted.first_offset,
        seam_rows=recounted.seam_rows,
        delivered=recounted.delivered,
        removed=removed,
        before_start=recounted.before_start if recounted.is_decided else None,
        agrees=agrees,
    )
    return line, is_whole
