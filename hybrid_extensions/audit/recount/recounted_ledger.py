"""Recount of hand-over ledgers: which rows of the seam history holds, by key, time or sequence.

The start offsets, the end of the seam and the rule that removes duplicates are taken from the
ledger in the state; what is recounted is which rows the two sources hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from hybrid_extensions.audit.computed.row_versions import sequence_in
from hybrid_extensions.audit.input_tables import table_of
from hybrid_extensions.audit.readers.file_views import AuditFiles
from hybrid_extensions.audit.readers.topic_view import before_rules
from hybrid_extensions.audit.recount.ledger_outcome import NO_ROWS, PartitionCounts, line_of
from hybrid_extensions.comparison.duckdb_database import columns_of, error_text, insert_arrow
from orchestration.comparison.report import LedgerLine
from sources.common.positions import Offsets, TopicPartition
from sources.common.sql.sql_names import column_list, quoted
from sources.common.times import iso
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.kafka.seam import held_snapshot
from sources.ledger import Ledger, read_ledger
from sources.planning.files.file_plan import read_splits
from sources.planning.files.rounds import history_of
from sources.planning.plan import require_plan
from sources.planning.topics.topic_range import find_range
from sources.state.generation import Generation


def recount_ledgers(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, files: AuditFiles
) -> tuple[list[LedgerLine], list[str]]:
    """Count the rows of each seam by partition, and compare them with what the run removed.

    The seam is the range of offsets, from a topic's start offset on, whose rows history may hold
    too; the run removes those that it does hold. Both are empty without topics. A topic that begins
    its chain has no seam.

    Args:
        connection: The audit's database, with a view for each source.
        loaded: The pipeline; without a hand-over there is nothing to count.
        files: The pipeline's files.

    Returns:
        A line for each topic partition, and sentences about what can't be counted at all: a
        hand-over that the state does not record, or a seam whose planned files are missing.

    Raises:
        InputError: The state's store refuses.
        StateError: The state can't be read, or has no plan.
        UnavailableError: The state's store does not answer.
        duckdb.Error: DuckDB fails to read a planned file that exists.
    """
    generation = loaded.open_generation(create=False)
    lines: list[LedgerLine] = []
    unchecked: list[str] = []
    for source in loaded.pipeline.topics:
        table, pipeline = table_of(loaded.pipeline, source.name)
        if pipeline.hybrid_source().index(source.name) == 0:
            continue
        ledger, count = (None, None) if generation is None else read_ledger(generation, source.name)
        if generation is None or ledger is None or ledger.previous is None:
            unchecked.append(
                f"The state records no hand-over to source `{source.name}`, so its seam can't be "
                "recounted."
            )
            continue
        try:
            order = sequence_in(pipeline.sink, list(columns_of(connection, quoted(table))))
            _create_topic_rows(connection, pipeline, ledger, order, generation, files)
            counts = _count_by_partition(connection, source.name)
        except duckdb.IOException as error:
            unchecked.append(
                f"The seam of source `{source.name}` can't be recounted, because planned files "
                f"are missing: {error_text(error)}"
            )
            continue
        history_ms = None
        if ledger.decided_by not in ("offsets", "sequence"):
            history_ms = _end_of_history_ms(connection, pipeline, source.name)
        for entry in ledger.entries:
            partition = TopicPartition(entry.topic, entry.partition)
            recounted = counts.get(partition, NO_ROWS)
            removed = None if count is None else count.removed.get(partition, 0)
            lines.append(
                line_of(
                    source.name,
                    entry,
                    recounted,
                    removed,
                    is_filtered=ledger.is_filtered,
                    history_ms=history_ms,
                )
            )
    return lines, unchecked


def _end_of_history_ms(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, source: str
) -> int | None:
    """Return the highest event time that counts of all sources before one; None without any.

    Args:
        connection: The audit's database, with a view for each source.
        pipeline: The declaration, with the sources of its input only.
        source: Name of the source.
    """
    column = quoted(pipeline.event_time.column)
    before = pipeline.sources[: pipeline.hybrid_source().index(source)]
    ends = [f"SELECT max(epoch_ms({column})) AS t FROM {quoted(each.name)}" for each in before]
    query = f"SELECT max(t) FROM ({' UNION ALL '.join(ends)})"
    end = connection.execute(query).fetchall()[0][0]
    return None if end is None else int(end)


def _create_topic_rows(
    connection: duckdb.DuckDBPyConnection,
    pipeline: Pipeline,
    ledger: Ledger,
    order: Sequence[str],
    generation: Generation,
    files: AuditFiles,
) -> None:
    """Create the table ``audit.topic``: each row of a topic, and whether history holds it.

    A row is identified by ``_topic``, ``_partition`` and ``_offset``. ``_held`` is decided by the
    rule of the seam, ``_known`` by that rule or the key; both are null where nothing decides them.
    With ``sink.sequence``, history holds a row by its key only if it has the same version of it,
    or a later one. A file that arrived after the plan does not belong to history: the topic
    delivered its rows. Also creates ``audit.entries``, with the seam of each partition.

    Args:
        connection: The audit's database, with a view for each source.
        pipeline: The declaration, with the sources of the topic's own input only.
        ledger: The ledger of the hand-over to the topic.
        order: Columns of ``sink.sequence``, if the input has them.
        generation: Records what was planned.
        files: The pipeline's files.
    """
    source = ledger.source
    entries = {TopicPartition(entry.topic, entry.partition): entry for entry in ledger.entries}
    starts = {partition: entry.start for partition, entry in entries.items()}
    ends = {partition: entry.seam_end for partition, entry in entries.items()}
    _create_offsets(connection, "audit.entries", {"_start": starts, "_end": ends})
    by_key, replaced = "NULL", "false"
    if pipeline.key:
        before = pipeline.sources[: pipeline.hybrid_source().index(source)]
        compared = [*pipeline.key, *order]
        keys = _create_planned_keys(connection, compared, before, generation, files)
        same = " AND ".join(
            f"h.{quoted(name)} IS NOT DISTINCT FROM l.{quoted(name)}" for name in pipeline.key
        )
        if order:
            same += f" AND {_version('h', order)} >= {_version('l', order)}"
            replaced = (
                f"EXISTS (SELECT 1 FROM {quoted(source)} h JOIN audit.entries n "
                "USING (_topic, _partition) WHERE h._offset >= n._start AND "
                f"{same})"
            )
        by_key = f"EXISTS (SELECT 1 FROM {keys} h WHERE {same})"
    by_rule = "NULL"
    if ledger.rule == "key":
        by_rule = by_key
    elif ledger.rule == "event_time" and ledger.end_ms is not None:
        end = iso(ledger.end_ms + 1)
        by_rule = f"l.{quoted(pipeline.event_time.column)} < TIMESTAMPTZ '{end}'"
    elif ledger.rule == "sequence" and ledger.previous is not None and ledger.previous.snapshot:
        changes = pipeline.topic_source(source)
        columns = {part: f"l.{quoted(name)}" for name, part in changes.include.items()}
        planned = [part.end for part in require_plan(generation).files]
        snapshot = held_snapshot(pipeline, planned) or ledger.previous.snapshot
        by_rule = snapshot.holds(columns)
    elif ledger.rule == "sequence" and ledger.previous is not None and pipeline.sequence:
        by_rule = f"l.{quoted(pipeline.sequence)} <= {ledger.previous.sequence}"
    deciding = [each for each in (by_key, by_rule) if each != "NULL"]
    known = f"({' OR '.join(f'({each})' for each in deciding) or 'NULL'})"
    connection.execute(
        "CREATE OR REPLACE TABLE audit.topic AS "
        f"SELECT _topic, _partition, _offset, _timestamp_ms, {by_rule} AS _held, "
        f"{known} OR {replaced} AS _known FROM {quoted(source)} l"
    )


def _version(alias: str, order: Sequence[str]) -> str:
    """Return SQL that orders the rows of a table by ``sink.sequence``, nulls first."""
    columns = [f"{alias}.{quoted(name)}" for name in order]
    return f"row({', '.join(f'{column} IS NOT NULL, {column}' for column in columns)})"


def _create_planned_keys(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[str],
    before: Sequence[FileSource | KafkaSource],
    generation: Generation,
    files: AuditFiles,
) -> str:
    """Create a table of the keys (and their versions) of all rows planned before a topic.

    Args:
        connection: The audit's database, with a view for each source.
        columns: Columns that identify a row, and those that order its versions.
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
        selects.append(f"SELECT {column_list(columns)} FROM {view}")
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


def _count_by_partition(
    connection: duckdb.DuckDBPyConnection, source: str
) -> dict[TopicPartition, PartitionCounts]:
    """Count the rows of ``audit.topic`` by partition; a partition without rows is left out.

    Offsets are counted in all rows of the topic, also in those that rules or a sample leave out.
    """
    rows = connection.execute(
        "WITH held AS (SELECT _topic, _partition, min(_offset) AS lowest, "
        "min(_offset) FILTER (_offset >= _start) AS first, "
        "arg_min(_timestamp_ms, _offset) FILTER (_offset >= _start) AS first_ms "
        f"FROM {before_rules(source)} JOIN audit.entries USING (_topic, _partition) GROUP BY ALL), "
        "counted AS (SELECT _topic, _partition, "
        "count(*) FILTER (_offset >= _start AND _offset < _end) AS seam, "
        "count(*) FILTER (_offset >= _start AND _offset < _end AND _held) AS delivered, "
        "count(*) FILTER (_offset < _start AND NOT _known) AS lost, "
        "count(*) FILTER (_offset < _start AND _known IS NULL) AS undecided "
        "FROM audit.topic JOIN audit.entries USING (_topic, _partition) GROUP BY ALL) "
        "SELECT _topic, _partition, lowest, first, coalesce(seam, 0), coalesce(delivered, 0), "
        "coalesce(lost, 0), coalesce(undecided, 0), first_ms "
        "FROM held LEFT JOIN counted USING (_topic, _partition)"
    ).fetchall()
    return {TopicPartition(row[0], row[1]): PartitionCounts(*row[2:]) for row in rows}
