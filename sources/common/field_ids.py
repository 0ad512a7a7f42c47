"""Field ids, by which Parquet files of a table hold columns under any name."""

from __future__ import annotations

import pyarrow as pa

_KEY = b"PARQUET:field_id"


def field_id(field: pa.Field) -> int | None:
    """Return the field id (``PARQUET:field_id``) of a Parquet file's column; None without one."""
    number = (field.metadata or {}).get(_KEY)
    return None if number is None else int(number)
