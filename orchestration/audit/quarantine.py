"""The quarantine table of a source, as the audit reads it: what the runs say that they left out."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from orchestration.audit.sql import count_rows, error_text
from sources.common.state import Generation
from sources.config.bad_records import quarantine_path
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.errors import InputError

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
) -> None:
    """Create the table ``audit.claims``: what runs say that they left out for its event time.

    Its columns are ``place``, ``partition`` and ``offset``, from the source's quarantine table,
    which holds these records under ``event_time.outside: drop``, too.

    Raises:
        InputError: The quarantine table exists but can't be read.
    """
    claims = None if generation is None else _read_quarantine(source, generation, "outside")
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
    bad: str,
) -> int:
    """Return how many records of a table of bad records the source's quarantine does not hold.

    Args:
        connection: The audit's database.
        source: The source.
        generation: The generation whose runs wrote the quarantine table.
        bad: Name of the table of bad records.

    Raises:
        InputError: The quarantine table exists but can't be read.
    """
    kept = _read_quarantine(source, generation)
    connection.register("_quarantined", _NOTHING if kept is None else kept)
    count = count_rows(connection, f"{bad} ANTI JOIN _quarantined ON {SAME_PLACE}")
    connection.unregister("_quarantined")
    return count


def _read_quarantine(
    source: FileSource | KafkaSource, generation: Generation, kind: str | None = None
) -> pa.Table | None:
    """Return place, partition and offset of the records in a source's quarantine table.

    Args:
        source: The source.
        generation: The generation whose runs wrote it.
        kind: Only records of this kind, such as ``outside``; all of them if left out.

    Returns:
        None if there is no such table.

    Raises:
        InputError: The quarantine table can't be read.
    """
    path = quarantine_path(source.name, source.quarantine, generation)
    if not DeltaTable.is_deltatable(path):
        return None
    try:
        table = DeltaTable(path)
        columns = [*_NOTHING.column_names]
        if kind is not None:
            if "kind" not in {field.name for field in table.schema().fields}:
                return None
            columns.append("kind")
        rows = table.to_pyarrow_table(columns=columns)
    except (DeltaError, OSError) as error:
        message = (
            f"The quarantine table of source `{source.name}`, {path}, can't be read: "
            f"{error_text(error)}"
        )
        hint = (
            "Restore its files and its `_delta_log` from a backup, then run `hybrid audit` again."
        )
        raise InputError(message, hint, source=source.name, table=path) from None
    return rows if kind is None else rows.filter(pc.equal(rows["kind"], kind))
