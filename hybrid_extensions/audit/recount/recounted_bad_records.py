"""Recount of bad records, times out of bounds and broken rules: only what runs read or planned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from hybrid_extensions.audit.computed.computed_rules import (
    broken_by_rule,
    broken_table,
    recount_broken_records,
    recount_broken_rows,
)
from hybrid_extensions.audit.readers.file_views import AuditFiles, LeftOut
from hybrid_extensions.audit.readers.topic_view import (
    bad_records_table,
    before_rules,
    outside_table,
)
from hybrid_extensions.audit.recount.bad_record_outcome import recount_outcome
from hybrid_extensions.audit.recount.quarantine import (
    SAME_PLACE,
    count_not_quarantined,
    create_claims,
)
from hybrid_extensions.comparison.duckdb_database import count_rows, schema_of
from orchestration.comparison.report import BadLine
from sources.common.positions import Offsets, TopicPartition
from sources.common.sql.sql_names import quoted
from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.table.row_rules import RowRules
from sources.ledger import read_ledger
from sources.planning.files.discovery import found_so_far
from sources.planning.files.file_plan import FoundFiles, read_splits
from sources.planning.files.rounds import history_of
from sources.planning.plan import find_plan
from sources.state.generation import Generation


def recount_bad_records(
    connection: duckdb.DuckDBPyConnection,
    loaded: LoadedPipeline,
    source: KafkaSource,
    log_start: Offsets,
) -> list[BadLine]:
    """Compare a topic's bad records with those that the runs counted and quarantined.

    Records before the start offsets do not count: the runs never read them. Where Kafka has deleted
    records since, the runs may have counted more than the topic holds.

    Args:
        connection: The audit's database, with the tables of the topic's bad records, from which
            those before the start offsets are removed.
        loaded: The pipeline.
        source: The topic's source.
        log_start: First offset that the topic still holds, by partition.

    Returns:
        The counts, and whether they agree, for each kind of bad records that may be left out.

    Raises:
        InputError: The quarantine table exists but can't be read.
        StateError: The state can't be read.
        UnavailableError: A store does not answer.
    """
    generation = loaded.open_generation(create=False)
    starts: Offsets = {}
    if generation is not None:
        ledger, _ = read_ledger(generation, source.name)
        entries = ledger.entries if ledger is not None else []
        starts = {TopicPartition(each.topic, each.partition): each.start for each in entries}
    is_whole = all(log_start.get(at, 0) <= start for at, start in starts.items())
    lines = []
    bad = bad_records_table(source.name)
    _remove_unread(connection, bad, starts)
    if source.on_bad_record != "fail":
        lines.append(_compare(connection, loaded, source, bad, is_whole=is_whole))
    # A copy: the view of the topic's rows is without all of them.
    outside = f"audit.{quoted(f'{source.name}.outside.read')}"
    connection.execute(f"CREATE TABLE {outside} AS SELECT * FROM {outside_table(source.name)}")
    _remove_unread(connection, outside, starts)
    found = count_rows(connection, outside)
    create_claims(connection, source, generation, loaded.pipeline.stores)
    lacking = count_rows(connection, f"{outside} ANTI JOIN audit.claims ON {SAME_PLACE}")
    policy = loaded.pipeline.event_time.outside
    lines += _outside_line(source, policy, generation, found, lacking, is_whole=is_whole)
    rows = schema_of(connection, f"SELECT * FROM {before_rules(source.name)}")
    rules, stores = loaded.pipeline.row_rules.over(rows), loaded.pipeline.stores
    _remove_unread(connection, broken_table(source.name), starts)
    return lines + recount_broken_records(
        connection, source, rules, generation, stores, is_whole=is_whole
    )


def recount_bad_rows(
    connection: duckdb.DuckDBPyConnection,
    loaded: LoadedPipeline,
    source: FileSource,
    files: AuditFiles,
    left_out: LeftOut | None,
) -> list[BadLine]:
    """Compare the files' bad rows with those that the runs counted and quarantined.

    Files that are not planned do not count: the runs never read them.

    Args:
        connection: The audit's database, with the table of the source's bad rows, from which those
            of other files are removed.
        loaded: The pipeline.
        source: The files' source.
        files: The pipeline's files.
        left_out: Queries of the rows that are left out; None if no file was read.

    Returns:
        The counts, and whether they agree, for each kind of bad rows that may be left out.

    Raises:
        InputError: The quarantine table exists but can't be read.
        StateError: The state can't be read.
        UnavailableError: A store does not answer.
    """
    generation = loaded.open_generation(create=False)
    planned = None if generation is None else _planned_paths(generation, source)
    lines = []
    if source.on_bad_record != "fail":
        _keep_planned(connection, source, files, planned)
        bad = bad_records_table(source.name)
        lines.append(_compare(connection, loaded, source, bad, is_whole=True))
    rules = loaded.pipeline.row_rules if left_out is None else left_out.rules
    stores = loaded.pipeline.stores
    found, broken = _count_left_out(connection, rules, left_out)
    local = [path for each in planned or [] if Path(path := files.local_path(each)).exists()]
    if (found or broken) and local:
        view = f"audit.{quoted(f'{source.name}.planned')}"
        left_out = files.create_view(connection, source, local, view)
        found, broken = _count_left_out(connection, rules, left_out)
    create_claims(connection, source, generation, loaded.pipeline.stores)
    # Rows of these files have no offsets that the audit knows: they are compared by number.
    lacking = max(found - count_rows(connection, "audit.claims"), 0)
    policy = loaded.pipeline.event_time.outside
    lines += _outside_line(source, policy, generation, found, lacking, is_whole=True)
    return lines + recount_broken_rows(source, rules, generation, stores, broken)


def _count_left_out(
    connection: duckdb.DuckDBPyConnection, rules: RowRules, left_out: LeftOut | None
) -> tuple[int, dict[str, int]]:
    """Return the number of rows whose event time does not count, and of those that break rules."""
    if left_out is None:
        return 0, {}
    outside = count_rows(connection, f"({left_out.outside})")
    return outside, broken_by_rule(connection, rules, f"({left_out.before_rules})")


def _planned_paths(generation: Generation, source: FileSource) -> list[str] | None:
    """Return the paths of a source's planned files; None if nothing was planned."""
    plan = find_plan(generation)
    if plan is None:
        return None
    is_last = plan.folder is not None and plan.folder.source == source.name
    parts: Sequence[FoundFiles] = (
        found_so_far(generation, plan.folder)
        if plan.folder is not None and is_last
        else history_of(generation, plan, source.name).parts
    )
    splits = pa.concat_tables([read_splits(part, generation) for part in parts])
    return [str(path) for path in splits["path"].unique().to_pylist()]


def _keep_planned(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    files: AuditFiles,
    planned: list[str] | None,
) -> None:
    """Keep only rows of planned files in the table of a source's bad rows, by their planned paths.

    Args:
        connection: The audit's database.
        source: The source.
        files: The pipeline's files.
        planned: Planned paths; None if nothing was planned, which changes nothing.
    """
    bad = bad_records_table(source.name)
    # A folder that is still being filled may hold no file yet.
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {bad} "
        "(_place VARCHAR, _partition INTEGER, _offset BIGINT, _reason VARCHAR)"
    )
    if planned is None:
        return
    local = [os.path.normpath(files.local_path(path)) for path in planned]
    columns = [pa.array(local, pa.string()), pa.array(planned, pa.string())]
    connection.register("_planned", pa.table(columns, ["local", "planned"]))
    connection.execute(
        f"CREATE OR REPLACE TABLE {bad} AS SELECT planned AS _place, b.* EXCLUDE (_place) "
        f"FROM {bad} b JOIN _planned ON _place = local"
    )
    connection.unregister("_planned")


def _compare(
    connection: duckdb.DuckDBPyConnection,
    loaded: LoadedPipeline,
    source: FileSource | KafkaSource,
    bad: str,
    *,
    is_whole: bool,
) -> BadLine:
    """Compare a table of unreadable records with the runs' count and with the quarantine.

    Args:
        connection: The audit's database, with the table.
        loaded: The pipeline, whose state holds the runs' count.
        source: The source.
        bad: Name of the table.
        is_whole: Whether the table has every bad record that the runs may have read.
    """
    found = count_rows(connection, bad)
    counted = lacking = None
    generation = loaded.open_generation(create=False)
    if generation is not None:
        count = generation.read(bad_count_name(source.name), BadRecordCount)
        counted = count.total if count is not None else 0
        if source.on_bad_record == "quarantine":
            lacking = count_not_quarantined(
                connection, source, generation, loaded.pipeline.stores, bad
            )
    outcome, reason = recount_outcome(found, counted, lacking, is_whole=is_whole)
    return BadLine(source.name, source.on_bad_record, found, counted, lacking, outcome, reason)


def _outside_line(
    source: FileSource | KafkaSource,
    policy: str,
    generation: Generation | None,
    found: int,
    lacking: int,
    *,
    is_whole: bool,
) -> list[BadLine]:
    """Return the line about records whose event time does not count; none if there can't be any.

    Args:
        source: The source.
        policy: The declared ``event_time.outside``.
        generation: Holds the runs' count; None if there was no run.
        found: Such records in the input.
        lacking: How many of them are not in the quarantine table.
        is_whole: Whether the input still has every record that the runs may have read.
    """
    if policy == "keep" or (policy == "fail" and not found):
        return []
    counted = None
    if generation is not None and policy != "fail":
        count = generation.read(bad_count_name(source.name), BadRecordCount)
        counted = count.outside if count is not None else 0
    outcome, reason = recount_outcome(
        found, counted, None if counted is None else lacking, is_whole=is_whole
    )
    if policy == "fail":
        outcome, reason = "differs", "with `event_time.outside: fail` no run may pass them"
    return [
        BadLine(
            source=source.name,
            policy=policy,
            found=found,
            counted=counted,
            lacking=None if counted is None else lacking,
            outcome=outcome,
            reason=reason,
            kind="outside",
        )
    ]


def _remove_unread(connection: duckdb.DuckDBPyConnection, bad: str, starts: Offsets) -> None:
    """Remove the records before the start offsets from a table of bad records."""
    columns = [
        pa.array([each.topic for each in starts], pa.string()),
        pa.array([each.partition for each in starts], pa.int32()),
        pa.array(list(starts.values()), pa.int64()),
    ]
    connection.register("_starts", pa.table(columns, ["topic", "part", "start"]))
    connection.execute(
        f"DELETE FROM {bad} USING _starts "
        "WHERE _place = topic AND _partition = part AND _offset < start"
    )
    connection.unregister("_starts")
