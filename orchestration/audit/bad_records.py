"""Recount of bad records of topics and files, compared with counts and quarantine of the runs."""

from __future__ import annotations

import os
from collections.abc import Sequence

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from orchestration.audit.files import AuditFiles
from orchestration.audit.report import BadLine
from orchestration.audit.sql import count_rows, error_text
from orchestration.audit.topic import bad_records_table
from sources.common.positions import Offsets, TopicPartition
from sources.common.state import Generation
from sources.config.bad_records import BadRecordCount, bad_count_name, quarantine_path
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.ledger import read_ledger
from sources.planning.discovery import found_so_far
from sources.planning.file_plan import FoundFiles, read_splits
from sources.planning.plan import Plan
from sources.planning.rounds import history_of


def recount_bad_records(
    connection: duckdb.DuckDBPyConnection,
    loaded: LoadedPipeline,
    source: KafkaSource,
    log_start: Offsets,
) -> BadLine:
    """Compare the bad records that a topic holds with those that its runs counted and quarantined.

    Records before the start offsets do not count: the runs never read them. Where Kafka has
    deleted records since, the runs may have counted more than the topic holds.

    Args:
        connection: The audit's database, with the table of the topic's bad records.
        loaded: The pipeline.
        source: The topic's source.
        log_start: First offset that the topic still holds, by partition.

    Returns:
        The counts, and whether they agree; without a run there is nothing to agree with.

    Raises:
        InputError: The quarantine table exists but can't be read.
        StateError: The state can't be read.
    """
    generation = loaded.open_generation(create=False)
    starts: Offsets = {}
    if generation is not None:
        ledger, _ = read_ledger(generation, source.name)
        entries = ledger.entries if ledger is not None else []
        starts = {TopicPartition(each.topic, each.partition): each.start for each in entries}
    _remove_unread(connection, bad_records_table(source.name), starts)
    is_whole = all(log_start.get(at, 0) <= start for at, start in starts.items())
    return _compare(connection, source, generation, is_whole=is_whole)


def recount_bad_rows(
    connection: duckdb.DuckDBPyConnection,
    loaded: LoadedPipeline,
    source: FileSource,
    files: AuditFiles,
) -> BadLine:
    """Compare the bad rows that files hold with those that the runs counted and quarantined.

    Files that are not planned do not count: the runs never read them.

    Args:
        connection: The audit's database, with the table of the source's bad rows.
        loaded: The pipeline.
        source: The files' source.
        files: The pipeline's files.

    Returns:
        The counts, and whether they agree; without a run there is nothing to agree with.

    Raises:
        InputError: The quarantine table exists but can't be read.
        StateError: The state can't be read.
    """
    generation = loaded.open_generation(create=False)
    plan = None if generation is None else generation.read("plan.json", Plan)
    bad = bad_records_table(source.name)
    # A folder that is still being filled may hold no file yet.
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {bad} "
        "(_place VARCHAR, _partition INTEGER, _offset BIGINT, _reason VARCHAR)"
    )
    if generation is not None and plan is not None:
        is_last = plan.folder is not None and plan.folder.source == source.name
        parts: Sequence[FoundFiles] = (
            found_so_far(generation, plan.folder)
            if plan.folder is not None and is_last
            else history_of(generation, plan, source.name).parts
        )
        splits = pa.concat_tables([read_splits(part, generation) for part in parts])
        planned = splits["path"].unique().to_pylist()
        local = [os.path.normpath(files.local_path(path)) for path in planned]
        connection.register("_planned", pa.table([local, planned], ["local", "planned"]))
        connection.execute(
            f"CREATE OR REPLACE TABLE {bad} AS SELECT planned AS _place, b.* EXCLUDE (_place) "
            f"FROM {bad} b JOIN _planned ON _place = local"
        )
        connection.unregister("_planned")
    return _compare(connection, source, generation, is_whole=True)


def _compare(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource | KafkaSource,
    generation: Generation | None,
    *,
    is_whole: bool,
) -> BadLine:
    """Compare a source's table of bad records with the runs' count and with the quarantine.

    Args:
        connection: The audit's database, with the table.
        source: The source.
        generation: Holds the runs' count; None if there was no run.
        is_whole: Whether the table has every bad record that the runs may have read.
    """
    found = count_rows(connection, bad_records_table(source.name))
    counted = not_quarantined = None
    if generation is not None:
        count = generation.read(bad_count_name(source.name), BadRecordCount)
        counted = count.total if count is not None else 0
        if source.on_bad_record == "quarantine":
            not_quarantined = _count_not_quarantined(connection, source, generation)
    agrees = counted is None or (counted == found if is_whole else counted >= found)
    return BadLine(
        source=source.name,
        policy=source.on_bad_record,
        found=found,
        counted=counted,
        lacking=not_quarantined,
        agrees=agrees and not not_quarantined,
    )


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


def _count_not_quarantined(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource | KafkaSource,
    generation: Generation,
) -> int:
    """Return the number of bad records that the audit found and the quarantine does not hold.

    Raises:
        InputError: The quarantine table can't be read.
    """
    path = quarantine_path(source.name, source.quarantine, generation)
    bad = bad_records_table(source.name)
    if not DeltaTable.is_deltatable(path):
        return count_rows(connection, bad)
    try:
        quarantined = DeltaTable(path).to_pyarrow_table(columns=["place", "partition", "offset"])
    except (DeltaError, OSError) as error:
        message = (
            f"The quarantine table of source `{source.name}`, {path}, can't be read: "
            f"{error_text(error)}"
        )
        hint = (
            "Restore its files and its `_delta_log` from a backup, then run `hybrid audit` again."
        )
        raise InputError(message, hint, source=source.name, table=path) from None
    connection.register("_quarantined", quarantined)
    query = (
        f"SELECT count(*) FROM {bad} ANTI JOIN _quarantined ON _place = place "
        'AND _partition IS NOT DISTINCT FROM "partition" AND _offset = "offset"'
    )
    count = connection.execute(query).fetchall()[0][0]
    connection.unregister("_quarantined")
    return int(count)
