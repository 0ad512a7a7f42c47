"""Which Delta tables need no table feature of a writer, so that rows are written without Spark.

Source of the rules: https://github.com/delta-io/delta/blob/master/PROTOCOL.md#table-features.
"""

from __future__ import annotations

from deltalake import DeltaTable

_BY_NAME = 7
"""Writer version from which on a table lists its features by name."""
_PLAIN = {"appendOnly", "invariants", "timestampNtz"}
_PLAIN_WRITER = 2


def is_plain(table: DeltaTable) -> bool:
    """Return whether a table's rows may be written without Spark, as no table feature needs it.

    So it is for a table without column mapping, constraints, generated columns and the like, in
    which each column may be null.

    Args:
        table: The table.
    """
    protocol = table.protocol()
    is_known = protocol.min_writer_version <= _PLAIN_WRITER or (
        protocol.min_writer_version == _BY_NAME
        and _PLAIN.issuperset(protocol.writer_features or [])
    )
    fields = table.schema().fields
    return is_known and all(
        each.nullable and "delta.invariants" not in each.metadata for each in fields
    )
