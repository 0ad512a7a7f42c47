"""Quarantine table in the audit: which bad records are missing in it; claims about event times."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from hybrid_extensions.comparison.duckdb_database import count_rows
from sources.config.source.bad_record_policy import quarantine_folder
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.state.generation import Generation
from sources.storage.stores import Stores
from sources.storage.tables.delta import dataset_of, delta_table, is_delta_table, unreadable_table

SAME_PLACE = '_place = place AND _partition IS NOT DISTINCT FROM "partition" AND _offset = "offset"'
"""SQL condition that a row of a table of bad records lies where a row of the quarantine does."""
_NOTHING = pa.table(
    [pa.array([], pa.string()), pa.array([], pa.int32()), pa.array([], pa.int64())],
    ["place", "partition", "offset"],
)


def create_claims(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource | KafkaSource,
    generation: Generation | None,
    stores: Stores,
) -> None:
    """Create the table ``audit.claims``: records that the runs left out by their event time.

    Its columns are ``place`` (topic or file), ``partition`` and ``offset``, from the source's
    quarantine table, which holds these records under ``event_time.outside: drop``, too. An existing
    table is replaced.

    Args:
        connection: The audit's database.
        source: The source.
        generation: State whose runs wrote the quarantine table; None, for an empty table, without
            any.
        stores: Stores that the quarantine table may be in.

    Raises:
        InputError: The quarantine table exists but can't be read.
        UnavailableError: Its store does not answer.
    """
    claims = None if generation is None else _read_quarantine(source, generation, stores, "outside")
    connection.register("_quarantined", _NOTHING if claims is None else claims)
    connection.execute(
        'CREATE OR REPLACE TABLE audit.claims AS SELECT DISTINCT place, "partition", "offset" '
        "FROM _quarantined"
    )
    connection.unregister("_quarantined")


def count_not_quarantined(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource | KafkaSource,
    generation: Generation,
    stores: Stores,
    bad: str,
) -> int:
    """Return how many of a table of bad records are missing in the source's quarantine.

    Without a quarantine table all are. They are compared by place, partition and offset, whatever
    their kind.

    Args:
        connection: The audit's database.
        source: The source.
        generation: The generation whose runs wrote the quarantine table.
        stores: Stores that the quarantine table may be in.
        bad: SQL name of the table of bad records.

    Raises:
        InputError: The quarantine table exists but can't be read.
        UnavailableError: Its store does not answer.
    """
    kept = _read_quarantine(source, generation, stores)
    connection.register("_quarantined", _NOTHING if kept is None else kept)
    count = count_rows(connection, f"{bad} ANTI JOIN _quarantined ON {SAME_PLACE}")
    connection.unregister("_quarantined")
    return count


def count_quarantined(
    source: FileSource | KafkaSource, generation: Generation, stores: Stores, kind: str
) -> int:
    """Return how many records of a kind are in the source's quarantine; 0 without such a table.

    0, too, if the table is of a time without kinds.

    Args:
        source: The source.
        generation: The generation whose runs wrote the quarantine table.
        stores: Stores that the quarantine table may be in.
        kind: The kind, such as ``rule.amount_positive``.

    Raises:
        InputError: The quarantine table exists but can't be read.
        UnavailableError: Its store does not answer.
    """
    kept = _read_quarantine(source, generation, stores, kind)
    return 0 if kept is None else len(kept)


def _read_quarantine(
    source: FileSource | KafkaSource,
    generation: Generation,
    stores: Stores,
    kind: str | None = None,
) -> pa.Table | None:
    """Return place, partition and offset of the records in a source's quarantine table.

    Args:
        source: The source.
        generation: The generation whose runs wrote it.
        stores: Stores that it may be in.
        kind: Only records of this kind, such as ``outside``; all of them if left out.

    Returns:
        None if there is no such table.
    """
    folder = quarantine_folder(source.name, source.quarantine, generation, stores)
    if not is_delta_table(folder):
        return None
    try:
        table = delta_table(folder)
        columns = [*_NOTHING.column_names]
        if kind is not None:
            if "kind" not in {field.name for field in table.schema().fields}:
                return None
            columns.append("kind")
        rows = dataset_of(table).to_table(columns=columns)
    except (DeltaError, OSError) as error:
        what = f"The quarantine table of source `{source.name}`, {folder}, can't be read"
        repair = (
            "Restore its files and its `_delta_log` from a backup, then run `hybrid audit P` again."
        )
        raise unreadable_table(what, folder, error, repair) from None
    return rows if kind is None else rows.filter(pc.equal(rows["kind"], kind))
